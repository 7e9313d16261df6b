// The numbers that probes fill buffers with: the host computes any of them again without a copy.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TRIREME_HOST_DEVICE __host__ __device__
#else
#define TRIREME_HOST_DEVICE
#endif

namespace trireme::calibrate {

/// A well-mixed number for each index of a buffer, `seed` saying which buffer.
/// Source: steele2014: the output function of SplitMix64
TRIREME_HOST_DEVICE constexpr std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = index + seed * 0x9e3779b97f4a7c15ULL + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

/// One of the odd multiples of 1/128 between -1 and 1: exact in bf16, of mean 0 and variance 1/3.
TRIREME_HOST_DEVICE constexpr float uniform_value(std::uint64_t seed, std::uint64_t index) {
  const auto seven_bits = static_cast<int>(mixed(seed, index) & 127U);
  return static_cast<float>(2 * seven_bits - 127) / 128.0F;
}

/// What rank `source` holds at `index` before a collective that moves data: any 16 bits.
TRIREME_HOST_DEVICE constexpr std::uint16_t moved_bits(std::uint64_t source, std::uint64_t index) {
  return static_cast<std::uint16_t>(mixed(source + 1, index));
}

/// What rank `source` adds at `index` to a sum over `ranks`: 0 or 1, so rarely 1 in large groups
/// that the sum stays below 256, up to which bf16 holds every whole number in any order of adding.
TRIREME_HOST_DEVICE constexpr int summand(std::uint64_t source,
                                          std::uint64_t index,
                                          std::uint64_t ranks) {
  const std::uint64_t one_in = ranks <= 256 ? 2 : 1 + ranks / 64;
  return mixed(source + 1, index) % one_in == 0 ? 1 : 0;
}

}  // namespace trireme::calibrate
