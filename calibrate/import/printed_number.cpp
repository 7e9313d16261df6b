#include "calibrate/import/printed_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace trireme::calibrate {

namespace {

constexpr std::size_t kLongestNumber = 40;

bool is_digit(char character) {
  return character >= '0' && character <= '9';
}

std::size_t count_digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) -
                                  text.begin());
}

PrintedNumber around(double value, double half_unit) {
  return {value, {std::max(0.0, value - half_unit), value + half_unit}};
}

}  // namespace

Interval intersection(const Interval& a, const Interval& b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

Interval with_rounding(const Interval& interval) {
  constexpr double kSlack = 16 * std::numeric_limits<double>::epsilon();
  return {interval.low * (1 - kSlack), interval.high * (1 + kSlack)};
}

std::optional<PrintedNumber> parse_printed_number(std::string_view text) {
  if (text.size() > kLongestNumber) {
    return std::nullopt;
  }
  std::string_view rest = text;
  const std::size_t whole = count_digits(rest);
  rest.remove_prefix(whole);
  int decimals = 0;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    const std::size_t fraction = count_digits(rest);
    if (fraction == 0) {
      return std::nullopt;
    }
    decimals = static_cast<int>(fraction);
    rest.remove_prefix(fraction);
  }
  if (whole == 0) {
    return std::nullopt;
  }
  int exponent = 0;
  if (rest.starts_with('e')) {
    rest.remove_prefix(rest.starts_with("e+") ? 2 : 1);
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), exponent);
    if (problem != std::errc() || end != rest.data() + rest.size()) {
      return std::nullopt;
    }
  } else if (!rest.empty()) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return around(value, 0.5 * std::pow(10.0, exponent - decimals));
}

PrintedNumber printed_with_decimals(double value, int decimals) {
  return around(value, 0.5 * std::pow(10.0, -decimals));
}

double with_moved_point(double value, int exponent) {
  std::array<char, 64> shortest{};
  const auto written = std::to_chars(
      shortest.data(), shortest.data() + shortest.size(), value, std::chars_format::scientific);
  const std::string_view digits(shortest.data(), written.ptr);
  const std::size_t mark = digits.find('e');
  int own = 0;
  const std::size_t sign = digits[mark + 1] == '+' ? 1 : 0;
  std::from_chars(digits.data() + mark + 1 + sign, digits.data() + digits.size(), own);
  const std::string moved = fmt::format("{}e{}", digits.substr(0, mark), own + exponent);
  double result = 0;
  std::from_chars(moved.data(), moved.data() + moved.size(), result);
  return result;
}

}  // namespace trireme::calibrate
