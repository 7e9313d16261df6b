// Seconds of collectives over several nodes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/cost/machine_costs.h"
#include "sim/cost/node_collectives.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// Seconds of an all-to-all in which each of `ranks` GPUs holds `held` bytes, `ranks_per_node` of
/// them on a node, each with a NIC of line rate `nic_rate`.
///
/// EQ multi-node-all-to-all-time: T = a0 + ar (n - p) + max(S (n - p) / n / (eff NIC), C)
///   S    held: by each rank, its own chunk included                          [bytes]
///   n    ranks                                                               [ranks]
///   p    ranks_per_node                                                      [ranks]
///   a0   costs.start                                                         [seconds]
///   ar   costs.per_remote_rank                                               [seconds]
///   eff  costs.nic_efficiency                                                [1]
///   NIC  nic_rate                                                            [bytes/second]
///   C    node-collective-time of the local part, S (p - 1) / n, 0 for p = 1  [seconds]
/// Source: fit_forms, section 2 (M1)
/// Valid:  rail-optimised fabrics; +-10 % at 256 MB and more on up to 100 GPUs, +-40 % beyond 500.
/// Tests:  tests/unit/cost/multi_node_test.cpp, tests/property/collectives_test.cpp
[[nodiscard]] inline Seconds multi_node_all_to_all_time(Bytes held,
                                                        std::int64_t ranks,
                                                        std::int64_t ranks_per_node,
                                                        BytesPerSecond nic_rate,
                                                        const MultiNodeAllToAllCosts& costs,
                                                        const NodeCollectiveCosts& inside) {
  const double chunk = static_cast<double>(held.value()) / static_cast<double>(ranks);
  const auto remote_ranks = static_cast<double>(ranks - ranks_per_node);
  const Seconds outside(remote_ranks * chunk / (costs.nic_efficiency * nic_rate.value()));
  const Seconds local = node_collective_time(held, 1, ranks_per_node, ranks, inside);
  return costs.start + remote_ranks * costs.per_remote_rank + std::max(outside, local);
}

/// Seconds of a ring collective over several nodes: `passes` is 1 for an all-gather and for a
/// reduce-scatter, 2 for an all-reduce; `whole` is the gathered or reduced buffer.
///
/// EQ multi-node-ring-time: T = k as (n - 1) + V / B, B^-4 = (p eff NIC)^-4 + beta_nvl^-4
///   k         passes                                                         [1]
///   n         ranks                                                          [ranks]
///   p         ranks_per_node: as many NICs carry the rings of a node         [ranks]
///   as        step: per rank, of this collective                             [seconds]
///   S         whole                                                          [bytes]
///   V         k S (n - 1) / n                                                [bytes]
///   eff       costs.nic_efficiency                                           [1]
///   NIC       nic_rate                                                       [bytes/second]
///   beta_nvl  costs.nvlink_rate                                              [bytes/second]
/// Source: fit_forms, section 2 (M2, without the root term that only more than 500 GPUs need)
/// Valid:  one as for NVLink and NIC hops; +-10 % at 256 MB and more on up to 100 GPUs, +-40 %
///   beyond 500, where large collectives of small shards are slower.
/// Tests:  tests/unit/cost/multi_node_test.cpp, tests/property/collectives_test.cpp
[[nodiscard]] inline Seconds multi_node_ring_time(Bytes whole,
                                                  int passes,
                                                  std::int64_t ranks,
                                                  std::int64_t ranks_per_node,
                                                  BytesPerSecond nic_rate,
                                                  Seconds step,
                                                  const MultiNodeRingCosts& costs) {
  const auto hops = static_cast<double>(ranks - 1);
  const double moved = static_cast<double>(passes) * static_cast<double>(whole.value()) * hops /
                       static_cast<double>(ranks);
  const double outside =
      static_cast<double>(ranks_per_node) * costs.nic_efficiency * nic_rate.value();
  const double slower = std::min(outside, costs.nvlink_rate.value());
  const double faster = std::max(outside, costs.nvlink_rate.value());
  const double square = (slower / faster) * (slower / faster);
  const double rate = slower / std::sqrt(std::sqrt(1 + square * square));
  return (static_cast<double>(passes) * hops) * step + Seconds(moved / rate);
}

}  // namespace trireme::cost
