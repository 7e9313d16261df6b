#include "sim/units/text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <system_error>

#include <fmt/core.h>

namespace trireme {
namespace {

/// A unit is a power of ten times a whole factor: GiB = 10^0 * 2^30, Gbit/s = 10^9 / 8.
struct Unit {
  std::string_view name;
  int decimal_exponent;
  std::int64_t factor;
  std::int64_t divisor;
};

constexpr std::int64_t kKi = std::int64_t{1} << 10;
constexpr std::int64_t kMi = std::int64_t{1} << 20;
constexpr std::int64_t kGi = std::int64_t{1} << 30;
constexpr std::int64_t kTi = std::int64_t{1} << 40;

constexpr std::array<Unit, 9> kByteUnits = {{{"B", 0, 1, 1},
                                             {"KB", 3, 1, 1},
                                             {"MB", 6, 1, 1},
                                             {"GB", 9, 1, 1},
                                             {"TB", 12, 1, 1},
                                             {"KiB", 0, kKi, 1},
                                             {"MiB", 0, kMi, 1},
                                             {"GiB", 0, kGi, 1},
                                             {"TiB", 0, kTi, 1}}};

constexpr std::array<Unit, 14> kByteRateUnits = {{{"B/s", 0, 1, 1},
                                                  {"KB/s", 3, 1, 1},
                                                  {"MB/s", 6, 1, 1},
                                                  {"GB/s", 9, 1, 1},
                                                  {"TB/s", 12, 1, 1},
                                                  {"KiB/s", 0, kKi, 1},
                                                  {"MiB/s", 0, kMi, 1},
                                                  {"GiB/s", 0, kGi, 1},
                                                  {"TiB/s", 0, kTi, 1},
                                                  {"bit/s", 0, 1, 8},
                                                  {"Kbit/s", 3, 1, 8},
                                                  {"Mbit/s", 6, 1, 8},
                                                  {"Gbit/s", 9, 1, 8},
                                                  {"Tbit/s", 12, 1, 8}}};

constexpr std::array<Unit, 5> kFlopRateUnits = {{{"FLOP/s", 0, 1, 1},
                                                 {"MFLOP/s", 6, 1, 1},
                                                 {"GFLOP/s", 9, 1, 1},
                                                 {"TFLOP/s", 12, 1, 1},
                                                 {"PFLOP/s", 15, 1, 1}}};

constexpr std::array<Unit, 4> kTimeUnits = {
    {{"ns", -9, 1, 1}, {"us", -6, 1, 1}, {"ms", -3, 1, 1}, {"s", 0, 1, 1}}};

constexpr const char* kAcceptedCount = "accepted: a whole number, such as 8";
constexpr const char* kAcceptedNumber = "accepted: a number, such as 1.5 or 2e-6";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The user's text for a message: short, and in quotes.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  if (text.size() <= kLongest) {
    return fmt::format("'{}'", text);
  }
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;  // not inside a UTF-8 character
  }
  return fmt::format("'{}...'", text.substr(0, end));
}

/// An unsigned decimal number at the head of a text, split so that a unit's power of ten can be
/// added to its exponent before the one rounding to double.
struct Decimal {
  std::string_view mantissa;
  std::int64_t exponent = 0;
  bool whole = true;      // neither a fraction nor an exponent
  std::string_view rest;  // what follows the number
};

/// nullopt: the text does not start with a digit.
std::optional<Decimal> split_decimal(std::string_view text) {
  std::size_t at = 0;
  const auto skip_digits = [&] {
    const std::size_t first = at;
    while (at < text.size() && is_digit(text[at])) {
      ++at;
    }
    return at - first;
  };
  if (skip_digits() == 0) {
    return std::nullopt;
  }
  Decimal number;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    ++at;
    skip_digits();
    number.whole = false;
  }
  number.mantissa = text.substr(0, at);
  const std::size_t before_exponent = at;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    bool negative = false;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      negative = text[at] == '-';
      ++at;
    }
    const std::size_t first = at;
    if (skip_digits() > 0) {
      constexpr std::int64_t kBeyondAnyDouble = 1'000'000;
      std::int64_t exponent = 0;
      const auto parsed = std::from_chars(text.data() + first, text.data() + at, exponent);
      if (parsed.ec != std::errc{} || exponent > kBeyondAnyDouble) {
        exponent = kBeyondAnyDouble;
      }
      number.exponent = negative ? -exponent : exponent;
      number.whole = false;
    } else {
      at = before_exponent;  // the 'e' starts a unit or is a mistake
    }
  }
  number.rest = text.substr(at);
  return number;
}

bool has_leading_zero(std::string_view mantissa) {
  return mantissa.size() > 1 && mantissa[0] == '0' && is_digit(mantissa[1]);
}

[[noreturn]] void throw_bad(std::string_view text, const char* problem, std::string accepted) {
  throw BadText(fmt::format("{} {}", in_quotes(text), problem), std::move(accepted));
}

/// The number at the head of `text`, which must not be negative or have a leading zero.
Decimal leading_decimal(std::string_view text, const std::string& accepted) {
  if (text.empty()) {
    throw BadText("an empty text", accepted);
  }
  const bool negative = text[0] == '-' && text.size() > 1 && is_digit(text[1]);
  if (negative) {
    throw_bad(text, "is negative", accepted);
  }
  const std::optional<Decimal> number = split_decimal(text);
  if (!number) {
    throw_bad(text, "is not a number", accepted);
  }
  if (has_leading_zero(number->mantissa)) {
    throw_bad(text, "has a leading zero", accepted);
  }
  return *number;
}

double to_double(std::string_view text,
                 const Decimal& number,
                 int decimal_exponent,
                 const std::string& accepted) {
  const std::string scaled =
      fmt::format("{}e{}", number.mantissa, number.exponent + decimal_exponent);
  double value = 0;
  const auto parsed = std::from_chars(scaled.data(), scaled.data() + scaled.size(), value);
  if (parsed.ec != std::errc{} || !std::isfinite(value)) {
    throw_bad(text, "is out of range", accepted);
  }
  return value;
}

std::string accepted_units(std::span<const Unit> units) {
  std::string accepted = "accepted: a number and one of the units ";
  for (const Unit& unit : units) {
    accepted += unit.name;
    accepted += unit.name == units.back().name ? "" : ", ";
  }
  return accepted;
}

std::string_view skip_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  return text;
}

const Unit& find_unit(std::string_view text,
                      const Decimal& number,
                      std::span<const Unit> units,
                      const std::string& accepted) {
  const std::string_view unit_name = skip_spaces(number.rest);
  if (unit_name.empty()) {
    throw_bad(text, "has no unit", accepted);
  }
  for (const Unit& unit : units) {
    if (unit.name == unit_name) {
      return unit;
    }
  }
  throw BadText(fmt::format("{} has the unknown unit {}", in_quotes(text), in_quotes(unit_name)),
                accepted);
}

double parse_dimension(std::string_view text, std::span<const Unit> units) {
  const std::string accepted = accepted_units(units);
  const Decimal number = leading_decimal(text, accepted);
  const Unit& unit = find_unit(text, number, units, accepted);
  const double value = to_double(text, number, unit.decimal_exponent, accepted) *
                       static_cast<double>(unit.factor) / static_cast<double>(unit.divisor);
  if (!std::isfinite(value)) {
    throw_bad(text, "is out of range", accepted);
  }
  return value;
}

/// digits * factor, or nullopt beyond 2^63 - 1.
std::optional<std::int64_t> scaled_integer(std::string_view digits, std::int64_t factor) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc{} || value > std::numeric_limits<std::int64_t>::max() / factor) {
    return std::nullopt;
  }
  return value * factor;
}

std::int64_t power_of_ten(int exponent) {
  std::int64_t power = 1;
  for (int i = 0; i < exponent; ++i) {
    power *= 10;
  }
  return power;
}

/// `value` (finite, not negative) in the largest decimal unit in which it is at least 1, with the
/// shortest digits that read back to the same double.
std::string decimal_text(double value, std::span<const Unit> units) {
  ensure(std::isfinite(value) && value >= 0, "decimal_text: not finite, or negative");
  std::array<char, 64> buffer{};
  const auto written = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view scientific(buffer.data(),
                                    static_cast<std::size_t>(written.ptr - buffer.data()));
  const std::size_t e = scientific.find('e');
  std::string digits(scientific.substr(0, e));
  if (digits.size() > 1) {
    digits.erase(1, 1);  // the decimal point after the first digit
  }
  int exponent = 0;
  const std::size_t exponent_start = scientific[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(
      scientific.data() + exponent_start, scientific.data() + scientific.size(), exponent);
  const Unit* chosen = nullptr;
  for (const Unit& unit : units) {
    const bool decimal = unit.factor == 1 && unit.divisor == 1;
    if (decimal && (chosen == nullptr || unit.decimal_exponent <= exponent)) {
      chosen = &unit;
    }
  }
  const int point = exponent - chosen->decimal_exponent;  // digits before the point, less one
  if (value != 0 && (point < 0 || point > 6)) {
    const std::string tail = digits.size() > 1 ? fmt::format(".{}", digits.substr(1)) : "";
    return fmt::format("{}{}e{} {}", digits[0], tail, point, chosen->name);
  }
  const auto before_point = static_cast<std::size_t>(value == 0 ? 1 : point + 1);
  if (digits.size() < before_point) {
    digits.append(before_point - digits.size(), '0');
  }
  if (digits.size() > before_point) {
    digits.insert(before_point, 1, '.');
  }
  return fmt::format("{} {}", digits, chosen->name);
}

}  // namespace

std::int64_t parse_count(std::string_view text) {
  const Decimal number = leading_decimal(text, kAcceptedCount);
  if (!number.whole || !number.rest.empty()) {
    throw_bad(text, "is not a whole number", kAcceptedCount);
  }
  const std::optional<std::int64_t> value = scaled_integer(number.mantissa, 1);
  if (!value) {
    throw_bad(text, "is out of range", kAcceptedCount);
  }
  return *value;
}

double parse_non_negative_number(std::string_view text) {
  const Decimal number = leading_decimal(text, kAcceptedNumber);
  if (!number.rest.empty()) {
    throw_bad(text, "is not a number", kAcceptedNumber);
  }
  return to_double(text, number, 0, kAcceptedNumber);
}

double parse_number(std::string_view text) {
  const bool negative = text.size() > 1 && text[0] == '-' && text[1] != '-';
  return negative ? -parse_non_negative_number(text.substr(1)) : parse_non_negative_number(text);
}

double parse_percentage(std::string_view text) {
  const std::string accepted = "accepted: a percentage, such as 20 %";
  const Decimal number = leading_decimal(text, accepted);
  if (skip_spaces(number.rest) != "%") {
    throw_bad(text, "is not a percentage", accepted);
  }
  return to_double(text, number, -2, accepted);
}

bool parse_bool(std::string_view text) {
  if (text != "true" && text != "false") {
    throw_bad(text, "is neither true nor false", "accepted: true or false");
  }
  return text == "true";
}

std::string parse_word(std::string_view text) {
  if (text.empty()) {
    throw BadText("an empty text", "accepted: a word");
  }
  return std::string(text);
}

Bytes parse_bytes(std::string_view text) {
  const std::string accepted = accepted_units(kByteUnits);
  const Decimal number = leading_decimal(text, accepted);
  const Unit& unit = find_unit(text, number, kByteUnits, accepted);
  if (number.whole) {
    const std::int64_t factor = unit.factor * power_of_ten(unit.decimal_exponent);
    const std::optional<std::int64_t> exact = scaled_integer(number.mantissa, factor);
    if (!exact) {
      throw_bad(text, "is out of range", accepted);
    }
    return Bytes(*exact);
  }
  constexpr double kTwoTo63 = 9223372036854775808.0;
  const double value = std::round(parse_dimension(text, kByteUnits));
  if (value >= kTwoTo63) {
    throw_bad(text, "is out of range", accepted);
  }
  return Bytes(static_cast<std::int64_t>(value));
}

BytesPerSecond parse_bytes_per_second(std::string_view text) {
  return BytesPerSecond(parse_dimension(text, kByteRateUnits));
}

FlopsPerSecond parse_flops_per_second(std::string_view text) {
  return FlopsPerSecond(parse_dimension(text, kFlopRateUnits));
}

Seconds parse_seconds(std::string_view text) {
  return Seconds(parse_dimension(text, kTimeUnits));
}

Tokens parse_tokens(std::string_view text) {
  const std::string accepted =
      "accepted: a whole number of tokens, such as 131072, 128K (2^10) or 1M (2^20)";
  const Decimal number = leading_decimal(text, accepted);
  std::int64_t factor = 0;
  if (number.rest.empty()) {
    factor = 1;
  } else if (number.rest == "K") {
    factor = kKi;
  } else if (number.rest == "M") {
    factor = kMi;
  }
  if (!number.whole || factor == 0) {
    throw_bad(text, "is not a number of tokens", accepted);
  }
  const std::optional<std::int64_t> value = scaled_integer(number.mantissa, factor);
  if (!value) {
    throw_bad(text, "is out of range", accepted);
  }
  return Tokens(*value);
}

std::string to_text(Bytes amount) {
  const std::int64_t value = amount.value();

  struct BinaryUnit {
    std::int64_t factor;
    const char* name;
  };

  constexpr std::array<BinaryUnit, 4> kBinaryUnits = {
      {{kTi, "TiB"}, {kGi, "GiB"}, {kMi, "MiB"}, {kKi, "KiB"}}};
  for (const BinaryUnit& unit : kBinaryUnits) {
    if (value != 0 && value % unit.factor == 0) {
      return fmt::format("{} {}", value / unit.factor, unit.name);
    }
  }
  return fmt::format("{} B", value);
}

std::string to_text(Tokens amount) {
  const std::int64_t value = amount.value();
  if (value != 0 && value % kMi == 0) {
    return fmt::format("{}M", value / kMi);
  }
  if (value != 0 && value % kKi == 0) {
    return fmt::format("{}K", value / kKi);
  }
  return fmt::format("{}", value);
}

std::string to_text(Seconds time) {
  return decimal_text(time.value(), kTimeUnits);
}

std::string to_text(BytesPerSecond rate) {
  return decimal_text(rate.value(), kByteRateUnits);
}

std::string to_text(FlopsPerSecond rate) {
  return decimal_text(rate.value(), kFlopRateUnits);
}

std::string to_text(double value) {
  std::array<char, 64> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), written.ptr};
}

}  // namespace trireme
