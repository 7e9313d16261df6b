// What a training framework adds to the seconds that kernels take alone.
#pragma once

#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// Of one framework. Those of `generic` are none: closed forms, nothing added.
struct FrameworkOverheads {
  /// Factor on the seconds of matrix products and of kernels that are bound by memory, in a step
  /// over those of the kernel alone: power, cold caches, gaps, kernels that are not fused.
  double in_situ = 1;
  /// Host seconds to issue one operation of a step: modules, autograd and all of its launches.
  Seconds host_per_operation;
};

/// The costs of a machine inside a framework's step.
///
/// EQ in-situ-rates: P' = P / f, bw' = bw / f, HBM' = HBM / f
///   f    overheads.in_situ                                                      [1]
///   P    gemm.rate                                                              [flop/second]
///   bw   gemm.bandwidth                                                         [bytes/second]
///   HBM  pointwise.memory_peak                                                  [bytes/second]
/// Source: derived, docs/decisions/0015-framework-overheads.md
/// Valid:  a framework's steps of the kind that it was fitted on; attention kernels and collectives
///   keep their own rates.
/// Tests:  tests/unit/cost/framework_overheads_test.cpp
[[nodiscard]] inline MachineCosts in_situ_costs(MachineCosts costs,
                                                const FrameworkOverheads& overheads) {
  if (costs.gemm) {
    costs.gemm->rate = 1 / overheads.in_situ * costs.gemm->rate;
    costs.gemm->bandwidth = 1 / overheads.in_situ * costs.gemm->bandwidth;
  }
  costs.pointwise.memory_peak = 1 / overheads.in_situ * costs.pointwise.memory_peak;
  return costs;
}

}  // namespace trireme::cost
