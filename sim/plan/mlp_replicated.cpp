// The MLP with whole weights on every rank: each applies it to its own tokens.
#include "sim/plan/mlp.h"
#include "sim/plan/recipes.h"
#include "sim/plan/recompute.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;

MlpParameters declare(Step& step, Parameters& parameters) {
  return declare_mlp(step, parameters, false);
}

void emit_own_activation(Step& step, MlpTensors& saved) {
  saved.activation = step.value("mlp activation", activation_shape(step), step.between_blocks());
  emit_activation(step, saved);
}

/// From saved.normed to the output of the down projection.
Ref emit_inner(Step& step, Parameters& parameters, const MlpParameters& block, MlpTensors& saved) {
  const Layout layout = step.between_blocks();
  saved.up = step.value("mlp up output", up_shape(step), layout);
  emit_linear(step, parameters, block.up, "mlp up projection", saved.normed, saved.up);
  emit_own_activation(step, saved);
  const Ref y = step.value("mlp output", step.hidden_shape(), layout);
  emit_linear(step, parameters, block.down, "mlp down projection", saved.activation, y);
  return y;
}

MlpTensors forward(Step& step, Parameters& parameters, const MlpParameters& block, Ref x, Ref out) {
  MlpTensors saved;
  saved.x = x;
  saved.normed = step.value("mlp input, normed", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, block.norm, x, saved.normed);
  saved.norm_parts = norm_parts(step);
  const Ref y = emit_inner(step, parameters, block, saved);
  emit_residual_add(step, parameters, {}, x, y, out);
  return saved;
}

void backward(Step& step,
              Parameters& parameters,
              const MlpParameters& block,
              const MlpTensors& left,
              Ref dy,
              Ref dx) {
  MlpTensors saved = left;
  saved.normed = normed_again(step, parameters, block.norm, saved.x, saved.normed);
  saved = mlp_again(
      step,
      saved,
      [&](MlpTensors& again) { return emit_inner(step, parameters, block, again); },
      [&](MlpTensors& again) { emit_own_activation(step, again); });
  const Layout layout = step.between_blocks();
  const Ref d_activation = step.value("mlp activation gradient", activation_shape(step), layout);
  emit_input_gradient(
      step, parameters, block.down, "mlp down projection, input gradient", dy, d_activation);
  emit_weight_gradient(
      step, parameters, block.down, "mlp down projection, weight gradient", dy, saved.activation);
  const Ref d_up = step.value("mlp up gradient", up_shape(step), layout);
  emit_activation_backward(step, d_activation, saved.up, d_up);
  use_kept(step, saved.gate_applied);
  const Ref d_normed = step.value("mlp input gradient", step.hidden_shape(), layout);
  emit_input_gradient(
      step, parameters, block.up, "mlp up projection, input gradient", d_up, d_normed);
  emit_weight_gradient(
      step, parameters, block.up, "mlp up projection, weight gradient", d_up, saved.normed);
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  use_kept(step, saved.norm_parts);
  step.b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const MlpLoweringInfo kMlpReplicated = {MlpLowering::replicated,
                                        "replicated",
                                        "whole weights; each rank applies them to its own tokens",
                                        "jacobs2023-ulysses",
                                        declare,
                                        forward,
                                        backward};

}  // namespace trireme::plan
