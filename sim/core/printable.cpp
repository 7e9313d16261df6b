#include "sim/core/printable.h"

#include <algorithm>
#include <cstdint>

#include <fmt/core.h>

namespace trireme {
namespace {

constexpr char32_t kInvalid = 0xFFFFFFFF;

/// The length that a lead byte announces, or 0 for a byte that starts no character.
std::size_t announced_length(unsigned char lead) {
  if (lead < 0x80U) {
    return 1;
  }
  if (lead >= 0xC2U && lead <= 0xDFU) {
    return 2;
  }
  if (lead >= 0xE0U && lead <= 0xEFU) {
    return 3;
  }
  if (lead >= 0xF0U && lead <= 0xF4U) {
    return 4;
  }
  return 0;
}

/// The character at `at`, or kInvalid for a truncated, overlong or surrogate sequence.
char32_t decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = announced_length(byte(at));
  if (length == 0 || at + length > text.size()) {
    return kInvalid;
  }
  if (length == 1) {
    return byte(at);
  }
  char32_t character = byte(at) & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) {
      return kInvalid;
    }
    character = (character << 6U) | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (length == 3 && character < 0x800) || (length == 4 && character < 0x10000);
  const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
  return overlong || surrogate || character > 0x10FFFF ? kInvalid : character;
}

bool is_harmful(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7F && c <= 0x9F);
  const bool direction =
      c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  const bool line_break = c == 0x2028 || c == 0x2029;
  return control || direction || line_break || c == kInvalid;
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  return decode(text, at) == kInvalid ? 1 : announced_length(static_cast<unsigned char>(text[at]));
}

std::size_t utf8_count(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text, at)) {
    ++count;
  }
  return count;
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && decode(text, at) != kInvalid) {
    at += utf8_length(text, at);
  }
  return at;
}

std::string printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const char32_t character = decode(text, at);
    if (character == '\t' || character == '\n' || character == '\r') {
      clean += ' ';
    } else if (is_harmful(character)) {
      clean += '?';
    } else {
      clean += text.substr(at, length);
    }
    at += length;
  }
  return clean;
}

std::string in_quotes(std::string_view text, std::size_t characters) {
  std::size_t end = 0;
  for (std::size_t count = 0; end < text.size() && count < characters; ++count) {
    end += utf8_length(text, end);
  }
  return fmt::format("'{}{}'", printable(text.substr(0, end)), end < text.size() ? "..." : "");
}

}  // namespace trireme
