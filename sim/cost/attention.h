// Seconds of a fused attention kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/cost/flops.h"
#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

enum class AttentionPass : std::uint8_t { forward, backward };

/// Work of the backward kernel over the forward: five matrix products (the scores again, and the
/// gradients of values, probabilities, queries and keys) against two.
///
/// EQ attention-backward-work: k = (3 d + 2 v) / (d + v)
///   d  shape.head_dim: of the scores and the gradients of queries and keys   [1]
///   v  value_dim(shape): of the gradients of values and probabilities        [1]
/// Source: dao2023-flash2, algorithm 2
/// Valid:  the scores computed again from the saved log-sum-exp
/// Tests:  tests/unit/cost/flops_test.cpp
[[nodiscard]] constexpr double attention_backward_work(const AttentionShape& shape) {
  const auto keys = static_cast<double>(shape.head_dim);
  const auto values = static_cast<double>(value_dim(shape));
  return (3 * keys + 2 * values) / (keys + values);
}

/// Rows of a tile of queries and of a block of keys in form A1: the grid the coefficients were
/// fitted on, whatever tile a kernel uses.
inline constexpr std::int64_t kAttentionTileRows = 128;

/// The row of the smallest tabulated head dimension that is not below `head_dim` (kernels pad up to
/// it); null when there is none.
[[nodiscard]] inline const AttentionHeadDimCosts* find_head_dim(const AttentionKernelCosts& kernel,
                                                                std::int64_t head_dim) {
  for (std::size_t row = 0; row < kernel.head_dim_count; ++row) {
    if (kernel.head_dims[row].head_dim >= head_dim) {
      return &kernel.head_dims[row];
    }
  }
  return nullptr;
}

/// The row that tells a kernel's rates: of unequal head dimensions that of the values', as kernels
/// for them tile by it.
[[nodiscard]] inline const AttentionHeadDimCosts* rates_of(const AttentionKernelCosts& kernel,
                                                           const AttentionShape& shape) {
  return find_head_dim(kernel, value_dim(shape));
}

/// Device seconds of one pass of a fused attention kernel; empty when the profile does not know the
/// kernel's pass at this head dimension.
///
/// EQ attention-time: T = t0 + k w (max(B, SMs b) + tiles tau / 128) / (E phi)
///   t0     kernel.start                                                        [seconds]
///   k      1 forward, attention_backward_work backward                         [1]
///   w      2 128 128 (d + v): one block, d = v padded up to the next tabulated one; d is the keys'
///          and v the values' head dimension                                    [flop]
///   E      pass.rate                                                           [flop/second]
///   tiles  sequences x query heads x q, with q = ceil(Sq / 128) query tiles    [1]
///   b      blocks of the longest tile: ceil(Skv / 128), causal ceil(q0 / 128) + q  [1]
///   B      visited blocks of all tiles: tiles b, causal tiles (b - q + (q + 1) / 2)  [1]
///   SMs    streaming_multiprocessors: one tile keeps one of them busy          [1]
///   tau    pass.tile_overhead, in key rows                                     [tokens]
///   phi    row.sustained when T with phi = 1 is above kernel.sustained_after, else 1  [1]
/// Source: fit_forms, section 3 (A1)
/// Valid:  16-bit, s >= 2048; held-out error 5 % (median), 13-18 % (90th percentile); grouped query
///   heads cost as many as query heads; causal E as of the full square with its work halved.
///   Unequal head dimensions are extrapolated from equal ones: E, tau and phi of the values'.
/// Tests:  tests/unit/cost/attention_test.cpp
[[nodiscard]] inline std::optional<Seconds> attention_time(const AttentionShape& shape,
                                                           AttentionPass pass,
                                                           const AttentionKernelCosts& kernel,
                                                           std::int64_t streaming_multiprocessors) {
  const AttentionHeadDimCosts* row = rates_of(kernel, shape);
  if (row == nullptr) {
    return std::nullopt;
  }
  const auto& costs = pass == AttentionPass::forward ? row->forward : row->backward;
  if (!costs) {
    return std::nullopt;
  }
  if (shape.query_tokens.value() == 0 || shape.sequences == 0 || shape.query_heads == 0) {
    return Seconds(0);
  }
  const std::int64_t query_tiles = ceil_div(shape.query_tokens.value(), kAttentionTileRows);
  const std::int64_t longest =
      shape.causal ? ceil_div(shape.first_query.value(), kAttentionTileRows) + query_tiles
                   : ceil_div(shape.key_tokens.value(), kAttentionTileRows);
  const double skipped = shape.causal ? static_cast<double>(query_tiles - 1) / 2 : 0;
  const double tiles = static_cast<double>(shape.sequences) *
                       static_cast<double>(shape.query_heads) * static_cast<double>(query_tiles);
  const double visited = tiles * (static_cast<double>(longest) - skipped);
  const double waited =
      static_cast<double>(streaming_multiprocessors) * static_cast<double>(longest);
  const double overhead = tiles * costs->tile_overhead / static_cast<double>(kAttentionTileRows);
  const bool equal = value_dim(shape) == shape.head_dim;
  const std::int64_t keys_and_values =
      equal ? 2 * row->head_dim : shape.head_dim + value_dim(shape);
  const auto block_work =
      static_cast<double>(2 * kAttentionTileRows * kAttentionTileRows * keys_and_values);
  const double times = pass == AttentionPass::forward ? 1 : attention_backward_work(shape);
  const Seconds busy =
      Flops(times * block_work * (std::max(visited, waited) + overhead)) / costs->rate;
  const bool long_kernel = kernel.start + busy > kernel.sustained_after;
  return kernel.start + (long_kernel ? 1 / row->sustained : 1.0) * busy;
}

}  // namespace trireme::cost
