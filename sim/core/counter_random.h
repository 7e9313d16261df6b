// Random numbers that a counter alone decides: order, threads and sharding cannot change them.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace trireme {

/// One round of splitmix64, which turns a counter into bits without a pattern.
[[nodiscard]] constexpr std::uint64_t mixed_bits(std::uint64_t counter) {
  counter += 0x9e3779b97f4a7c15U;
  counter = (counter ^ (counter >> 30U)) * 0xbf58476d1ce4e5b9U;
  counter = (counter ^ (counter >> 27U)) * 0x94d049bb133111ebU;
  return counter ^ (counter >> 31U);
}

/// A number in (0, 1] from the upper 53 bits.
[[nodiscard]] inline double unit_interval(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11U) + 0.5) * 0x1p-53;
}

/// A standard normal number: Box and Muller's pair, of which one is taken.
[[nodiscard]] inline double standard_normal(std::uint64_t bits) {
  const double radius = std::sqrt(-2.0 * std::log(unit_interval(bits)));
  return radius * std::cos(2.0 * std::numbers::pi * unit_interval(mixed_bits(bits)));
}

}  // namespace trireme
