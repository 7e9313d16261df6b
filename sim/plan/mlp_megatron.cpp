// The Megatron MLP: features are split over the tensor-parallel group; tokens are gathered before
// the up projection and reduce-scattered (or all-reduced) after the down projection.
#include "sim/plan/megatron_regions.h"
#include "sim/plan/mlp.h"
#include "sim/plan/recipes.h"
#include "sim/plan/recompute.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;

MlpParameters declare(Step& step, Parameters& parameters) {
  return declare_mlp(step, parameters, true);
}

void emit_own_activation(Step& step, MlpTensors& saved) {
  saved.activation = step.value("mlp activation", activation_shape(step), Step::feature_shards());
  emit_activation(step, saved);
}

/// From saved.normed to the sum of the down projection, before its bias.
Ref emit_inner(Step& step, Parameters& parameters, const MlpParameters& block, MlpTensors& saved) {
  saved.up = step.value("mlp up output", up_shape(step), Step::feature_shards());
  saved.gathered =
      emit_gathered_linear(step,
                           parameters,
                           block.up,
                           {.product = "mlp up projection", .gathered = "mlp input, gathered"},
                           saved.normed,
                           saved.up);
  emit_own_activation(step, saved);
  return emit_summed_linear(
      step,
      parameters,
      {block.down.weight, {}},
      {.product = "mlp down projection", .partial = "mlp output, partial", .sum = "mlp output"},
      saved.activation);
}

MlpTensors forward(Step& step, Parameters& parameters, const MlpParameters& block, Ref x, Ref out) {
  MlpTensors saved;
  saved.x = x;
  saved.normed = step.value("mlp input, normed", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, block.norm, x, saved.normed);
  saved.norm_parts = norm_parts(step);
  const Ref y = emit_inner(step, parameters, block, saved);
  emit_residual_add(step, parameters, block.down.bias, x, y, out);
  return saved;
}

void backward(Step& step,
              Parameters& parameters,
              const MlpParameters& block,
              const MlpTensors& left,
              Ref dy,
              Ref dx) {
  program::Builder& b = step.b;
  MlpTensors saved = left;
  saved.normed = normed_again(step, parameters, block.norm, saved.x, saved.normed);
  saved = mlp_again(
      step,
      saved,
      [&](MlpTensors& again) { return emit_inner(step, parameters, block, again); },
      [&](MlpTensors& again) { emit_own_activation(step, again); });
  const Ref d_activation =
      step.value("mlp activation gradient", activation_shape(step), Step::feature_shards());
  const Ref dy_whole =
      emit_gathered_input_gradient(step,
                                   parameters,
                                   block.down,
                                   {.product = "mlp down projection, input gradient",
                                    .gathered = "mlp output gradient, gathered"},
                                   dy,
                                   d_activation);
  emit_weight_gradient(step,
                       parameters,
                       {block.down.weight, {}},
                       "mlp down projection, weight gradient",
                       dy_whole,
                       saved.activation);
  if (block.down.bias) {
    b.emit(Function::bias_gradient,
           "mlp down bias gradient",
           {read(dy), parameters.gradient(*block.down.bias)});
  }
  const Ref d_up = step.value("mlp up gradient", up_shape(step), Step::feature_shards());
  emit_activation_backward(step, d_activation, saved.up, d_up);
  use_kept(step, saved.gate_applied);
  const Ref input = gathered_for_gradient(
      step, saved.gathered, saved.normed, "mlp input, gathered again", step.gathered_inputs);
  const Ref d_partial =
      step.value("mlp input gradient, partial", step.hidden_shape(), Step::partial_sums());
  emit_input_gradient(
      step, parameters, block.up, "mlp up projection, input gradient", d_up, d_partial);
  const Ref d_normed =
      summed(step, d_partial, "mlp input gradient", behind_gradient_products(step));
  emit_weight_gradient(
      step, parameters, block.up, "mlp up projection, weight gradient", d_up, input);
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  use_kept(step, saved.norm_parts);
  b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const MlpLoweringInfo kMlpMegatron = {
    MlpLowering::megatron,
    "megatron",
    "features and weights split; sequence gathered before and reduce-scattered after",
    "korthikanti2022",
    declare,
    forward,
    backward};

}  // namespace trireme::plan
