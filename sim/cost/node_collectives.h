// Seconds of collectives among the GPUs of one node.
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// The unit of the coefficients of the pipeline's fill.
inline constexpr double kMegabyte = 1e6;

/// Seconds of a collective among `ranks` GPUs of one node over a buffer `whole`, cut into `chunks`:
/// every rank receives those of its peers, `passes` times (2 in an all-reduce, else 1), and copies
/// or reduces its own. There are as many chunks as ranks, or more when other nodes have the rest.
/// Zero for one rank.
///
/// EQ node-collective-time: T = a0 + a1 (n - 1) + V / beta + c sqrt(V) + (S / m) / gamma
///   n      ranks                                                             [ranks]
///   m      chunks                                                            [1]
///   k      passes                                                            [1]
///   S      whole: gathered, reduced, or held by a rank of an all-to-all      [bytes]
///   V      received: k S (n - 1) / m                                         [bytes]
///   S / m  chunk: copied or reduced on the own GPU                           [bytes]
///   a0     costs.start                                                       [seconds]
///   a1     costs.per_rank: latency of a ring step                            [seconds]
///   beta   costs.link_rate                                                   [bytes/second]
///   c      costs.ramp_per_root_megabyte                                 [seconds/sqrt(megabyte)]
///   gamma  costs.local_rate                                                  [bytes/second]
/// Source: fit_forms, section 1 (C1)
/// Valid:  NVSwitch nodes, 2 to 8 ranks; held-out error 4-5 % (median), 16 % (90th percentile),
///   above 64 MB 1-4 %, at 1 to 16 MB 6-8 %.
/// Tests:  tests/unit/cost/node_collectives_test.cpp, tests/property/collectives_test.cpp
[[nodiscard]] inline Seconds node_collective_time(Bytes whole,
                                                  int passes,
                                                  std::int64_t ranks,
                                                  std::int64_t chunks,
                                                  const NodeCollectiveCosts& costs) {
  if (ranks == 1) {
    return Seconds(0);
  }
  const auto peers = static_cast<double>(ranks - 1);
  const double chunk = static_cast<double>(whole.value()) / static_cast<double>(chunks);
  const double received = static_cast<double>(passes) * peers * chunk;
  return costs.start + peers * costs.per_rank + Seconds(received / costs.link_rate.value()) +
         std::sqrt(received / kMegabyte) * costs.ramp_per_root_megabyte +
         Seconds(chunk / costs.local_rate.value());
}

/// Whether the switches of NVSwitch nodes add values of this type.
///
/// Source: nccl, src/include/device.h, ncclNvlsSupported: all but 8-bit types
[[nodiscard]] constexpr bool switch_reduces(ElementType type) {
  return type != ElementType::fp8;
}

/// Seconds of an all-reduce of `reduced` bytes that the switches compute.
///
/// EQ switch-all-reduce-time: T = a + S / beta_n + c sqrt(S)
///   S       reduced: the whole buffer                                        [bytes]
///   a       costs.start                                                      [seconds]
///   beta_n  costs.rate, fitted at one number of ranks                        [bytes/second]
///   c       costs.ramp_per_root_megabyte                                [seconds/sqrt(megabyte)]
/// Source: fit_forms, section 1 (C1n)
/// Valid:  groups of costs.least_ranks to costs.most_ranks, types that the switches add.
/// Tests:  tests/unit/cost/node_collectives_test.cpp, tests/property/collectives_test.cpp
[[nodiscard]] inline Seconds switch_all_reduce_time(Bytes reduced, const SwitchReduceCosts& costs) {
  return costs.start + reduced / costs.rate +
         std::sqrt(static_cast<double>(reduced.value()) / kMegabyte) * costs.ramp_per_root_megabyte;
}

}  // namespace trireme::cost
