// Where the ranks of a group sit on a cluster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

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
  for (int at = 0; at < mesh.axes(); ++at) {
    const int axis = mesh.axis_at(at);
    if ((group & program::axis_bit(axis)) != 0 && stride < gpus_per_node) {
      placed.ranks_per_node *= std::min(mesh.size(axis), gpus_per_node / stride);
    }
    stride *= mesh.size(axis);
  }
  return placed;
}

/// Whether a rank of a stage, or another of its program, and its peer in another stage are on
/// different nodes: the ends of a message between stages.
[[nodiscard]] inline bool peer_is_off_node(const program::Mesh& mesh,
                                           std::int64_t rank,
                                           std::int64_t peer_stage,
                                           std::int64_t gpus_per_node) {
  return mesh.in_stage(rank, peer_stage) / gpus_per_node != rank / gpus_per_node;
}

/// The two ends of a message between stages as a group: on two nodes where any rank's are.
[[nodiscard]] inline cost::Group place_message(const program::Mesh& mesh,
                                               std::int64_t stage,
                                               std::int64_t peer_stage,
                                               std::int64_t gpus_per_node) {
  const std::int64_t per_stage = mesh.ranks() / mesh.stages();
  const std::int64_t distance = (peer_stage - stage) * mesh.stride(mesh.stage_axis());
  if (std::abs(distance) >= gpus_per_node) {
    return {.ranks = 2, .ranks_per_node = 1};
  }
  bool off_node = false;
  for (std::int64_t place = 0; place < per_stage && !off_node; ++place) {
    off_node = peer_is_off_node(mesh, mesh.rank_of_stage(place, stage), peer_stage, gpus_per_node);
  }
  return {.ranks = 2, .ranks_per_node = off_node ? 1 : 2};
}

}  // namespace trireme::engine
