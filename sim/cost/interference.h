// How much kernels and collectives beside each other on one GPU slow each other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cost/machine_costs.h"

namespace trireme::cost {

/// What bounds a kernel.
enum class KernelBound : std::uint8_t { compute, memory };

/// Speed of a kernel beside `collectives` in flight on its GPU, as a fraction of its speed alone;
/// at least that of one multiprocessor.
///
/// EQ kernel-beside-collectives: r = max(1 - k c / s, 1 / s) of a kernel that computes bound,
///   r = max(1 - k m, 1 / s) of one that memory bounds
///   k  collectives                                                          [1]
///   c  costs.channels: multiprocessors that a collective holds, one a channel  [1]
///   s  multiprocessors of the GPU                                           [1]
///   m  costs.memory: part of the memory's rate that a collective takes      [1]
///   r  result                                                               [1]
/// Source: nccl, src/enqueue.cc (a channel is a thread block, which holds a multiprocessor);
///   lee2025-overlap for how much is lost in training
/// Valid:  kernels of as many blocks as fill the GPU
/// Tests:  tests/unit/cost/interference_test.cpp
[[nodiscard]] inline double kernel_speed_beside(int collectives,
                                                KernelBound bound,
                                                std::int64_t multiprocessors,
                                                const InterferenceCosts& costs) {
  const double all = static_cast<double>(multiprocessors);
  const double lost =
      bound == KernelBound::compute ? static_cast<double>(costs.channels) / all : costs.memory;
  return std::max(1 - static_cast<double>(collectives) * lost, 1 / all);
}

/// Speed of a collective while a kernel runs on one of its GPUs, as a fraction of its speed alone.
///
/// EQ collective-beside-kernel: r = 1 - q
///   q  costs.collective: part of its rate that a collective loses           [1]
///   r  result                                                               [1]
/// Source: lee2025-overlap
/// Valid:  the slowest GPU of a collective decides its speed
/// Tests:  tests/unit/cost/interference_test.cpp
[[nodiscard]] inline double collective_speed_beside_kernel(const InterferenceCosts& costs) {
  return 1 - costs.collective;
}

}  // namespace trireme::cost
