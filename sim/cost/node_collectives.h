// Seconds of collectives among the GPUs of one node.
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// The time of a pipeline's fill, which grows with the root of the bytes; `amount` in bytes.
[[nodiscard]] inline Seconds ramp_time(double amount, Seconds per_root_megabyte) {
  constexpr double kMegabyte = 1e6;  // the unit of the coefficient, not a measurement
  return std::sqrt(amount / kMegabyte) * per_root_megabyte;
}

/// Seconds of a collective among `ranks` GPUs of one node, of which every rank must receive
/// `received` bytes while its own chunk is `chunk` bytes. Zero for one rank.
///
/// EQ node-collective-time: T = a0 + a1 (n - 1) + V / beta + c sqrt(V) + (S / n) / gamma
///   n      ranks                                                             [ranks]
///   S      the whole buffer: gathered, reduced, or held by a rank of an all-to-all  [bytes]
///   V      received: S (n - 1) / n, in an all-reduce 2 S (n - 1) / n         [bytes]
///   S / n  chunk: copied or reduced on the own GPU                           [bytes]
///   a0     costs.start                                                       [seconds]
///   a1     costs.per_rank: latency of a ring step                            [seconds]
///   beta   costs.link_rate                                                   [bytes/second]
///   c      costs.ramp_per_root_megabyte                                 [seconds/sqrt(megabyte)]
///   gamma  costs.local_rate                                                  [bytes/second]
/// Source: fit_forms, section 1 (C1)
/// Valid:  NVSwitch nodes, 2 to 8 ranks; held-out error 4-5 % (median), 16 % (90th percentile),
///   above 64 MB 1-4 %, at 1 to 16 MB 6-8 %.
/// Tests:  tests/unit/cost/node_collectives_test.cpp, tests/property/collectives_test.cpp
[[nodiscard]] inline Seconds node_collective_time(double received,
                                                  double chunk,
                                                  std::int64_t ranks,
                                                  const NodeCollectiveCosts& costs) {
  if (ranks == 1) {
    return Seconds(0);
  }
  return costs.start + static_cast<double>(ranks - 1) * costs.per_rank +
         Seconds(received / costs.link_rate.value()) +
         ramp_time(received, costs.ramp_per_root_megabyte) +
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
[[nodiscard]] inline Seconds switch_all_reduce_time(double reduced,
                                                    const SwitchReduceCosts& costs) {
  return costs.start + Seconds(reduced / costs.rate.value()) +
         ramp_time(reduced, costs.ramp_per_root_megabyte);
}

}  // namespace trireme::cost
