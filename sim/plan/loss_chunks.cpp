#include "sim/plan/loss_chunks.h"

namespace trireme::plan {

using program::Function;
using program::Index;
using program::read;
using program::update;
using program::write;

namespace {

/// Head and loss of one chunk of `local_tokens` of each sequence on each rank.
void emit_chunk(Step& step,
                Parameters& parameters,
                const HeadParameters& head,
                const Chunks& chunks,
                std::int64_t local_tokens,
                Ref normed,
                Ref labels,
                Ref d_normed,
                LossChunk chunk,
                EmitChunkLoss emit_loss) {
  program::Builder& b = step.b;
  const Ref x = chunk_of(step, normed, "final norm output, chunk", chunks, local_tokens);
  const Ref dx = chunk_of(step, d_normed, "head input gradient, chunk", chunks, local_tokens);
  chunk.labels = chunk_of(step, labels, "labels, chunk", chunks, local_tokens);
  chunk.shape = {step.batch(), chunk_tokens(step, local_tokens), {step.plan.model.vocabulary, "V"}};
  chunk.logits = chunk_logits(step, "logits, chunk", chunk.shape, ElementType::bf16);
  b.set_phase(Phase::forward);
  b.set_component(Component::head);
  emit_linear(step, parameters, head.weight, "head, chunk", x, chunk.logits);
  b.set_component(Component::loss);
  const Ref d_logits = emit_loss(step, chunk);
  b.set_phase(Phase::backward);
  b.set_component(Component::head);
  b.emit(Function::gemm_input_gradient,
         "head, chunk, input gradient",
         {read(d_logits), read(parameters.working(head.weight.weight)), update(dx)});
  b.emit(Function::gemm_weight_gradient,
         "head, chunk, weight gradient",
         {read(d_logits), read(x), parameters.gradient(head.weight.weight)});
}

}  // namespace

Ref chunk_logits(Step& step, std::string_view name, const Shape& shape, ElementType type) {
  program::TensorSpec spec;
  spec.name = name;
  spec.component = Component::loss;
  spec.type = type;
  spec.varies =
      static_cast<program::IndexMask>(program::kPerMicroBatch | program::index_bit(Index::chunk));
  spec.shape = shape;
  spec.layout = step.between_blocks();
  return step.b.declare(spec);
}

void emit_loss_in_chunks(Step& step,
                         Parameters& parameters,
                         const HeadParameters& head,
                         Ref normed,
                         Ref d_normed,
                         TensorId loss,
                         EmitChunkLoss emit_loss) {
  program::Builder& b = step.b;
  const Ref labels = load_labels(step, step.between_blocks());
  parameters.gather(head.unit, head.norm_goes_back());
  b.emit(Function::zero, "zero head input gradient", {write(d_normed)});
  parameters.start_gradient(head.weight.weight);
  const Chunks chunks = loss_chunks(step.plan);
  for_each_chunk(step, chunks, false, [&](std::int64_t local_tokens, bool) {
    b.begin_segment("head and loss, chunk");
    LossChunk chunk;
    chunk.loss = loss;
    emit_chunk(
        step, parameters, head, chunks, local_tokens, normed, labels, d_normed, chunk, emit_loss);
  });
  b.begin_segment("head and loss, end");
}

}  // namespace trireme::plan
