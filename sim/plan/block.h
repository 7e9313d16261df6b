// What the blocks of a layer have in common: a norm, two linear layers, and a residual addition.
#pragma once

#include <optional>
#include <string_view>

#include "sim/plan/parameters.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// Books what is emitted in its scope under another component.
class InComponent {
 public:
  InComponent(Step& step, Component component) : b_(step.b), outer_(step.b.component()) {
    b_.set_component(component);
  }

  ~InComponent() { b_.set_component(outer_); }

  InComponent(const InComponent&) = delete;
  InComponent& operator=(const InComponent&) = delete;

 private:
  program::Builder& b_;
  Component outer_;
};

struct NormParameters {
  ParameterId weight = 0;
  std::optional<ParameterId> bias;
};

struct LinearParameters {
  ParameterId weight = 0;
  std::optional<ParameterId> bias;
};

/// Axes over which ranks see different tokens between blocks.
[[nodiscard]] AxisMask token_axes(const Plan& plan);

/// A norm of each rank's own tokens, over the hidden dimension or `width`. Adds its parameters to
/// `unit`.
[[nodiscard]] NormParameters declare_norm(Step& step,
                                          Parameters& parameters,
                                          program::IndexMask varies,
                                          std::string_view weight_name,
                                          std::string_view bias_name,
                                          Unit& unit,
                                          std::optional<program::Dim> width = {});

/// y = norm(x); the caller declares y.
void emit_norm(Step& step, Parameters& parameters, const NormParameters& norm, Ref x, Ref y);

/// dx = gradient of norm(x) given dy, and the gradients of its parameters; writes dx.
void emit_norm_backward(
    Step& step, Parameters& parameters, const NormParameters& norm, Ref dy, Ref x, Ref dx);

/// y = x · weightᵀ + bias; writes y. A bias that has to wait for a reduction is left to the caller:
/// pass the layer without it.
void emit_linear(Step& step,
                 Parameters& parameters,
                 const LinearParameters& linear,
                 std::string_view label,
                 Ref x,
                 Ref y);

/// dx = dy · weight; writes dx.
void emit_input_gradient(Step& step,
                         Parameters& parameters,
                         const LinearParameters& linear,
                         std::string_view label,
                         Ref dy,
                         Ref dx);

/// Gradients of weight (dyᵀ · x) and, when it has one, bias.
void emit_weight_gradient(Step& step,
                          Parameters& parameters,
                          const LinearParameters& linear,
                          std::string_view label,
                          Ref dy,
                          Ref x);

/// out = x + y (+ bias), the end of a block; writes out.
void emit_residual_add(Step& step,
                       Parameters& parameters,
                       const std::optional<ParameterId>& bias,
                       Ref x,
                       Ref y,
                       Ref out);

}  // namespace trireme::plan
