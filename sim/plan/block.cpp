#include "sim/plan/block.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::update;
using program::write;

AxisMask token_axes(const Plan& plan) {
  return plan.sequence_sharded ? static_cast<AxisMask>(kGroup | kReplicas) : kReplicas;
}

NormParameters declare_norm(Step& step,
                            Parameters& parameters,
                            program::IndexMask varies,
                            std::string_view weight_name,
                            std::string_view bias_name,
                            Unit& unit,
                            std::optional<program::Dim> width) {
  const Shape shape{width.value_or(step.hidden())};
  NormParameters norm;
  norm.weight = parameters.declare(
      weight_name, Component::norm, varies, shape, Layout(), token_axes(step.plan));
  unit.add(norm.weight);
  if (step.plan.model.norm == config::NormKind::layernorm) {
    norm.bias = parameters.declare(
        bias_name, Component::norm, varies, shape, Layout(), token_axes(step.plan));
    unit.add(*norm.bias);
  }
  return norm;
}

void emit_norm(Step& step, Parameters& parameters, const NormParameters& norm, Ref x, Ref y) {
  const InComponent scope(step, Component::norm);
  const Ref weight = parameters.working(norm.weight);
  if (norm.bias) {
    step.b.emit(Function::norm_forward,
                "norm",
                {read(x), read(weight), read(parameters.working(*norm.bias)), write(y)});
  } else {
    step.b.emit(Function::norm_forward, "norm", {read(x), read(weight), write(y)});
  }
}

void emit_norm_backward(
    Step& step, Parameters& parameters, const NormParameters& norm, Ref dy, Ref x, Ref dx) {
  const InComponent scope(step, Component::norm);
  const Ref weight = parameters.working(norm.weight);
  const program::Operand dweight = parameters.gradient(norm.weight);
  if (norm.bias) {
    step.b.emit(
        Function::norm_backward,
        "norm backward",
        {read(dy), read(x), read(weight), write(dx), dweight, parameters.gradient(*norm.bias)});
  } else {
    step.b.emit(Function::norm_backward,
                "norm backward",
                {read(dy), read(x), read(weight), write(dx), dweight});
  }
}

void emit_linear(Step& step,
                 Parameters& parameters,
                 const LinearParameters& linear,
                 std::string_view label,
                 Ref x,
                 Ref y) {
  const Ref weight = parameters.working(linear.weight);
  if (linear.bias) {
    step.b.emit(Function::gemm_forward,
                label,
                {read(x), read(weight), read(parameters.working(*linear.bias)), write(y)});
  } else {
    step.b.emit(Function::gemm_forward, label, {read(x), read(weight), write(y)});
  }
}

void emit_input_gradient(Step& step,
                         Parameters& parameters,
                         const LinearParameters& linear,
                         std::string_view label,
                         Ref dy,
                         Ref dx) {
  step.b.emit(Function::gemm_input_gradient,
              label,
              {read(dy), read(parameters.working(linear.weight)), write(dx)});
}

void emit_weight_gradient(Step& step,
                          Parameters& parameters,
                          const LinearParameters& linear,
                          std::string_view label,
                          Ref dy,
                          Ref x) {
  step.b.emit(Function::gemm_weight_gradient,
              label,
              {read(dy), read(x), parameters.gradient(linear.weight)});
  if (linear.bias) {
    step.b.emit(Function::bias_gradient, label, {read(dy), parameters.gradient(*linear.bias)});
  }
}

void emit_residual_add(Step& step,
                       Parameters& parameters,
                       const std::optional<ParameterId>& bias,
                       Ref x,
                       Ref y,
                       Ref out) {
  if (bias) {
    step.b.emit(Function::add,
                "residual addition",
                {read(x), read(y), read(parameters.working(*bias)), write(out)});
  } else {
    step.b.emit(Function::add, "residual addition", {read(x), read(y), write(out)});
  }
}

}  // namespace trireme::plan
