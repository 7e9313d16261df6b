// The loss over whole logits of this rank's tokens, whose gradient replaces them: Megatron's fused
// cross entropy where the vocabulary is not split.
#include "sim/plan/framework_buffers.h"
#include "sim/plan/head.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

void emit(Step& step,
          Parameters& parameters,
          const HeadParameters& head,
          Ref normed,
          Ref d_normed,
          TensorId loss) {
  program::Builder& b = step.b;
  const Layout layout = step.between_blocks();
  const Ref labels = load_labels(step, layout);
  parameters.gather(head.unit, head.norm_goes_back());
  b.set_component(Component::loss);
  const Ref logits = step.micro_batch_value(
      "logits", {step.batch(), step.sequence(), {step.plan.model.vocabulary, "V"}}, layout);
  b.set_component(Component::head);
  emit_linear(step, parameters, head.weight, "head", normed, logits);
  b.set_component(Component::loss);
  const Ref d_logits = b.declare_in_place(logits.tensor, "gradient", layout);
  b.emit(Function::cross_entropy_in_place,
         "cross entropy",
         {read(logits), read(labels), write(d_logits), update(loss)})
      .scale = loss_scale(step.plan);

  b.set_phase(Phase::backward);
  b.set_component(Component::head);
  parameters.gather(head.unit);
  emit_input_gradient(step, parameters, head.weight, "head, input gradient", d_logits, d_normed);
  emit_weight_gradient(step, parameters, head.weight, "head, weight gradient", d_logits, normed);
  emit_weight_gradient_placeholder(step, parameters, head.weight.weight, {d_logits});
}

}  // namespace

const LossLoweringInfo kLossInPlace = {
    "fused, in place",
    "whole logits whose gradient replaces them, where the vocabulary is not split",
    "transformer-engine",
    emit};

}  // namespace trireme::plan
