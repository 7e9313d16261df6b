// Ulysses attention: whole weights on every rank, tokens split outside the attention kernel and
// heads inside it; all-to-all exchanges change from one split to the other.
#include "sim/plan/attention.h"
#include "sim/plan/attention_exchange.h"
#include "sim/plan/attention_kernel.h"
#include "sim/plan/recipes.h"
#include "sim/plan/recompute.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

AttentionParameters declare(Step& step, Parameters& parameters) {
  const ModelShape& model = step.plan.model;
  const program::Dim qkv{(model.heads + 2 * model.kv_heads) * model.head_dim, "(a+2g)d"};
  const program::Dim heads{model.heads * model.head_dim, "ad"};
  AttentionParameters block;
  block.norm = declare_norm(step,
                            parameters,
                            program::kPerLayer,
                            "attention norm weight",
                            "attention norm bias",
                            block.unit);
  const auto add = [&](std::string_view name, const Shape& shape) {
    const ParameterId id = parameters.declare(
        name, Component::attention, program::kPerLayer, shape, Layout(), token_axes(step.plan));
    block.unit.add(id);
    return id;
  };
  block.qkv.weight = add("qkv weight", {qkv, step.hidden()});
  if (model.qkv_bias) {
    block.qkv.bias = add("qkv bias", {qkv});
  }
  block.output.weight = add("attention output weight", {step.hidden(), heads});
  if (model.output_bias) {
    block.output.bias = add("attention output bias", {step.hidden()});
  }
  return block;
}

/// What Megatron Core calls core attention, given saved.packed, at this rank's tokens.
void emit_core(Step& step, AttentionTensors& saved) {
  const QueryKeyValue heads = qkv_to_heads(step, saved.packed);
  saved.q = heads.q;
  saved.k = heads.k;
  saved.v = heads.v;
  copy_key_values(step, saved);
  emit_attention(step, saved);
  saved.o_tokens = to_tokens(step, saved.o, "attention output, exchanged");
}

AttentionTensors forward(
    Step& step, Parameters& parameters, const AttentionParameters& block, Ref x, Ref out) {
  AttentionTensors saved;
  saved.x = x;
  saved.normed = step.value("attention input, normed", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, block.norm, x, saved.normed);
  saved.norm_parts = norm_parts(step);
  saved.packed = step.value("qkv", packed_qkv_shape(step), step.between_blocks());
  emit_linear(step, parameters, block.qkv, "qkv projection", saved.normed, saved.packed);
  const QueryKeyValue tokens = unpack(step, saved.packed);
  emit_rotary(step, tokens.q, tokens.k);
  emit_core(step, saved);
  const Ref y = step.value("attention block output", step.hidden_shape(), step.between_blocks());
  emit_linear(step, parameters, block.output, "attention output projection", saved.o_tokens, y);
  emit_residual_add(step, parameters, {}, x, y, out);
  return saved;
}

void backward(Step& step,
              Parameters& parameters,
              const AttentionParameters& block,
              const AttentionTensors& saved,
              Ref dy,
              Ref dx) {
  const Ref normed = normed_again(step, parameters, block.norm, saved.x, saved.normed);
  const Ref d_o_tokens = step.value("attention output gradient",
                                    query_shape(step, step.exchanged_groups()),
                                    step.between_blocks());
  emit_input_gradient(step,
                      parameters,
                      block.output,
                      "attention output projection, input gradient",
                      dy,
                      d_o_tokens);
  emit_weight_gradient(step,
                       parameters,
                       block.output,
                       "attention output projection, weight gradient",
                       dy,
                       saved.o_tokens);
  const Ref d_o = to_heads(step, d_o_tokens, "attention output gradient, exchanged");
  const AttentionTensors core =
      core_again(step, saved, [&](AttentionTensors& again) { emit_core(step, again); });
  const Ref d_packed = qkv_gradient(step, core, d_o);
  const QueryKeyValue gradients = unpack(step, d_packed);
  emit_rotary_backward(step, gradients.q, gradients.k);
  const Ref d_normed =
      step.value("attention input gradient", step.hidden_shape(), step.between_blocks());
  emit_input_gradient(
      step, parameters, block.qkv, "qkv projection, input gradient", d_packed, d_normed);
  emit_weight_gradient(
      step, parameters, block.qkv, "qkv projection, weight gradient", d_packed, normed);
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  use_kept(step, saved.norm_parts);
  step.b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const AttentionLoweringInfo kAttentionUlysses = {
    AttentionLowering::ulysses,
    "ulysses",
    "whole weights; all-to-all exchanges change between split tokens and split heads",
    "jacobs2023-ulysses",
    declare,
    forward,
    backward};

}  // namespace trireme::plan
