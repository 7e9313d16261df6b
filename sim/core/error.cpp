#include "sim/core/error.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "sim/core/printable.h"
#include "sim/units/units.h"

namespace trireme {
namespace {

/// The part of a line that is shown, and where the caret stands below it.
struct Excerpt {
  std::string text;
  std::size_t caret = 0;  // characters before it
};

/// Offset of the character number `count`, or the end.
std::size_t offset_of(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  while (count > 0 && at < text.size()) {
    at += utf8_length(text, at);
    --count;
  }
  return at;
}

/// At most kWidth characters around the column, with "..." where something was left out.
Excerpt cut_around(const SourceLocation& where) {
  constexpr std::size_t kWidth = 96;
  const std::string_view line = where.source_line;
  const std::size_t characters = utf8_count(line);
  const int before = std::max(0, where.column - 1 - where.source_line_skip);
  const std::size_t column = std::min(static_cast<std::size_t>(before), characters);
  const std::size_t first = column > kWidth * 3 / 4 ? column - kWidth / 2 : 0;
  const std::size_t last = std::min(characters, first + kWidth);
  const std::size_t begin = offset_of(line, first);
  const std::string_view shown = line.substr(begin, offset_of(line.substr(begin), last - first));
  const std::string head = first > 0 || where.source_line_skip > 0 ? "..." : "";
  const std::string tail = last < characters ? "..." : "";
  return {head + printable(shown) + tail, head.size() + column - first};
}

void append_place(std::string& out,
                  const SourceLocation& where,
                  std::string_view severity,
                  const std::string& message) {
  const std::string place = to_text(where);
  out += fmt::format("{}{}{}: {}", place, place.empty() ? "" : ": ", severity, printable(message));
  if (where.line > 0 && !where.source_line.empty()) {
    const Excerpt excerpt = cut_around(where);
    out += fmt::format("\n  {}\n  {}^", excerpt.text, std::string(excerpt.caret, ' '));
  }
}

}  // namespace

std::string to_text(const SourceLocation& where) {
  if (where.line <= 0) {
    return printable(where.file);
  }
  return fmt::format("{}:{}:{}", printable(where.file), where.line, where.column);
}

Error::Error(ErrorKind kind,
             SourceLocation where,
             std::string message,
             std::string hint,
             std::vector<ErrorNote> notes)
    : kind_(kind),
      where_(std::move(where)),
      message_(std::move(message)),
      hint_(std::move(hint)),
      notes_(std::move(notes)) {
  append_place(printed_, where_, "error", message_);
  if (!hint_.empty()) {
    printed_ += fmt::format("\nhint: {}", printable(hint_));
  }
  for (const ErrorNote& note : notes_) {
    printed_ += '\n';
    append_place(printed_, note.where, "note", note.message);
  }
}

ExitCode Error::exit_code() const {
  switch (kind_) {
    case ErrorKind::command_line:
      return ExitCode::command_line;
    case ErrorKind::input:
      return ExitCode::input_file;
    case ErrorKind::device:
      return ExitCode::device;
  }
  throw std::logic_error("Error: a kind without an exit code");
}

}  // namespace trireme
