#include "sim/plan/head.h"

#include "sim/plan/embedding.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::update;
using program::write;

HeadParameters declare_head(Step& step,
                            Parameters& parameters,
                            std::optional<ParameterId> embedding_table) {
  HeadParameters head;
  head.norm = declare_norm(
      step, parameters, program::kPerStep, "final norm weight", "final norm bias", head.norm_unit);
  const bool tied = step.plan.model.tied_embeddings;
  head.tied = tied && embedding_table.has_value();
  head.weight.weight =
      head.tied ? *embedding_table
                : declare_vocabulary_weight(
                      step, parameters, tied ? "embedding table" : "head weight", Component::head);
  head.unit.add(head.weight.weight);
  return head;
}

double loss_scale(const Plan& plan) {
  return 1.0 / static_cast<double>(plan.step_tokens());
}

Ref load_labels(Step& step, const Layout& layout) {
  const InComponent scope(step, Component::loss);
  const Ref labels =
      step.micro_batch_value("labels", {step.batch(), step.sequence()}, layout, ElementType::int64);
  step.b.emit(Function::load_batch, "load labels", {write(labels)}).stream =
      program::kHostCopyStream;
  return labels;
}

void emit_head_and_loss(Step& step,
                        Parameters& parameters,
                        const HeadParameters& head,
                        Ref x,
                        Ref dx,
                        TensorId loss,
                        const NextUse& next) {
  program::Builder& b = step.b;
  b.set_phase(Phase::forward);
  b.set_component(Component::head);
  parameters.gather(head.norm_unit, {&head.unit, Phase::forward, Component::head, 0});
  const Ref normed =
      step.micro_batch_value("final norm output", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, head.norm, x, normed);
  b.set_phase(Phase::backward);
  const Ref d_normed =
      step.micro_batch_value("head input gradient", step.hidden_shape(), step.between_blocks());
  b.set_phase(Phase::forward);
  loss_lowering(step.plan).emit(step, parameters, head, normed, d_normed, loss);
  b.set_phase(Phase::backward);
  b.set_component(Component::head);
  if (!head.tied) {
    parameters.finish_backward(head.unit);
  }
  parameters.gather(head.norm_unit, next);
  emit_norm_backward(step, parameters, head.norm, d_normed, x, dx);
  parameters.finish_backward(head.norm_unit);
}

void emit_half_square_loss(Step& step, Ref x, Ref dx, TensorId loss) {
  step.b.set_phase(Phase::backward);
  step.b.set_component(Component::loss);
  step.b
      .emit(
          Function::half_square_loss, "half the sum of squares", {read(x), write(dx), update(loss)})
      .scale = loss_scale(step.plan);
}

std::span<const LossLoweringInfo> loss_lowerings() {
  static const std::array kRows = {kLossEager,
                                   kLossChunked,
                                   kLossFusedChunks,
                                   kLossInPlace,
                                   kLossVocabularyParallel,
                                   kLossVocabularyParallelFused};
  return kRows;
}

const LossLoweringInfo& loss_lowering(const Plan& plan) {
  const bool fused = plan.loss == config::LossKind::fused;
  if (plan.vocabulary_parallel()) {
    return fused ? kLossVocabularyParallelFused : kLossVocabularyParallel;
  }
  if (plan.loss == config::LossKind::chunked) {
    return kLossChunked;
  }
  if (fused && plan.transformer_engine) {
    return kLossInPlace;
  }
  return fused ? kLossFusedChunks : kLossEager;
}

}  // namespace trireme::plan
