#include "calibrate/import/text_place.h"

#include <algorithm>

#include "sim/core/printable.h"

namespace trireme::calibrate {

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

SourceLocation place_of_byte(const std::string& file, std::string_view text, std::size_t byte) {
  constexpr std::size_t kShownBefore = 400;
  constexpr std::size_t kShown = 800;
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t line_start = before.find_last_of('\n') + 1;
  const std::string_view in_line = before.substr(line_start);
  // Of a long line only the surroundings; a cut within a character is shown as '?'.
  const std::size_t left_out = in_line.size() > kShown ? in_line.size() - kShownBefore : 0;
  const std::string_view shown = text.substr(line_start + left_out, kShown);
  return {.file = file,
          .line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          .column = 1 + static_cast<int>(utf8_count(in_line)),
          .source_line = std::string(shown.substr(0, shown.find_first_of("\r\n"))),
          .source_line_skip = static_cast<int>(utf8_count(in_line.substr(0, left_out)))};
}

}  // namespace trireme::calibrate
