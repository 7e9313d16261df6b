// Where the ranks of a group sit on a cluster.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cost/collective_bytes.h"
#include "sim/program/mesh.h"

namespace trireme::engine {

/// The group's ranks, and how many of them share a node when ranks fill nodes in order.
/// Needs a mesh whose inner extents divide a node or are filled by whole nodes (plan legality).
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
