// Which rank holds which element of a tensor, from its layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/mesh.h"
#include "sim/program/tensor.h"

namespace trireme::program {

/// The range of dimension `dim` that one rank holds: [first, first + count), in logical indices.
/// Padding is left out, so that the last ranks may hold less or nothing.
struct OwnedRange {
  std::int64_t first = 0;
  std::int64_t count = 0;

  [[nodiscard]] bool contains(std::int64_t index) const {
    return index >= first && index < first + count;
  }
};

/// Not of a flat shard, which has no range of a dimension. Throws std::logic_error there.
[[nodiscard]] OwnedRange owned_range(const Mesh& mesh,
                                     const Tensor& tensor,
                                     int dim,
                                     std::int64_t rank);

/// The ranks that hold the element at `indices`, one index for each of the tensor's leading
/// dimensions (missing ones count as held). Ascending.
[[nodiscard]] std::vector<std::int64_t> owners_of(const Mesh& mesh,
                                                  const Tensor& tensor,
                                                  std::span<const std::int64_t> indices);

}  // namespace trireme::program
