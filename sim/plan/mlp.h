// The MLP block of a layer: out = x + mlp(norm(x)), lowered one way per file.
#pragma once

#include <span>
#include <string_view>

#include "sim/plan/block.h"
#include "sim/plan/parameters.h"
#include "sim/plan/step.h"

namespace trireme::plan {

struct MlpParameters {
  Unit unit;
  NormParameters norm;
  LinearParameters up;  // SwiGLU: gate and up interleaved, [2f, h]
  LinearParameters down;
  // Of a layer with experts: `up` and `down` are theirs, [E, 2f, h] and [E, h, f].
  LinearParameters router;
  LinearParameters shared_up;
  LinearParameters shared_down;
};

/// What a layer with experts leaves besides; `up` and `activation` of MlpTensors are then those of
/// the shared experts.
struct ExpertTensors {
  Ref logits;      // [B, S, E]
  Ref ids;         // [B, S, k]
  Ref weights;     // [B, S, k]
  Ref slots;       // tokens where the experts are, [R, E, C, h]
  Ref up;          // [R, E, C, f, 2]
  Ref activation;  // [R, E, C, f]
  Ref output;      // back where the tokens are, [R, E, C, h]
};

/// What the forward pass leaves for the backward pass.
struct MlpTensors {
  Ref x;
  Ref norm_parts;  // of a norm that is computed in parts
  Ref normed;
  Ref gathered;      // the normed input of every token, where tokens are gathered
  Ref up;            // [B, S, f], with SwiGLU [B, S, f, 2]
  Ref gate_applied;  // [B, S, f], of an activation in two operations
  Ref activation;    // [B, S, f]
  ExpertTensors experts;
};

struct MlpLoweringInfo {
  MlpLowering kind;
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  MlpParameters (*declare)(Step& step, Parameters& parameters);
  /// Writes out, given x: both are the residual stream.
  MlpTensors (*forward)(
      Step& step, Parameters& parameters, const MlpParameters& block, Ref x, Ref out);
  /// Writes dx, the gradient of x, given dy, the gradient of out.
  void (*backward)(Step& step,
                   Parameters& parameters,
                   const MlpParameters& block,
                   const MlpTensors& saved,
                   Ref dy,
                   Ref dx);
};

[[nodiscard]] std::span<const MlpLoweringInfo> mlp_lowerings();

[[nodiscard]] const MlpLoweringInfo& mlp_lowering(MlpLowering kind);

extern const MlpLoweringInfo kMlpExperts;
extern const MlpLoweringInfo kMlpMegatron;
extern const MlpLoweringInfo kMlpReplicated;
extern const MlpLoweringInfo kMlpTiled;

/// [B, S, f], with SwiGLU [B, S, f, 2].
[[nodiscard]] Shape up_shape(const Step& step);
[[nodiscard]] Shape activation_shape(const Step& step);

/// Declares the two linear layers; `split`: their features are split over the group.
[[nodiscard]] MlpParameters declare_mlp(Step& step, Parameters& parameters, bool split);

/// activation = gelu(up) or swiglu(up); writes activation.
void emit_activation(Step& step, Ref up, Ref activation);

/// Writes saved.activation, which the caller declared, from saved.up, and what else its module
/// keeps.
void emit_activation(Step& step, MlpTensors& saved);

/// Writes the gradient of up given that of the activation.
void emit_activation_backward(Step& step, Ref d_activation, Ref up, Ref d_up);

}  // namespace trireme::plan
