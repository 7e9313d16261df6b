#include "sim/plan/chunks.h"

#include <algorithm>

#include "sim/plan/head.h"

namespace trireme::plan {

std::int64_t local_sequence(const Plan& plan) {
  return exact_div(plan.sequence, plan.sequence_shards());
}

Chunks chunks_of(const Plan& plan, std::int64_t sequence) {
  const std::int64_t tokens = local_sequence(plan);
  Chunks chunks;
  chunks.sequence = std::min(sequence, tokens);
  chunks.count = ceil_div(tokens, chunks.sequence);
  chunks.last = tokens - (chunks.count - 1) * chunks.sequence;
  return chunks;
}

Chunks chunks_in(const Plan& plan, std::int64_t parts) {
  return chunks_of(plan, ceil_div(local_sequence(plan), parts));
}

Chunks loss_chunks(const Plan& plan) {
  const bool whole_rows = plan.model.vocabulary > 0 && !plan.vocabulary_parallel();
  if (whole_rows && plan.loss == config::LossKind::fused && !plan.transformer_engine) {
    return fused_loss_chunks(plan);
  }
  return chunks_in(plan,
                   whole_rows && plan.loss == config::LossKind::chunked ? plan.loss_chunks : 1);
}

Chunks mlp_tiles(const Plan& plan) {
  return chunks_in(plan, plan.mlp == MlpLowering::tiled ? plan.mlp_tiles : 1);
}

std::int64_t automatic_mlp_tiles(const Plan& plan) {
  return ceil_div(local_sequence(plan), plan.model.hidden);
}

std::int64_t automatic_loss_chunks(const Plan& plan) {
  constexpr std::int64_t kTorchtitan = 8;
  constexpr std::int64_t kFp32PerGiB = std::int64_t{1} << 28;
  if (plan.framework == config::Framework::torchtitan) {
    return kTorchtitan;
  }
  const std::int64_t logits = plan.micro_batch * local_sequence(plan) * plan.model.vocabulary;
  return std::max<std::int64_t>(1, ceil_div(logits, kFp32PerGiB));
}

program::Dim chunk_tokens(const Step& step, std::int64_t local_tokens) {
  const std::int64_t shards = step.plan.sequence_shards();
  return {local_tokens * shards, "S'"};
}

Ref chunk_of(
    Step& step, Ref whole, std::string_view name, const Chunks& chunks, std::int64_t local_tokens) {
  const Shape shape = step.b.tensor(whole.tensor)
                          .shape.with(program::kSequenceDim, chunk_tokens(step, local_tokens));
  const program::Slice slice{.dim = program::kSequenceDim,
                             .first = 0,
                             .extent = local_tokens,
                             .per_chunk = chunks.sequence};
  Ref chunk = whole;  // the same instance
  chunk.tensor = step.b.declare_view(
      whole.tensor, name, shape, slice, program::index_bit(program::Index::chunk));
  return chunk;
}

}  // namespace trireme::plan
