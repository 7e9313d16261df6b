#include "sim/report/numbers.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace trireme::report {

namespace {

constexpr double kKibi = 1024;

/// Three significant digits, without an exponent: "28", "1.75", "12.5", "1234".
std::string three_digits(double value) {
  const double size = std::fabs(value);
  if (size >= 99.95) {
    return fmt::format("{:.0f}", value);
  }
  std::string text = fmt::format("{:.{}f}", value, size >= 9.995 ? 1 : 2);
  while (text.back() == '0') {
    text.pop_back();
  }
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

template <class Digits>
std::string in_unit(Seconds time, Digits digits) {
  const double seconds = time.value();
  const double size = std::fabs(seconds);
  if (size == 0 || size >= 0.9995) {
    return fmt::format("{} s", digits(seconds));
  }
  if (size >= 0.9995e-3) {
    return fmt::format("{} ms", digits(seconds * 1e3));
  }
  return fmt::format("{} us", digits(seconds * 1e6));
}

}  // namespace

double nine_digits(double value) {
  return std::strtod(fmt::format("{:.9g}", value).c_str(), nullptr);
}

std::string nine_digit_text(double value) {
  return fmt::format("{}", nine_digits(value));
}

std::string gibibytes(Bytes amount) {
  return fmt::format("{:.2f}", static_cast<double>(amount.value()) / (kKibi * kKibi * kKibi));
}

std::string human(Bytes amount) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(amount.value());
  std::size_t unit = 0;
  while (std::fabs(value) >= kKibi && unit + 1 < kUnits.size()) {
    value /= kKibi;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kUnits[unit]);
}

std::string human(Seconds time) {
  return in_unit(time, three_digits);
}

std::string fine(Seconds time) {
  return in_unit(time, [](double value) { return fmt::format("{:.5g}", value); });
}

std::string human(Elements count) {
  const auto value = static_cast<double>(count.value());
  if (value >= 1e9) {
    return fmt::format("{} billion", three_digits(value / 1e9));
  }
  if (value >= 1e6) {
    return fmt::format("{} million", three_digits(value / 1e6));
  }
  return with_thousands(value);
}

std::string percent(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}

std::string with_thousands(double value) {
  std::string text = fmt::format("{:.0f}", value);
  const std::size_t digits_begin = text.front() == '-' ? 1 : 0;
  for (std::size_t at = text.size(); at > digits_begin + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string along_key(const std::string& key, double value) {
  if (key == "workload.sequence") {
    return value >= kKibi * kKibi ? fmt::format("{}M", three_digits(value / (kKibi * kKibi)))
                                  : fmt::format("{}K", three_digits(value / kKibi));
  }
  return fmt::format("{:.3g}", value);
}

}  // namespace trireme::report
