#include "calibrate/import/log_lines.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "calibrate/import/text_place.h"

namespace trireme::calibrate {

namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\x07';

/// Where the control sequence that begins at `start` ends: colours, cursor movements, titles.
std::size_t end_of_escape(std::string_view text, std::size_t start) {
  std::size_t at = start + 1;
  if (at >= text.size()) {
    return text.size();
  }
  const char kind = text[at++];
  if (kind == '[') {
    while (at < text.size() && text[at] >= 0x20 && text[at] < 0x40) {
      ++at;
    }
    return std::min(at + 1, text.size());
  }
  if (kind == ']') {
    while (at < text.size() && text[at] != kBell && text[at] != kEscape) {
      ++at;
    }
    const bool by_escape = at + 1 < text.size() && text[at] == kEscape && text[at + 1] == '\\';
    return std::min(at + (by_escape ? 2 : 1), text.size());
  }
  return at;
}

void blank_escapes(std::string& text) {
  for (std::size_t at = text.find(kEscape); at != std::string::npos; at = text.find(kEscape, at)) {
    const std::size_t end = end_of_escape(text, at);
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(at),
              text.begin() + static_cast<std::ptrdiff_t>(end),
              ' ');
  }
}

/// "[1,0]<stdout>:" of mpirun --tag-output, which stands wherever a write of the rank began, in the
/// middle of a row as well.
void blank_tags(std::string& text) {
  constexpr std::array<std::string_view, 3> kStreams = {"]<stdout>:", "]<stderr>:", "]<stddiag>:"};
  constexpr std::size_t kLongestTag = 128;
  for (const std::string_view stream : kStreams) {
    for (std::size_t at = text.find(stream); at != std::string::npos; at = text.find(stream, at)) {
      const std::size_t end = at + stream.size();
      std::size_t begin = text.rfind('[', at);
      if (begin == std::string::npos || at - begin > kLongestTag) {
        begin = at;
      }
      std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin),
                text.begin() + static_cast<std::ptrdiff_t>(end),
                ' ');
      at = end;
    }
  }
}

bool is_space(char character) {
  return character == ' ' || character == '\t' || character == '\v' || character == '\f';
}

}  // namespace

LogLines::LogLines(std::string_view text) : rest_(without_byte_order_mark(text)) {}

std::optional<LogLine> LogLines::next() {
  if (rest_.empty()) {
    return std::nullopt;
  }
  LogLine line;
  line.number = number_;
  const std::size_t end = rest_.find_first_of("\r\n");
  line.raw = rest_.substr(0, end);
  line.ended = end != std::string_view::npos;
  if (line.ended) {
    const bool both = rest_.substr(end).starts_with("\r\n");
    number_ += both || rest_[end] == '\n' ? 1 : 0;
    rest_.remove_prefix(end + (both ? 2 : 1));
  } else {
    rest_ = {};
  }
  line.too_long = line.raw.size() > kLongestLine;
  if (!line.too_long) {
    line.text = line.raw;
    blank_escapes(line.text);
    blank_tags(line.text);
  }
  return line;
}

std::vector<LogToken> tokens_of(std::string_view text) {
  std::vector<LogToken> tokens;
  std::size_t at = 0;
  while (at < text.size()) {
    if (is_space(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && !is_space(text[end])) {
      ++end;
    }
    tokens.push_back({text.substr(at, end - at), static_cast<int>(at) + 1});
    at = end;
  }
  return tokens;
}

}  // namespace trireme::calibrate
