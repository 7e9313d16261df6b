// Seconds of a matrix product.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// Device seconds of an m x k by k x n product with 16-bit operands of `type`; zero when a
/// dimension is zero. `accumulate_fp32`: the output is added to a buffer in fp32 (a weight
/// gradient).
///
/// `groups`: that many products in one kernel, as grouped GEMMs of experts are.
///
/// EQ gemm-time: T = t0 + g max(2 m n (k + k0) / P, e (m k + k n + m n) / bw) x
///   m, n  rows and columns of the result                                    [1]
///   k     inner dimension                                                   [1]
///   g     groups                                                            [1]
///   e     width(type)                                                       [bytes]
///   t0    costs.start                                                       [seconds]
///   P     costs.rate, sustained                                             [flop/second]
///   k0    costs.inner_overhead: start and end of the inner loop, output     [elements]
///   bw    costs.bandwidth                                                   [bytes/second]
///   x     costs.fp32_accumulation when the output accumulates in fp32, else 1  [1]
/// Source: fit_forms, section 4 (G1)
/// Valid:  16-bit operands; held-out error 4.5 % (median) for m >= 1024, 9 % below; no wave
///   quantisation. Grouped products at the rate of single ones is an assumption: no fit holds any.
/// Tests:  tests/unit/cost/gemm_test.cpp
[[nodiscard]] inline Seconds gemm_time(std::int64_t m,
                                       std::int64_t n,
                                       std::int64_t k,
                                       ElementType type,
                                       bool accumulate_fp32,
                                       const GemmCosts& costs,
                                       std::int64_t groups = 1) {
  if (groups == 0 || m == 0 || n == 0 || k == 0) {
    return Seconds(0);
  }
  const auto rows = static_cast<double>(m);
  const auto columns = static_cast<double>(n);
  const auto inner = static_cast<double>(k);
  const Flops work(2 * rows * columns * (inner + costs.inner_overhead));
  const double moved =
      static_cast<double>(width(type)) * (rows * inner + inner * columns + rows * columns);
  const Seconds busy = std::max(work / costs.rate, Seconds(moved / costs.bandwidth.value()));
  return costs.start +
         static_cast<double>(groups) * (accumulate_fp32 ? costs.fp32_accumulation : 1.0) * busy;
}

}  // namespace trireme::cost
