// The eager loss in chunks of tokens: as many bytes per logit as whole, of one chunk at a time.
#include "sim/plan/loss_chunks.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::update;
using program::write;

namespace {

Ref emit_chunk_loss(Step& step, const LossChunk& chunk) {
  program::Builder& b = step.b;
  const ElementType type = step.plan.logits_type;
  const bool casts = type != ElementType::bf16;
  Ref logits = chunk.logits;
  if (casts) {
    logits = chunk_logits(step, "logits in fp32, chunk", chunk.shape, type);
    b.emit(Function::cast, "logits to fp32, chunk", {read(chunk.logits), write(logits)});
  }
  const Ref log_probabilities = chunk_logits(step, "log-probabilities, chunk", chunk.shape, type);
  b.emit(Function::cross_entropy,
         "cross entropy, chunk",
         {read(logits), read(chunk.labels), write(log_probabilities), update(chunk.loss)})
      .scale = loss_scale(step.plan);
  b.set_phase(Phase::backward);
  const Ref gradient = chunk_logits(step, "logits gradient, chunk", chunk.shape, type);
  b.emit(Function::cross_entropy_backward,
         "cross entropy backward, chunk",
         {read(log_probabilities), read(chunk.labels), write(gradient)})
      .scale = loss_scale(step.plan);
  if (!casts) {
    return gradient;
  }
  const Ref d_logits =
      chunk_logits(step, "logits gradient in bf16, chunk", chunk.shape, ElementType::bf16);
  b.emit(Function::cast, "logits gradient to bf16, chunk", {read(gradient), write(d_logits)});
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

const LossLoweringInfo kLossChunked = {
    "chunked",
    "the eager loss and the head's backward pass, one chunk of tokens after the other",
    "bekman2025-alst",
    emit};

}  // namespace trireme::plan
