// The fused linear cross entropy: head and loss in chunks of tokens, whose logits become their own
// gradient in place; the gradients of input and weight are complete when the forward pass ends.
#include <bit>

#include "sim/plan/loss_chunks.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::update;
using program::write;

/// EQ fused-loss-chunk: C = 2^ceil(log2(T / ceil(V / h))), chunks = ceil(T / C)
///   T  tokens of one rank                                         [tokens]
///   V  model.vocabulary                                           [1]
///   h  model.hidden                                               [1]
///   C  tokens of a chunk: its logits are about as large as x      [tokens]
/// Source: liger-kernel, fused_linear_cross_entropy.py, fused_linear_cross_entropy_forward
/// Valid:  one sequence per micro batch as there; with several, the same tokens of each
/// Tests:  tests/unit/plan/memory_test.cpp
Chunks fused_loss_chunks(const Plan& plan) {
  const std::int64_t tokens = local_sequence(plan) * plan.micro_batch;
  const std::int64_t parts = ceil_div(plan.model.vocabulary, plan.model.hidden);
  const auto chunk =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(tokens, parts))));
  return chunks_of(plan, ceil_div(chunk, plan.micro_batch));
}

namespace {

Ref emit_chunk_loss(Step& step, const LossChunk& chunk) {
  const Ref d_logits =
      step.b.declare_in_place(chunk.logits.tensor, "gradient", step.between_blocks());
  step.b
      .emit(Function::cross_entropy_in_place,
            "cross entropy, chunk",
            {read(chunk.logits), read(chunk.labels), write(d_logits), update(chunk.loss)})
      .scale = loss_scale(step.plan);
  return d_logits;
}

void emit(Step& step,
          Parameters& parameters,
          const HeadParameters& head,
          Ref normed,
          Ref d_normed,
          TensorId loss) {
  emit_loss_in_chunks(step, parameters, head, normed, d_normed, loss, emit_chunk_loss);
}

}  // namespace

const LossLoweringInfo kLossFusedChunks = {
    "fused",
    "head and loss in chunks whose logits become their gradient in place",
    "liger-kernel",
    emit};

}  // namespace trireme::plan
