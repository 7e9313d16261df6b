// Sets of a tensor's instances, as intervals of its indices: what the derivation of lifetimes
// compares.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/program/tensor.h"

namespace trireme::program {

/// The values lo, lo + stride, ..., hi of an index.
struct Range {
  std::int32_t lo = 0;
  std::int32_t hi = 0;
  std::int32_t stride = 1;

  /// Whether every value of `other` is one of these.
  [[nodiscard]] bool contains(const Range& other) const {
    return lo <= other.lo && other.hi <= hi && (other.lo - lo) % stride == 0 &&
           (other.lo == other.hi || other.stride % stride == 0);
  }

  /// Whether no value is in both.
  [[nodiscard]] bool disjoint(const Range& other) const {
    if (hi < other.lo || other.hi < lo) {
      return true;
    }
    const std::int32_t common =
        std::gcd(lo == hi ? 0 : stride, other.lo == other.hi ? 0 : other.stride);
    return common > 1 && (other.lo - lo) % common != 0;
  }
};

/// Instances of a tensor: one range per index; indices it does not vary over stay at zero.
struct Instances {
  std::array<Range, kIndexCount> range{};

  [[nodiscard]] bool contains(const Instances& other) const {
    for (std::size_t i = 0; i < kIndexCount; ++i) {
      if (!range[i].contains(other.range[i])) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool disjoint(const Instances& other) const {
    for (std::size_t i = 0; i < kIndexCount; ++i) {
      if (range[i].disjoint(other.range[i])) {
        return true;
      }
    }
    return false;
  }
};

using Strides = std::array<std::int32_t, kIndexCount>;  // 0: only single values so far

/// Makes `strides` multiples of those of `instances` too, where they are not single values. Returns
/// false where it changed them.
inline bool adopt(Strides& strides, const Instances& instances) {
  bool same = true;
  for (std::size_t i = 0; i < kIndexCount; ++i) {
    const Range& range = instances.range[i];
    if (range.lo != range.hi) {
      same = same && (strides[i] == 0 || strides[i] == range.stride);
      strides[i] = strides[i] == 0 ? range.stride : std::lcm(strides[i], range.stride);
    }
  }
  return same;
}

/// Appends the parts of `whole` that have the strides, which are multiples of its own.
inline void refine(const Instances& whole, const Strides& strides, std::vector<Instances>& parts) {
  std::vector<Instances> done{whole};
  for (std::size_t i = 0; i < kIndexCount; ++i) {
    std::vector<Instances> finer;
    for (const Instances& part : done) {
      const Range& range = part.range[i];
      const std::int32_t stride = range.lo == range.hi ? 1 : strides[i];
      for (std::int32_t lo = range.lo; lo <= range.hi && lo < range.lo + stride;
           lo += range.stride) {
        Instances piece = part;
        const std::int32_t hi = lo + (range.hi - lo) / stride * stride;
        piece.range[i] = {lo, hi, lo == hi ? 1 : stride};
        finer.push_back(piece);
      }
    }
    done = std::move(finer);
  }
  parts.insert(parts.end(), done.begin(), done.end());
}

/// Takes `cut` out of `whole`, appending what is left to `rest`. All ranges have these strides.
inline void subtract(Instances whole,
                     const Instances& cut,
                     const Strides& strides,
                     std::vector<Instances>& rest) {
  if (whole.disjoint(cut)) {
    rest.push_back(whole);
    return;
  }
  for (std::size_t i = 0; i < kIndexCount; ++i) {
    Instances piece = whole;
    if (whole.range[i].lo < cut.range[i].lo) {
      piece.range[i].hi = cut.range[i].lo - strides[i];
      rest.push_back(piece);
      whole.range[i].lo = cut.range[i].lo;
    }
    piece = whole;
    if (whole.range[i].hi > cut.range[i].hi) {
      piece.range[i].lo = cut.range[i].hi + strides[i];
      rest.push_back(piece);
      whole.range[i].hi = cut.range[i].hi;
    }
  }
}

}  // namespace trireme::program
