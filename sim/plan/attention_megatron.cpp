// Megatron attention: heads are split over the tensor-parallel group, which holds the rows of the
// QKV weight and the columns of the output weight; tokens are gathered before and scattered after.
#include "sim/plan/attention.h"
#include "sim/plan/attention_exchange.h"
#include "sim/plan/attention_kernel.h"
#include "sim/plan/megatron_regions.h"
#include "sim/plan/megatron_shared_heads.h"
#include "sim/plan/recipes.h"
#include "sim/plan/recompute.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;

const Placement kRows = Placement::shard(0);
const Placement kColumns = Placement::shard(1);

AttentionParameters declare(Step& step, Parameters& parameters) {
  const ModelShape& model = step.plan.model;
  const program::Dim qkv{(model.heads + 2 * model.kv_heads) * model.head_dim, "(a+2g)d"};
  const program::Dim heads{model.heads * model.head_dim, "ad"};
  const Layout rows = Layout().with(kGroup, kRows);
  AttentionParameters block;
  block.norm = declare_norm(step,
                            parameters,
                            program::kPerLayer,
                            "attention norm weight",
                            "attention norm bias",
                            block.unit);
  const auto add =
      [&](std::string_view name, const Shape& shape, const Layout& layout, AxisMask partial_over) {
        const ParameterId id = parameters.declare(
            name, Component::attention, program::kPerLayer, shape, layout, partial_over);
        block.unit.add(id);
        return id;
      };
  block.qkv.weight = add("qkv weight", {qkv, step.hidden()}, rows, kReplicas);
  if (model.qkv_bias) {
    block.qkv.bias = add("qkv bias", {qkv}, rows, kReplicas);
  }
  block.output.weight = add("attention output weight",
                            {step.hidden(), heads},
                            Layout().with(kGroup, kColumns),
                            kReplicas);
  if (model.output_bias) {  // added after the reduction, to this rank's tokens
    block.output.bias =
        add("attention output bias", {step.hidden()}, Layout(), token_axes(step.plan));
  }
  return block;
}

/// What Megatron Core calls core attention: given saved.packed, or own q, k and v of shared heads.
void emit_core(Step& step, AttentionTensors& saved) {
  if (!shares_key_value_heads(step.plan)) {
    const QueryKeyValue heads = qkv_to_heads(step, saved.packed);
    saved.q = heads.q;
    saved.k = heads.k;
    saved.v = heads.v;
    copy_key_values(step, saved);
  }
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
  const bool shared = shares_key_value_heads(step.plan);
  const Ref packed = step.value(
      "qkv", shared ? projected_rows_shape(step) : packed_qkv_shape(step), Step::feature_shards());
  saved.gathered =
      emit_gathered_linear(step,
                           parameters,
                           block.qkv,
                           {.product = "qkv projection", .gathered = "attention input, gathered"},
                           saved.normed,
                           packed);
  if (shared) {
    const QueryKeyValue heads = take_own_heads(step, packed);
    saved.q = heads.q;
    saved.k = heads.k;
    saved.v = heads.v;
    emit_rotary(step, saved.q, saved.k);
  } else {
    saved.packed = packed;
    const QueryKeyValue tokens = unpack(step, packed);
    emit_rotary(step, tokens.q, tokens.k);
  }
  emit_core(step, saved);
  const Ref y = emit_summed_linear(step,
                                   parameters,
                                   {block.output.weight, {}},
                                   {.product = "attention output projection",
                                    .partial = "attention block output, partial",
                                    .sum = "attention block output"},
                                   saved.o_tokens);
  emit_residual_add(step, parameters, block.output.bias, x, y, out);
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
  const bool shared = shares_key_value_heads(step.plan);
  const Ref d_o_tokens = step.value(
      "attention output gradient",
      shared ? b.tensor(saved.q.tensor).shape : query_shape(step, step.exchanged_groups()),
      Step::feature_shards());
  const Ref dy_whole =
      emit_gathered_input_gradient(step,
                                   parameters,
                                   block.output,
                                   {.product = "attention output projection, input gradient",
                                    .gathered = "attention output gradient, gathered"},
                                   dy,
                                   d_o_tokens);
  emit_weight_gradient(step,
                       parameters,
                       {block.output.weight, {}},
                       "attention output projection, weight gradient",
                       dy_whole,
                       saved.o_tokens);
  if (block.output.bias) {
    b.emit(Function::bias_gradient,
           "attention output bias gradient",
           {read(dy), parameters.gradient(*block.output.bias)});
  }
  const Ref d_o = to_heads(step, d_o_tokens, "attention output gradient, exchanged");
  const AttentionTensors core =
      core_again(step, saved, [&](AttentionTensors& again) { emit_core(step, again); });
  Ref d_packed;
  QueryKeyValue gradients;
  if (shared) {
    gradients = declare_own_gradients(step, {saved.q, saved.k, saved.v});
    emit_attention_backward(step, core, d_o, gradients);
  } else {
    d_packed = qkv_gradient(step, core, d_o);
    gradients = unpack(step, d_packed);
  }
  emit_rotary_backward(step, gradients.q, gradients.k);
  if (shared) {
    d_packed = gradient_of_rows(step, gradients);
  }
  const Ref input = gathered_for_gradient(
      step, saved.gathered, normed, "attention input, gathered again", step.gathered_inputs);
  const Ref d_partial =
      step.value("attention input gradient, partial", step.hidden_shape(), Step::partial_sums());
  emit_input_gradient(
      step, parameters, block.qkv, "qkv projection, input gradient", d_packed, d_partial);
  const Ref d_normed =
      summed(step, d_partial, "attention input gradient", behind_gradient_products(step));
  emit_weight_gradient(
      step, parameters, block.qkv, "qkv projection, weight gradient", d_packed, input);
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  use_kept(step, saved.norm_parts);
  b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const AttentionLoweringInfo kAttentionMegatron = {
    AttentionLowering::megatron,
    "megatron",
    "heads and weights split; sequence gathered before and reduce-scattered after",
    "korthikanti2022",
    declare,
    forward,
    backward};

}  // namespace trireme::plan
