// Where the ranks of a group sit on a cluster.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cost/collective_bytes.h"
#include "sim/program/mesh.h"

namespace trireme::engine {

/// The group's ranks, and how many of them share a node when ranks fill nodes in order.
///
/// EQ ranks-per-node: p = product over axes i of the group with s(i) < G of min(n(i), G / s(i))
///   n(i)  size of mesh axis i                                                      [ranks]
///   s(i)  stride: ranks between neighbours along axis i, the product of inner sizes  [ranks]
///   G     gpus_per_node                                                            [ranks]
///   p     result.ranks_per_node                                                    [ranks]
/// Source: derived: neighbours along an axis share a node while their distance is below its size
/// Valid:  inner sizes that divide a node or are filled by whole nodes (plan legality)
/// Tests:  tests/unit/engine/work_test.cpp
[[nodiscard]] inline cost::Group place(const program::Mesh& mesh,
                                       program::AxisMask group,
                                       std::int64_t gpus_per_node) {
  cost::Group placed{.ranks = mesh.group_size(group), .ranks_per_node = 1};
  std::int64_t stride = 1;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if ((group & program::axis_bit(axis)) != 0 && stride < gpus_per_node) {
      placed.ranks_per_node *= std::min(mesh.size(axis), gpus_per_node / stride);
    }
    stride *= mesh.size(axis);
  }
  return placed;
}

}  // namespace trireme::engine
