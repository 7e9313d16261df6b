// What no algorithm can beat: the time in which the links carry what must cross them.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/core/vocabulary.h"
#include "sim/engine/network/topology.h"
#include "sim/program/mesh.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// How many ranks of a group share what, around its first rank.
struct SharedLinks {
  std::int64_t ranks = 1;
  std::int64_t per_nic = 1;
  std::int64_t per_node = 1;
  std::int64_t per_pod = 1;  // the nodes of one leaf switch
};

/// Of the group of rank 0 when ranks fill nodes in order.
[[nodiscard]] SharedLinks shared_links(const program::Mesh& mesh,
                                       program::AxisMask group,
                                       const TopologyShape& shape);

struct LeastTime {
  Seconds seconds;
  std::string_view where;     // the links that take longest, for a person; empty for zero
  double crossing_bytes = 0;  // V, which ranks' equal parts may make fractional
  BytesPerSecond capacity;    // C
};

/// The least time of a collective. `payload` as cost/collectives.h counts it: gathered, reduced,
/// exchanged over all ranks; of send_recv the block that a rank sends to the next one.
///
/// EQ least-seconds: T = max over sets of ranks of V / C, the sets being one rank, the ranks of a
///   node and those of a pod
///   C  what the set has towards the others: a GPU's links and its NIC, the NICs of the node's
///      ranks, the spine of the pod's leaf switches                            [bytes/second]
///   V  what must enter or leave the set, q of n ranks, the larger of both: of an all-gather and a
///      reduce-scatter max(q, n - q) N / n, of an all-reduce and of send_recv N, of an all-to-all
///      q (n - q) N / n^2                                                      [bytes]
///   N  payload                                                                [bytes]
/// Source: derived: each value must be sent once by whoever has it and reach whoever needs it;
///   sums may be formed on the way
/// Valid:  any algorithm that uses the NICs beside the group's GPUs, sums in switches included
/// Tests:  tests/unit/engine/least_seconds_test.cpp, tests/property/expansion_test.cpp
[[nodiscard]] LeastTime least_seconds(CollectiveKind kind,
                                      Bytes payload,
                                      const SharedLinks& shared,
                                      const TopologyShape& shape);

}  // namespace trireme::engine
