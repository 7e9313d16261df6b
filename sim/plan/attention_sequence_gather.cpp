// The naive baseline: every rank gathers the block's input, holds keys and values of all tokens and
// heads, and attends with its own queries only. It shows what the other lowerings save.
#include "sim/plan/attention.h"
#include "sim/plan/attention_kernel.h"
#include "sim/plan/recompute.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

AttentionParameters declare(Step& step, Parameters& parameters) {
  const ModelShape& model = step.plan.model;
  const program::Dim heads{model.heads * model.head_dim, "ad"};
  const program::Dim keys_values{2 * model.kv_heads * model.head_dim, "2gd"};
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
  block.qkv.weight = add("query weight", {heads, step.hidden()});
  block.key_value.weight = add("key and value weight", {keys_values, step.hidden()});
  if (model.qkv_bias) {
    block.qkv.bias = add("query bias", {heads});
    block.key_value.bias = add("key and value bias", {keys_values});
  }
  block.output.weight = add("attention output weight", {step.hidden(), heads});
  if (model.output_bias) {
    block.output.bias = add("attention output bias", {step.hidden()});
  }
  return block;
}

Shape packed_key_value_shape(const Step& step) {
  return {step.batch(), step.sequence(), step.groups(), {2, "2"}, step.head_dim()};
}

Ref key_value_view(Step& step, Ref packed, std::string_view name, std::int64_t which) {
  return step.b.declare_view(
      packed.tensor, name, key_value_shape(step), {.dim = 3, .first = which, .extent = 1});
}

void emit_core(Step& step, AttentionTensors& saved) {
  emit_attention(step, saved);
  saved.o_tokens = saved.o;
}

AttentionTensors forward(
    Step& step, Parameters& parameters, const AttentionParameters& block, Ref x, Ref out) {
  program::Builder& b = step.b;
  AttentionTensors saved;
  saved.x = x;
  saved.normed = step.value("attention input, normed", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, block.norm, x, saved.normed);
  saved.gathered = b.all_gather(saved.normed, kGroup, "attention input, gathered");
  saved.q = step.value("q", query_shape(step), step.between_blocks());
  emit_linear(step, parameters, block.qkv, "query projection", saved.normed, saved.q);
  const Ref packed =
      step.value("keys and values", packed_key_value_shape(step), Step::whole_sequences());
  emit_linear(
      step, parameters, block.key_value, "key and value projection", saved.gathered, packed);
  saved.k = key_value_view(step, packed, "k", 0);
  saved.v = key_value_view(step, packed, "v", 1);
  emit_rotary(step, saved.q, saved.k);
  emit_core(step, saved);
  const Ref y = step.value("attention block output", step.hidden_shape(), step.between_blocks());
  emit_linear(step, parameters, block.output, "attention output projection", saved.o, y);
  emit_residual_add(step, parameters, {}, x, y, out);
  return saved;
}

void backward(Step& step,
              Parameters& parameters,
              const AttentionParameters& block,
              const AttentionTensors& saved,
              Ref dy,
              Ref dx) {
  program::Builder& b = step.b;
  const Ref normed = normed_again(step, parameters, block.norm, saved.x, saved.normed);
  const Ref d_o = step.value("attention output gradient", query_shape(step), step.between_blocks());
  emit_input_gradient(
      step, parameters, block.output, "attention output projection, input gradient", dy, d_o);
  emit_weight_gradient(step,
                       parameters,
                       block.output,
                       "attention output projection, weight gradient",
                       dy,
                       saved.o_tokens);
  const Ref d_q = step.value("q gradient", query_shape(step), step.between_blocks());
  const Ref d_packed =
      step.value("key and value gradient", packed_key_value_shape(step), Step::partial_sums());
  const QueryKeyValue gradients{d_q,
                                key_value_view(step, d_packed, "k gradient", 0),
                                key_value_view(step, d_packed, "v gradient", 1)};
  const AttentionTensors core =
      core_again(step, saved, [&](AttentionTensors& again) { emit_core(step, again); });
  emit_attention_backward(step, core, d_o, gradients);
  emit_rotary_backward(step, gradients.q, gradients.k);
  const Ref d_gathered = step.value("attention input gradient of every token, partial",
                                    step.hidden_shape(),
                                    Step::partial_sums());
  emit_input_gradient(step,
                      parameters,
                      block.key_value,
                      "key and value projection, input gradient",
                      d_packed,
                      d_gathered);
  emit_weight_gradient(step,
                       parameters,
                       block.key_value,
                       "key and value projection, weight gradient",
                       d_packed,
                       saved.gathered);
  const Ref d_normed =
      b.reduce_scatter(d_gathered, kGroup, program::kSequenceDim, "attention input gradient");
  const Ref d_normed_by_q =
      step.value("attention input gradient by queries", step.hidden_shape(), step.between_blocks());
  emit_input_gradient(
      step, parameters, block.qkv, "query projection, input gradient", d_q, d_normed_by_q);
  emit_weight_gradient(
      step, parameters, block.qkv, "query projection, weight gradient", d_q, normed);
  b.emit(
      Function::add, "attention input gradient, summed", {update(d_normed), read(d_normed_by_q)});
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const AttentionLoweringInfo kAttentionSequenceGather = {
    AttentionLowering::sequence_gather,
    "sequence_gather",
    "whole weights; every rank gathers the input and attends with its own queries (naive baseline)",
    "blog2026ulysses-layout",
    declare,
    forward,
    backward};

}  // namespace trireme::plan
