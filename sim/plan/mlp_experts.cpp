// Experts in the place of the MLP: a router chooses some of them for each token; tokens travel to
// the ranks that hold their experts and come back, weighted; shared experts take every token.
//
// Which experts a token takes is an input of the step (Function::select_experts); what they weigh
// is the router's own.
#include "sim/plan/experts.h"
#include "sim/plan/megatron_regions.h"
#include "sim/plan/mlp.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

const config::Experts& experts_of(const Step& step) {
  return *step.plan.model.experts;
}

bool gated(const Step& step) {
  return step.plan.model.mlp_kind == config::MlpKind::swiglu;
}

program::Dim expert_width(const Step& step) {
  return {experts_of(step).width, "fe"};
}

program::Dim shared_width(const Step& step) {
  return {experts_of(step).shared * experts_of(step).width, "fs"};
}

program::Dim up_width(const Step& step, program::Dim width) {
  return gated(step) ? program::Dim{2 * width.size, "2f"} : width;
}

/// Shared experts are split like a plain MLP.
bool splits_shared(const Step& step) {
  return step.plan.mlp == MlpLowering::megatron;
}

MlpParameters declare(Step& step, Parameters& parameters) {
  const config::Experts& experts = experts_of(step);
  const AxisMask own_tokens = token_axes(step.plan);
  MlpParameters block;
  block.norm = declare_norm(
      step, parameters, program::kPerLayer, "mlp norm weight", "mlp norm bias", block.unit);
  const auto add =
      [&](std::string_view name, const Shape& shape, const Layout& layout, AxisMask partial_over) {
        const ParameterId id = parameters.declare(
            name, Component::mlp, program::kPerLayer, shape, layout, partial_over);
        block.unit.add(id);
        return id;
      };
  const program::Dim count{experts.count, "E"};
  const bool split = splits_expert_features(step.plan);
  const Layout spread = Layout().with(expert_axes(step.plan), Placement::shard(0));
  const auto placed = [&](int dim) {
    return split ? spread.with(kGroup, Placement::shard(dim)) : spread;
  };
  const AxisMask partial = expert_partial_axes(step.plan);
  block.router.weight = add("router weight", {count, step.hidden()}, Layout(), own_tokens);
  block.up.weight = add("expert up weight",
                        {count, up_width(step, expert_width(step)), step.hidden()},
                        placed(1),
                        partial);
  block.down.weight =
      add("expert down weight", {count, step.hidden(), expert_width(step)}, placed(2), partial);
  if (experts.shared > 0) {
    const auto shared = [&](int dim) {
      return splits_shared(step) ? Layout().with(kGroup, Placement::shard(dim)) : Layout();
    };
    const AxisMask partial_shared = splits_shared(step) ? kReplicas : own_tokens;
    block.shared_up.weight = add("shared expert up weight",
                                 {up_width(step, shared_width(step)), step.hidden()},
                                 shared(0),
                                 partial_shared);
    block.shared_down.weight = add("shared expert down weight",
                                   {step.hidden(), shared_width(step)},
                                   shared(1),
                                   partial_shared);
  }
  return block;
}

Shape per_choice(const Step& step) {
  return {step.batch(), step.sequence(), {experts_of(step).per_token, "k"}};
}

/// [.., f], with SwiGLU [.., f, 2].
Shape expert_up_shape(const Step& step) {
  const Shape slots = slots_shape(step, expert_width(step));
  return gated(step) ? Shape{slots[0], slots[1], slots[2], slots[3], {2, "2"}} : slots;
}

Shape shared_up_shape(const Step& step) {
  const program::Dim width = shared_width(step);
  return gated(step) ? Shape{step.batch(), step.sequence(), width, {2, "2"}}
                     : Shape{step.batch(), step.sequence(), width};
}

Shape shared_activation_shape(const Step& step) {
  return {step.batch(), step.sequence(), shared_width(step)};
}

/// Where experts compute: features split over the tensor-parallel group, or whole.
Layout inside_experts(const Step& step) {
  const Layout layout = at_experts(step);
  return splits_expert_features(step.plan)
             ? layout.with(kGroup, Placement::shard(program::kSlotFeatureDim))
             : layout;
}

/// What experts give back: partial sums over the tensor-parallel group, or whole values.
Layout behind_experts(const Step& step) {
  const Layout layout = at_experts(step);
  return splits_expert_features(step.plan) ? layout.with(kGroup, Placement::partial_sum()) : layout;
}

void emit_grouped(Step& step,
                  Function function,
                  std::string_view label,
                  Ref left,
                  Ref right,
                  program::Operand result) {
  program::Op& op = step.b.emit(function, label, {read(left), read(right), result});
  op.routed_rows = step.batch().size * step.sequence().size * experts_of(step).per_token;
}

void set_router(const Step& step, program::Op& op) {
  op.router = experts_of(step).score;
  op.normalised = experts_of(step).normalised;
}

void emit_router(Step& step,
                 Parameters& parameters,
                 const MlpParameters& block,
                 MlpTensors& saved) {
  program::Builder& b = step.b;
  const Layout layout = step.between_blocks();
  ExpertTensors& experts = saved.experts;
  experts.logits = step.value(
      "router logits", {step.batch(), step.sequence(), {experts_of(step).count, "E"}}, layout);
  emit_linear(step, parameters, block.router, "router", saved.normed, experts.logits);
  experts.ids = step.value("expert ids", per_choice(step), layout, ElementType::int32);
  b.emit(Function::select_experts, "top k", {read(experts.logits), write(experts.ids)});
  experts.weights = step.value("expert weights", per_choice(step), layout, ElementType::fp32);
  set_router(step,
             b.emit(Function::expert_weights,
                    "router weights",
                    {read(experts.logits), read(experts.ids), write(experts.weights)}));
}

/// The weighted sum of what the chosen experts make of each token.
Ref emit_experts(Step& step,
                 Parameters& parameters,
                 const MlpParameters& block,
                 MlpTensors& saved) {
  program::Builder& b = step.b;
  ExpertTensors& experts = saved.experts;
  {
    const InComponent scope(step, Component::moe);
    const Ref sent =
        step.value("tokens by expert", slots_shape(step, step.hidden()), at_sources(step));
    b.emit(Function::dispatch_tokens,
           "dispatch tokens",
           {read(saved.normed), read(experts.ids), write(sent)});
    experts.slots = to_experts(step, sent, "tokens at experts");
  }
  experts.up = step.value("expert up output", expert_up_shape(step), inside_experts(step));
  emit_grouped(step,
               Function::grouped_gemm_forward,
               "expert up projection",
               experts.slots,
               parameters.working(block.up.weight),
               write(experts.up));
  experts.activation =
      step.value("expert activation", slots_shape(step, expert_width(step)), inside_experts(step));
  emit_activation(step, experts.up, experts.activation);
  const Ref y = step.value("expert output", slots_shape(step, step.hidden()), behind_experts(step));
  emit_grouped(step,
               Function::grouped_gemm_forward,
               "expert down projection",
               experts.activation,
               parameters.working(block.down.weight),
               write(y));
  const InComponent scope(step, Component::moe);
  experts.output = from_experts(step, y, "expert output, returned");
  const Ref combined = step.value("mlp output", step.hidden_shape(), step.between_blocks());
  b.emit(Function::combine_tokens,
         "combine tokens",
         {read(experts.output), read(experts.ids), read(experts.weights), write(combined)});
  return combined;
}

Ref emit_shared(Step& step, Parameters& parameters, const MlpParameters& block, MlpTensors& saved) {
  const bool split = splits_shared(step);
  const Layout layout = split ? Step::feature_shards() : step.between_blocks();
  saved.up = step.value("shared expert up output", shared_up_shape(step), layout);
  if (split) {
    emit_gathered_linear(
        step,
        parameters,
        block.shared_up,
        {.product = "shared expert up projection", .gathered = "mlp input, gathered"},
        saved.normed,
        saved.up);
  } else {
    emit_linear(
        step, parameters, block.shared_up, "shared expert up projection", saved.normed, saved.up);
  }
  saved.activation = step.value("shared expert activation", shared_activation_shape(step), layout);
  emit_activation(step, saved.up, saved.activation);
  if (split) {
    return emit_summed_linear(step,
                              parameters,
                              block.shared_down,
                              {.product = "shared expert down projection",
                               .partial = "shared expert output, partial",
                               .sum = "shared expert output"},
                              saved.activation);
  }
  const Ref y = step.value("shared expert output", step.hidden_shape(), layout);
  emit_linear(
      step, parameters, block.shared_down, "shared expert down projection", saved.activation, y);
  return y;
}

MlpTensors forward(Step& step, Parameters& parameters, const MlpParameters& block, Ref x, Ref out) {
  MlpTensors saved;
  saved.x = x;
  saved.normed = step.value("mlp input, normed", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, block.norm, x, saved.normed);
  emit_router(step, parameters, block, saved);
  const Ref y = emit_experts(step, parameters, block, saved);
  if (experts_of(step).shared > 0) {
    const Ref shared = emit_shared(step, parameters, block, saved);
    step.b.emit(Function::add, "add shared experts", {update(y), read(shared)});
  }
  emit_residual_add(step, parameters, {}, x, y, out);
  return saved;
}

/// The gradient of the normed input through the chosen experts; writes that of their weights.
Ref emit_experts_backward(Step& step,
                          Parameters& parameters,
                          const MlpParameters& block,
                          const ExpertTensors& experts,
                          Ref dy,
                          Ref d_weights) {
  program::Builder& b = step.b;
  Ref d_output;
  {
    const InComponent scope(step, Component::moe);
    const Ref d_returned = step.value(
        "expert output gradient, by source", slots_shape(step, step.hidden()), at_sources(step));
    b.emit(Function::combine_tokens_backward,
           "combine tokens, backward",
           {read(dy),
            read(experts.output),
            read(experts.ids),
            read(experts.weights),
            write(d_returned),
            write(d_weights)});
    d_output = to_experts(step, d_returned, "expert output gradient");
  }
  const Ref d_activation = step.value(
      "expert activation gradient", slots_shape(step, expert_width(step)), inside_experts(step));
  emit_grouped(step,
               Function::grouped_gemm_input_gradient,
               "expert down projection, input gradient",
               d_output,
               parameters.working(block.down.weight),
               write(d_activation));
  emit_grouped(step,
               Function::grouped_gemm_weight_gradient,
               "expert down projection, weight gradient",
               d_output,
               experts.activation,
               parameters.gradient(block.down.weight));
  const Ref d_up = step.value("expert up gradient", expert_up_shape(step), inside_experts(step));
  emit_activation_backward(step, d_activation, experts.up, d_up);
  const Ref d_slots =
      step.value("expert input gradient", slots_shape(step, step.hidden()), behind_experts(step));
  emit_grouped(step,
               Function::grouped_gemm_input_gradient,
               "expert up projection, input gradient",
               d_up,
               parameters.working(block.up.weight),
               write(d_slots));
  emit_grouped(step,
               Function::grouped_gemm_weight_gradient,
               "expert up projection, weight gradient",
               d_up,
               experts.slots,
               parameters.gradient(block.up.weight));
  const InComponent scope(step, Component::moe);
  const Ref returned = from_experts(step, d_slots, "expert input gradient, returned");
  const Ref d_normed = step.value("mlp input gradient", step.hidden_shape(), step.between_blocks());
  b.emit(Function::dispatch_tokens_backward,
         "dispatch tokens, backward",
         {read(returned), read(experts.ids), write(d_normed)});
  return d_normed;
}

/// The gradient of the normed input through the weights of the chosen experts.
Ref emit_router_backward(Step& step,
                         Parameters& parameters,
                         const MlpParameters& block,
                         const MlpTensors& saved,
                         Ref d_weights) {
  const ExpertTensors& experts = saved.experts;
  const Ref d_logits = step.value(
      "router logits gradient", step.b.tensor(experts.logits.tensor).shape, step.between_blocks());
  set_router(
      step,
      step.b.emit(Function::expert_weights_backward,
                  "router weights, backward",
                  {read(d_weights), read(experts.logits), read(experts.ids), write(d_logits)}));
  const Ref d_normed =
      step.value("router input gradient", step.hidden_shape(), step.between_blocks());
  emit_input_gradient(step, parameters, block.router, "router, input gradient", d_logits, d_normed);
  emit_weight_gradient(
      step, parameters, block.router, "router, weight gradient", d_logits, saved.normed);
  return d_normed;
}

/// The gradient of the normed input through the shared experts.
Ref emit_shared_backward(Step& step,
                         Parameters& parameters,
                         const MlpParameters& block,
                         const MlpTensors& saved,
                         Ref dy) {
  const bool split = splits_shared(step);
  const Layout layout = split ? Step::feature_shards() : step.between_blocks();
  const Ref d_activation =
      step.value("shared expert activation gradient", shared_activation_shape(step), layout);
  Ref dy_whole = dy;
  constexpr std::string_view kDownGradient = "shared expert down projection, input gradient";
  if (split) {
    dy_whole = emit_gathered_input_gradient(
        step,
        parameters,
        block.shared_down,
        {.product = kDownGradient, .gathered = "mlp output gradient, gathered"},
        dy,
        d_activation);
  } else {
    emit_input_gradient(step, parameters, block.shared_down, kDownGradient, dy, d_activation);
  }
  emit_weight_gradient(step,
                       parameters,
                       block.shared_down,
                       "shared expert down projection, weight gradient",
                       dy_whole,
                       saved.activation);
  const Ref d_up = step.value("shared expert up gradient", shared_up_shape(step), layout);
  emit_activation_backward(step, d_activation, saved.up, d_up);
  const Ref input =
      split ? every_token(
                  step, saved.normed, "mlp input, gathered again", behind_gradient_products(step))
            : saved.normed;
  const Ref d_normed =
      step.value(split ? "shared expert input gradient, partial" : "shared expert input gradient",
                 step.hidden_shape(),
                 split ? Step::partial_sums() : step.between_blocks());
  emit_input_gradient(step,
                      parameters,
                      block.shared_up,
                      "shared expert up projection, input gradient",
                      d_up,
                      d_normed);
  const Ref sum =
      split ? summed(step, d_normed, "shared expert input gradient", behind_gradient_products(step))
            : d_normed;
  emit_weight_gradient(step,
                       parameters,
                       block.shared_up,
                       "shared expert up projection, weight gradient",
                       d_up,
                       input);
  return sum;
}

void backward(Step& step,
              Parameters& parameters,
              const MlpParameters& block,
              const MlpTensors& saved,
              Ref dy,
              Ref dx) {
  program::Builder& b = step.b;
  const Ref d_weights = step.value(
      "expert weights gradient", per_choice(step), step.between_blocks(), ElementType::fp32);
  const Ref d_normed = emit_experts_backward(step, parameters, block, saved.experts, dy, d_weights);
  const Ref of_router = emit_router_backward(step, parameters, block, saved, d_weights);
  b.emit(Function::add, "add router's input gradient", {update(d_normed), read(of_router)});
  if (experts_of(step).shared > 0) {
    const Ref of_shared = emit_shared_backward(step, parameters, block, saved, dy);
    b.emit(Function::add, "add shared experts' gradient", {update(d_normed), read(of_shared)});
  }
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const MlpLoweringInfo kMlpExperts = {
    MlpLowering::replicated,
    "experts",
    "routed and shared experts; tokens travel to the ranks of their experts and back",
    "fedus2022-switch",
    declare,
    forward,
    backward};

}  // namespace trireme::plan
