// Floating-point operations of the kernels of a transformer: counts, no hardware.
#pragma once

#include <cstdint>

#include "sim/units/units.h"

namespace trireme::cost {

/// The product of an m x k and a k x n matrix; a multiply and an add are two operations.
[[nodiscard]] Flops gemm_flops(std::int64_t m, std::int64_t n, std::int64_t k);

/// An attention kernel's work on one rank: `query_tokens` queries of every one of
/// `query_heads` heads against `key_tokens` keys.
struct AttentionShape {
  std::int64_t sequences = 1;
  std::int64_t query_heads = 1;
  Tokens query_tokens = Tokens(0);
  Tokens key_tokens = Tokens(0);
  std::int64_t head_dim = 1;   // of queries and keys
  std::int64_t value_dim = 0;  // of values and outputs; 0: as head_dim
  bool causal = false;
  /// Place of the first query among the keys: a causal query sees the keys up to its own place.
  Tokens first_query = Tokens(0);
};

/// The head dimension of values and outputs.
[[nodiscard]] constexpr std::int64_t value_dim(const AttentionShape& shape) {
  return shape.value_dim == 0 ? shape.head_dim : shape.value_dim;
}

/// Forward operations by the convention of model FLOPs: a causal square counts as half.
[[nodiscard]] Flops attention_forward_flops(const AttentionShape& shape);

/// Backward operations of the model (MFU): twice the forward.
[[nodiscard]] Flops attention_backward_model_flops(const AttentionShape& shape);

/// Backward operations that a flash kernel executes (time, HFU): 2.5 times the forward where values
/// are as wide as keys.
[[nodiscard]] Flops attention_backward_kernel_flops(const AttentionShape& shape);

}  // namespace trireme::cost
