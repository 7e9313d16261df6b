// The loss as eager code computes it: logits in the model's type, then in fp32 unless the plan
// keeps them in bf16, then their log-softmax and its gradient, each a tensor of its own.
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
  const Shape logits_shape{step.batch(), step.sequence(), {step.plan.model.vocabulary, "V"}};
  const auto logits_value = [&](std::string_view name, ElementType type) {
    const InComponent scope(step, Component::loss);
    return step.micro_batch_value(name, logits_shape, layout, type);
  };
  const Ref labels = load_labels(step, layout);
  parameters.gather(head.unit, head.norm_goes_back());
  const Ref logits = logits_value("logits", ElementType::bf16);
  emit_linear(step, parameters, head.weight, "head", normed, logits);
  b.set_component(Component::loss);
  const ElementType type = step.plan.logits_type;
  const bool casts = type != ElementType::bf16;
  Ref used = logits;
  if (casts) {
    used = logits_value("logits in fp32", type);
    b.emit(Function::cast, "logits to fp32", {read(logits), write(used)});
  }
  const Ref log_probabilities = logits_value("log-probabilities", type);
  b.emit(Function::cross_entropy,
         "cross entropy",
         {read(used), read(labels), write(log_probabilities), update(loss)})
      .scale = loss_scale(step.plan);

  const bool in_place = step.plan.modules.softmax_beside_logits;
  if (in_place) {
    b.keep({used}, "nanotron, LlamaForTraining.forward: the logits are a local variable");
  }
  b.set_phase(Phase::backward);
  Ref d_logits = in_place
                     ? Ref(b.declare_in_place(log_probabilities.tensor, "gradient", layout))
                     : logits_value(casts ? "logits gradient in fp32" : "logits gradient", type);
  b.emit(Function::cross_entropy_backward,
         "cross entropy backward",
         {read(log_probabilities), read(labels), write(d_logits)})
      .scale = loss_scale(step.plan);
  if (casts) {
    const Ref rounded = logits_value("logits gradient", ElementType::bf16);
    b.emit(Function::cast, "logits gradient to bf16", {read(d_logits), write(rounded)});
    d_logits = rounded;
  }
  if (!in_place) {
    b.keep({used}, "transformers, modeling_outputs.py: the model's output holds the logits");
  }
  b.set_component(Component::head);
  parameters.gather(head.unit);
  emit_input_gradient(step, parameters, head.weight, "head, input gradient", d_logits, d_normed);
  emit_weight_gradient(step, parameters, head.weight, "head, weight gradient", d_logits, normed);
}

}  // namespace

const LossLoweringInfo kLossEager = {
    "eager",
    "logits, their fp32 copy, log-softmax and gradients, about 12 bytes per logit",
    "transformers",
    emit};

}  // namespace trireme::plan
