// Seconds of the kernels that memory bounds: norms, activations, copies, the optimizer, the loss.
#pragma once

#include <cstddef>
#include <optional>

#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// Device seconds of a kernel that moves `moved` bytes to and from memory, every pass counted; zero
/// for no bytes. Empty when the profile does not know the kernel's class.
///
/// EQ pointwise-time: T = t0 + M / (eff HBM)
///   M    moved: bytes read and written, each pass over a tensor again          [bytes]
///   t0   launch: one launch on a stream                                        [seconds]
///   eff  costs.efficiency of the kernel's class                                [1]
///   HBM  costs.memory_peak                                                     [bytes/second]
/// Source: fit_forms, section 5 (P1)
/// Valid:  working sets beyond the L2 cache; held-out error 3-8 % (fused norms) to 22 % (residual
///   additions).
/// Tests:  tests/unit/cost/pointwise_test.cpp
[[nodiscard]] inline std::optional<Seconds> pointwise_time(Bytes moved,
                                                           PointwiseClass kernel_class,
                                                           Seconds launch,
                                                           const PointwiseCosts& costs) {
  if (moved == Bytes(0)) {
    return Seconds(0);
  }
  const std::optional<double> efficiency = costs.efficiency[static_cast<std::size_t>(kernel_class)];
  if (!efficiency) {
    return std::nullopt;
  }
  return launch + moved / (*efficiency * costs.memory_peak);
}

}  // namespace trireme::cost
