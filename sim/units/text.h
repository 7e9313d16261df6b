// Units written as text and read back: "79.2 GiB", "400 Gbit/s", "6.6 us", "128K".
//
// Every parser reads the whole text or throws BadText: a bare number where a dimension is due,
// `Gb`, `TFLOPS`, `010`, `8x`, `.inf`, `nan` and a negative amount are refused, and the exception
// says what is accepted. Nothing here depends on the locale.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/units/units.h"

namespace trireme {

/// Text that is not what its place asks for; the caller knows the place.
class BadText : public std::invalid_argument {
 public:
  BadText(const std::string& problem, std::string hint)
      : std::invalid_argument(problem), hint_(std::move(hint)) {}

  /// What may stand there instead, such as "accepted: a number and one of the units B, KB, KiB".
  [[nodiscard]] const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

/// A whole number from 0 to 2^63 - 1 without sign, leading zero or unit.
[[nodiscard]] std::int64_t parse_count(std::string_view text);

/// A finite number: "1.5", "-3", "2e-6".
[[nodiscard]] double parse_number(std::string_view text);

/// A finite number that is not negative.
[[nodiscard]] double parse_non_negative_number(std::string_view text);

/// "20 %" or "20%" as the fraction 0.2.
[[nodiscard]] double parse_percentage(std::string_view text);

/// `true` or `false` and no other spelling.
[[nodiscard]] bool parse_bool(std::string_view text);

/// Any text that is not empty.
[[nodiscard]] std::string parse_word(std::string_view text);

/// "4 B", "8 KiB", "79.2 GiB", "80 GB". A fraction of a byte is rounded to the nearest byte.
[[nodiscard]] Bytes parse_bytes(std::string_view text);

/// "3.35 TB/s", "400 Gbit/s", "20 GiB/s".
[[nodiscard]] BytesPerSecond parse_bytes_per_second(std::string_view text);

/// "989 TFLOP/s", "2.25 PFLOP/s".
[[nodiscard]] FlopsPerSecond parse_flops_per_second(std::string_view text);

/// "6.6 us", "4 ns", "12 ms", "1 s".
[[nodiscard]] Seconds parse_seconds(std::string_view text);

/// "131072", "128K" (2^10 each) or "1M" (2^20 each).
[[nodiscard]] Tokens parse_tokens(std::string_view text);

/// The text that the parser above reads back to the same value, in the largest unit that keeps the
/// number whole (bytes, tokens) or at least 1 (rates and times, with the fewest digits).
[[nodiscard]] std::string to_text(Bytes amount);
[[nodiscard]] std::string to_text(Tokens amount);
[[nodiscard]] std::string to_text(Seconds time);
[[nodiscard]] std::string to_text(BytesPerSecond rate);
[[nodiscard]] std::string to_text(FlopsPerSecond rate);

/// The shortest decimal text that reads back to the same double.
[[nodiscard]] std::string to_text(double value);

}  // namespace trireme
