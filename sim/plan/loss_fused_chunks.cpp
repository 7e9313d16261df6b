// The fused linear cross entropy: head and loss in chunks of tokens, whose logits become their own
// gradient in place; the gradients of input and weight are complete when the forward pass ends.
#include <algorithm>
#include <bit>

#include "sim/plan/head.h"

namespace trireme::plan {

using program::Function;
using program::Index;
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
LossChunks fused_loss_chunks(const Plan& plan) {
  const std::int64_t local_sequence =
      plan.sequence_sharded ? exact_div(plan.sequence, plan.group_degree) : plan.sequence;
  const std::int64_t tokens = local_sequence * plan.micro_batch;
  const std::int64_t parts = ceil_div(plan.model.vocabulary, plan.model.hidden);
  const auto chunk =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(tokens, parts))));
  LossChunks chunks;
  chunks.sequence = std::min(ceil_div(chunk, plan.micro_batch), local_sequence);
  chunks.count = ceil_div(local_sequence, chunks.sequence);
  chunks.last = local_sequence - (chunks.count - 1) * chunks.sequence;
  return chunks;
}

namespace {

/// Head and loss of one chunk of `local_tokens` of each sequence on each rank.
void emit_chunk(Step& step,
                Parameters& parameters,
                const HeadParameters& head,
                std::int64_t local_tokens,
                Ref normed,
                Ref labels,
                Ref d_normed,
                TensorId loss) {
  program::Builder& b = step.b;
  const std::int64_t shards = step.plan.sequence_sharded ? step.plan.group_degree : 1;
  const program::Dim tokens{local_tokens * shards, "S'"};
  const program::IndexMask per_chunk = program::index_bit(Index::chunk);
  const Shape hidden{step.batch(), tokens, step.hidden()};
  const program::Slice slice{.dim = program::kSequenceDim,
                             .first = 0,
                             .extent = local_tokens,
                             .per_chunk = fused_loss_chunks(step.plan).sequence};
  const Ref x = b.declare_view(normed.tensor, "final norm output, chunk", hidden, slice, per_chunk);
  const Ref dx =
      b.declare_view(d_normed.tensor, "head input gradient, chunk", hidden, slice, per_chunk);
  const Ref chunk_labels =
      b.declare_view(labels.tensor, "labels, chunk", {step.batch(), tokens}, slice, per_chunk);

  program::TensorSpec spec;
  spec.name = "logits, chunk";
  spec.component = Component::loss;
  spec.varies = static_cast<program::IndexMask>(program::kPerMicroBatch | per_chunk);
  spec.shape = {step.batch(), tokens, {step.plan.model.vocabulary, "V"}};
  spec.layout = step.between_blocks();
  const Ref logits = b.declare(spec);
  b.set_phase(Phase::forward);
  b.set_component(Component::head);
  emit_linear(step, parameters, head.weight, "head, chunk", x, logits);
  b.set_component(Component::loss);
  const Ref d_logits = b.declare_in_place(logits.tensor, "gradient", spec.layout);
  b.emit(Function::cross_entropy_in_place,
         "cross entropy, chunk",
         {read(logits), read(chunk_labels), write(d_logits), update(loss)})
      .scale = loss_scale(step.plan);
  b.set_phase(Phase::backward);
  b.set_component(Component::head);
  b.emit(Function::gemm_input_gradient,
         "head, chunk, input gradient",
         {read(d_logits), read(parameters.working(head.weight.weight)), update(dx)});
  b.emit(Function::gemm_weight_gradient,
         "head, chunk, weight gradient",
         {read(d_logits), read(x), parameters.gradient(head.weight.weight)});
}

void emit(Step& step,
          Parameters& parameters,
          const HeadParameters& head,
          Ref normed,
          Ref d_normed,
          TensorId loss) {
  program::Builder& b = step.b;
  const Ref labels = load_labels(step, step.between_blocks());
  parameters.gather(head.unit, head.norm_goes_back());
  b.emit(Function::zero, "zero head input gradient", {write(d_normed)});
  parameters.start_gradient(head.weight.weight);
  const LossChunks chunks = fused_loss_chunks(step.plan);
  const std::int64_t shorter = chunks.last == chunks.sequence ? 0 : 1;
  b.repeat_peeled(
      Index::chunk, 0, 1, chunks.count, 0, shorter, [&](program::Builder::Position position) {
        b.begin_segment("head and loss, chunk");
        const bool last = position == program::Builder::Position::back;
        emit_chunk(step,
                   parameters,
                   head,
                   last ? chunks.last : chunks.sequence,
                   normed,
                   labels,
                   d_normed,
                   loss);
      });
  b.begin_segment("head and loss, end");
}

}  // namespace

const LossLoweringInfo kLossFusedChunks = {
    "fused",
    "head and loss in chunks whose logits become their gradient in place",
    "liger-kernel",
    emit};

}  // namespace trireme::plan
