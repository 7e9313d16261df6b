#include "sim/plan/mlp.h"

#include "sim/plan/recipes.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::write;

Shape up_shape(const Step& step) {
  const program::Dim width{step.plan.model.mlp_width, "f"};
  if (step.plan.model.mlp_kind == config::MlpKind::swiglu) {
    return {step.batch(), step.sequence(), width, {2, "2"}};
  }
  return {step.batch(), step.sequence(), width};
}

Shape activation_shape(const Step& step) {
  return {step.batch(), step.sequence(), {step.plan.model.mlp_width, "f"}};
}

MlpParameters declare_mlp(Step& step, Parameters& parameters, bool split) {
  const ModelShape& model = step.plan.model;
  const bool gated = model.mlp_kind == config::MlpKind::swiglu;
  const program::Dim width{model.mlp_width, "f"};
  const program::Dim up_width{gated ? 2 * model.mlp_width : model.mlp_width, gated ? "2f" : "f"};
  const auto placed = [&](int dim) {
    return split ? Layout().with(kGroup, Placement::shard(dim)) : Layout();
  };
  const AxisMask partial_over = split ? kReplicas : token_axes(step.plan);
  MlpParameters block;
  block.norm = declare_norm(
      step, parameters, program::kPerLayer, "mlp norm weight", "mlp norm bias", block.unit);
  const auto add =
      [&](std::string_view name, const Shape& shape, const Layout& layout, AxisMask partial) {
        const ParameterId id =
            parameters.declare(name, Component::mlp, program::kPerLayer, shape, layout, partial);
        block.unit.add(id);
        return id;
      };
  block.up.weight = add("mlp up weight", {up_width, step.hidden()}, placed(0), partial_over);
  if (model.mlp_bias) {
    block.up.bias = add("mlp up bias", {up_width}, placed(0), partial_over);
  }
  block.down.weight = add("mlp down weight", {step.hidden(), width}, placed(1), partial_over);
  if (model.mlp_bias) {  // added after the reduction where features are split
    block.down.bias = add("mlp down bias", {step.hidden()}, Layout(), token_axes(step.plan));
  }
  return block;
}

void emit_activation(Step& step, Ref up, Ref activation) {
  const bool gated = step.plan.model.mlp_kind == config::MlpKind::swiglu;
  step.b.emit(gated ? Function::swiglu : Function::gelu,
              gated ? "swiglu" : "gelu",
              {read(up), write(activation)});
}

void emit_activation(Step& step, MlpTensors& saved) {
  emit_activation(step, saved.up, saved.activation);
  const program::Tensor activation = step.b.tensor(saved.activation.tensor);
  saved.gate_applied = also_kept(
      step,
      step.plan.modules.activation_in_two && step.plan.model.mlp_kind == config::MlpKind::swiglu,
      "silu of the gate",
      activation.shape,
      activation.layout,
      ElementType::bf16,
      "pytorch, MulBackward0: the product with the other half keeps what SiLU gave");
  const config::RecomputeModules& again = step.plan.recompute_modules;
  if (step.b.phase() == Phase::forward && (again.mlp || again.mlp_activation)) {
    use_kept(step, saved.gate_applied);
  }
}

void emit_activation_backward(Step& step, Ref d_activation, Ref up, Ref d_up) {
  const bool gated = step.plan.model.mlp_kind == config::MlpKind::swiglu;
  step.b.emit(gated ? Function::swiglu_backward : Function::gelu_backward,
              gated ? "swiglu backward" : "gelu backward",
              {read(d_activation), read(up), write(d_up)});
}

}  // namespace trireme::plan
