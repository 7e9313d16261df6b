// Byte offsets of a text -> places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "sim/config/node.h"
#include "sim/core/printable.h"

namespace trireme::config {

/// Turns byte offsets, which mostly grow, into lines and columns in characters without counting a
/// line twice.
class Locator {
 public:
  explicit Locator(std::shared_ptr<const SourceText> source) : source_(std::move(source)) {}

  Position at(std::size_t offset) {
    const std::string_view text = source_->text();
    offset = std::min(offset, text.size());
    const int line = source_->line_at(offset);
    const std::size_t start = source_->line_start(line);
    if (line != line_ || offset < counted_) {
      line_ = line;
      counted_ = start;
      column_ = 1;
    }
    column_ += static_cast<int>(utf8_count(text.substr(counted_, offset - counted_)));
    counted_ = offset;
    return Position{source_, offset, line, column_};
  }

 private:
  std::shared_ptr<const SourceText> source_;
  int line_ = 0;
  std::size_t counted_ = 0;
  int column_ = 1;
};

}  // namespace trireme::config
