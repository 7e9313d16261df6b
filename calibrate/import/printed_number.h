// Numbers as a program printed them: the digits say between which bounds the true value lies.
#pragma once

#include <optional>
#include <string_view>

namespace trireme::calibrate {

struct Interval {
  double low = 0;
  double high = 0;

  /// False for bounds that are not numbers.
  [[nodiscard]] bool empty() const { return !(low <= high); }
};

/// What lies in both; empty() when nothing does.
[[nodiscard]] Interval intersection(const Interval& a, const Interval& b);

/// `interval` a little wider, by the rounding of a few operations on doubles.
[[nodiscard]] Interval with_rounding(const Interval& interval);

struct PrintedNumber {
  double value = 0;
  Interval range;  // of the true value: half a unit of the last printed digit to either side
};

/// "12.50", "7", "1.7e+07": a number that is not negative. Nullopt for anything else: a sign,
/// "nan", trailing text, more than 40 characters.
[[nodiscard]] std::optional<PrintedNumber> parse_printed_number(std::string_view text);

/// A number that was printed with `decimals` digits behind the point.
[[nodiscard]] PrintedNumber printed_with_decimals(double value, int decimals);

/// value * 10^exponent as its shortest decimal text would be read with a moved point: 798.52 and -6
/// give 0.00079852, which a division misses by a rounding.
[[nodiscard]] double with_moved_point(double value, int exponent);

}  // namespace trireme::calibrate
