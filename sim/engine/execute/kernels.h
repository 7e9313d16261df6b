// The numeric kernels behind the table in kernel.cpp, and what they share. Every kernel takes the
// operands of its row in program::function_table(), in that order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sim/engine/execute/kernel.h"

namespace trireme::engine {

using Operands = std::span<LocalTensor>;

// Linear layers and sums of weight gradients.
void gemm_forward(const KernelContext& context, Operands operands);
void gemm_input_gradient(const KernelContext& context, Operands operands);
void gemm_weight_gradient(const KernelContext& context, Operands operands);
void bias_gradient(const KernelContext& context, Operands operands);

// Products with one weight per expert, and what brings tokens to experts and back.
void grouped_gemm_forward(const KernelContext& context, Operands operands);
void grouped_gemm_input_gradient(const KernelContext& context, Operands operands);
void grouped_gemm_weight_gradient(const KernelContext& context, Operands operands);
void expert_weights(const KernelContext& context, Operands operands);
void expert_weights_backward(const KernelContext& context, Operands operands);
void dispatch_tokens(const KernelContext& context, Operands operands);
void dispatch_tokens_backward(const KernelContext& context, Operands operands);
void combine_tokens(const KernelContext& context, Operands operands);
void combine_tokens_backward(const KernelContext& context, Operands operands);

void assemble_keys(const KernelContext& context, Operands operands);
void assemble_keys_backward(const KernelContext& context, Operands operands);

void attention_forward(const KernelContext& context, Operands operands);
void attention_backward(const KernelContext& context, Operands operands);

void merge_log_sum_exp(const KernelContext& context, Operands operands);
void correct_output(const KernelContext& context, Operands operands);
void merge_attention(const KernelContext& context, Operands operands);

void norm_forward(const KernelContext& context, Operands operands);
void norm_backward(const KernelContext& context, Operands operands);

void gelu(const KernelContext& context, Operands operands);
void gelu_backward(const KernelContext& context, Operands operands);
void swiglu(const KernelContext& context, Operands operands);
void swiglu_backward(const KernelContext& context, Operands operands);
void rotary(const KernelContext& context, Operands operands);
void rotary_backward(const KernelContext& context, Operands operands);
void add(const KernelContext& context, Operands operands);
void copy(const KernelContext& context, Operands operands);
void zero(const KernelContext& context, Operands operands);
void accumulate(const KernelContext& context, Operands operands);
void sum_blocks(const KernelContext& context, Operands operands);

// Heads of ranks that share key and value heads.
void take_heads(const KernelContext& context, Operands operands);
void return_heads(const KernelContext& context, Operands operands);
void repeat_heads(const KernelContext& context, Operands operands);
void sum_repeated_heads(const KernelContext& context, Operands operands);

void embedding_forward(const KernelContext& context, Operands operands);
void embedding_backward(const KernelContext& context, Operands operands);

void logits_max(const KernelContext& context, Operands operands);
void softmax_statistics(const KernelContext& context, Operands operands);
void shard_statistics(const KernelContext& context, Operands operands);
void cross_entropy(const KernelContext& context, Operands operands);
void cross_entropy_backward(const KernelContext& context, Operands operands);
void cross_entropy_in_place(const KernelContext& context, Operands operands);
void parallel_cross_entropy(const KernelContext& context, Operands operands);
void parallel_cross_entropy_backward(const KernelContext& context, Operands operands);
void half_square_loss(const KernelContext& context, Operands operands);

void square_sum(const KernelContext& context, Operands operands);
void adam(const KernelContext& context, Operands operands);

/// The position in its sequence of the `token`-th token of a tensor [batch, sequence, ...].
[[nodiscard]] inline std::int64_t position_of(const KernelContext& context,
                                              const LocalTensor& tokens,
                                              std::int64_t token) {
  return context.order.position(tokens.first[program::kSequenceDim] +
                                token % tokens.extent[program::kSequenceDim]);
}

/// Tokens of an activation [batch, sequence, features...] on this rank.
[[nodiscard]] inline std::int64_t token_count(const LocalTensor& local) {
  return local.extent[program::kBatchDim] * local.extent[program::kSequenceDim];
}

/// Numbers that one token of an activation has on this rank, padding included.
[[nodiscard]] inline std::int64_t feature_count(const LocalTensor& local) {
  std::int64_t count = 1;
  for (auto dim = static_cast<std::size_t>(program::kFeatureDim);
       dim < static_cast<std::size_t>(local.rank);
       ++dim) {
    count *= local.extent[dim];
  }
  return count;
}

/// The features of one token.
[[nodiscard]] inline std::span<const double> features_of(const LocalTensor& local,
                                                         std::int64_t token) {
  const auto count = static_cast<std::size_t>(feature_count(local));
  return std::span(local.values).subspan(static_cast<std::size_t>(token) * count, count);
}

[[nodiscard]] inline std::span<double> features_of(LocalTensor& local, std::int64_t token) {
  const auto count = static_cast<std::size_t>(feature_count(local));
  return std::span(local.values).subspan(static_cast<std::size_t>(token) * count, count);
}

/// Makes an operand ready for contributions to be added: an update keeps what is there.
inline void start_sum(LocalTensor& local) {
  if (local.access == program::Access::write) {
    std::fill(local.values.begin(), local.values.end(), 0.0);
  }
}

inline void ensure_alike(const LocalTensor& a, const LocalTensor& b) {
  ensure(a.values.size() == b.values.size(), "kernel: operands of different sizes");
}

}  // namespace trireme::engine
