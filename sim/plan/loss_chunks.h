// Head and loss in chunks of one rank's tokens: the gradients of input and weight are complete when
// the forward pass ends.
#pragma once

#include "sim/plan/chunks.h"
#include "sim/plan/head.h"

namespace trireme::plan {

/// One chunk's logits and labels, and the loss to add to.
struct LossChunk {
  Shape shape;  // of the logits: [B, S', V]
  Ref logits;
  Ref labels;
  TensorId loss = program::kNoTensor;
};

/// Declares a value of a chunk's logits.
[[nodiscard]] Ref chunk_logits(Step& step,
                               std::string_view name,
                               const Shape& shape,
                               ElementType type);

/// Emits the chunk's loss; returns the gradient of its logits.
using EmitChunkLoss = Ref (*)(Step& step, const LossChunk& chunk);

void emit_loss_in_chunks(Step& step,
                         Parameters& parameters,
                         const HeadParameters& head,
                         Ref normed,
                         Ref d_normed,
                         TensorId loss,
                         EmitChunkLoss emit_loss);

}  // namespace trireme::plan
