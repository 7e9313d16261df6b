// Multi-head latent attention: queries, and keys with values, pass through a narrow vector of each
// token; the part of a key with rotary embedding comes from the token itself and is the same for
// every head. Heads are whole on every rank (Ulysses exchanges them) or split (Megatron): narrow
// vectors are always each rank's own tokens'.
// Source: deepseek2024-v2, section 2.1; megatron-lm, megatron/core/transformer/
// multi_latent_attention.py: down projections are duplicated, up projections column-parallel
#include <array>

#include "sim/plan/attention.h"
#include "sim/plan/attention_exchange.h"
#include "sim/plan/attention_kernel.h"
#include "sim/plan/megatron_regions.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

/// Sizes of one model's latent attention, as dimensions.
class Latent {
 public:
  explicit Latent(const Step& step) : step_(step), sizes_(*step.plan.model.latent) {}

  [[nodiscard]] bool narrow_queries() const { return sizes_.query_rank > 0; }

  [[nodiscard]] program::Dim query_rank() const { return {sizes_.query_rank, "cq"}; }

  [[nodiscard]] program::Dim kv_rank() const { return {sizes_.kv_rank, "ckv"}; }

  [[nodiscard]] program::Dim nope() const { return {sizes_.nope_dim, "dn"}; }

  [[nodiscard]] program::Dim rope() const { return {sizes_.rope_dim, "dr"}; }

  [[nodiscard]] program::Dim value() const { return {sizes_.value_dim, "dv"}; }

  [[nodiscard]] Shape tokens(program::Dim features) const {
    return {step_.batch(), step_.sequence(), features};
  }

  [[nodiscard]] Shape heads(program::Dim features) const {
    return {step_.batch(), step_.sequence(), step_.groups(), features};
  }

  /// The narrow vector of keys and values with the shared part of the keys behind it.
  [[nodiscard]] program::Dim narrow_and_shared() const {
    return {sizes_.kv_rank + sizes_.rope_dim, "ckv+dr"};
  }

  [[nodiscard]] program::Dim nope_and_value() const {
    return {sizes_.nope_dim + sizes_.value_dim, "dn+dv"};
  }

  [[nodiscard]] Shape output() const {
    return {step_.batch(), step_.sequence(), step_.groups(), step_.heads_per_group(), value()};
  }

 private:
  const Step& step_;
  const config::LatentAttention& sizes_;
};

bool splits_heads(const Step& step) {
  return step.plan.attention == AttentionLowering::megatron;
}

/// Heads where projections leave them: split over the group, or all of this rank's tokens.
Layout projected(const Step& step) {
  return splits_heads(step) ? Step::feature_shards() : step.between_blocks();
}

AttentionParameters declare(Step& step, Parameters& parameters) {
  const ModelShape& model = step.plan.model;
  const Latent latent(step);
  const AxisMask own_tokens = token_axes(step.plan);
  const bool split = splits_heads(step);
  const auto placed = [&](int dim) {
    return split ? Layout().with(kGroup, Placement::shard(dim)) : Layout();
  };
  const AxisMask behind_heads = split ? kReplicas : own_tokens;
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
  const program::Dim queries{model.heads * model.head_dim, "ad"};
  if (latent.narrow_queries()) {
    block.latent.query_down.weight =
        add("query down weight", {latent.query_rank(), step.hidden()}, Layout(), own_tokens);
    block.latent.query_norm = declare_norm(step,
                                           parameters,
                                           program::kPerLayer,
                                           "query norm weight",
                                           "query norm bias",
                                           block.unit,
                                           latent.query_rank());
    block.latent.query_up.weight =
        add("query up weight", {queries, latent.query_rank()}, placed(0), behind_heads);
  } else {
    block.latent.query_up.weight =
        add("query up weight", {queries, step.hidden()}, placed(0), behind_heads);
  }
  block.latent.kv_down.weight =
      add("kv down weight", {latent.narrow_and_shared(), step.hidden()}, Layout(), own_tokens);
  block.latent.kv_norm = declare_norm(step,
                                      parameters,
                                      program::kPerLayer,
                                      "kv norm weight",
                                      "kv norm bias",
                                      block.unit,
                                      latent.kv_rank());
  block.latent.kv_up.weight =
      add("kv up weight",
          {{model.heads * latent.nope_and_value().size, "a(dn+dv)"}, latent.kv_rank()},
          placed(0),
          behind_heads);
  block.output.weight = add("attention output weight",
                            {step.hidden(), {model.heads * latent.value().size, "adv"}},
                            placed(1),
                            behind_heads);
  return block;
}

/// y = x · weightᵀ for x of this rank's tokens and the heads that projections leave.
void emit_up(Step& step,
             Parameters& parameters,
             const LinearParameters& linear,
             const BorderNames& names,
             Ref x,
             Ref y) {
  if (splits_heads(step)) {
    emit_gathered_linear(step, parameters, linear, names, x, y);
  } else {
    emit_linear(step, parameters, linear, names.product, x, y);
  }
}

struct UpGradientNames {
  std::string_view input;   // operation
  std::string_view weight;  // operation
  std::string_view gathered;
  std::string_view partial;
  std::string_view sum;
};

/// The gradients of `emit_up`: returns that of x, of this rank's tokens.
Ref emit_up_backward(Step& step,
                     Parameters& parameters,
                     const LinearParameters& linear,
                     const UpGradientNames& names,
                     Ref dy,
                     Ref x) {
  const Shape shape = step.b.tensor(x.tensor).shape;
  const bool split = splits_heads(step);
  const Ref input =
      split ? every_token(step, x, names.gathered, behind_gradient_products(step)) : x;
  const Ref dx = step.value(split ? names.partial : names.sum,
                            shape,
                            split ? Step::partial_sums() : step.between_blocks());
  emit_input_gradient(step, parameters, linear, names.input, dy, dx);
  const Ref sum = split ? summed(step, dx, names.sum, behind_gradient_products(step)) : dx;
  emit_weight_gradient(step, parameters, linear, names.weight, dy, input);
  return sum;
}

Ref slice_of(Step& step,
             Ref base,
             std::string_view name,
             const Shape& shape,
             std::int8_t dim,
             std::int64_t first,
             std::int64_t extent) {
  return step.b.declare_view(
      base.tensor, name, shape, {.dim = dim, .first = first, .extent = extent});
}

/// The part of each query head with rotary embedding.
Ref rotary_part(Step& step, Ref q, std::string_view name) {
  const Latent latent(step);
  constexpr std::int8_t kHeadDim = 4;
  return slice_of(step,
                  q,
                  name,
                  step.b.tensor(q.tensor).shape.with(kHeadDim, latent.rope()),
                  kHeadDim,
                  latent.nope().size,
                  latent.rope().size);
}

/// The two parts of what keys and values are projected to: of each head's key, and its value.
struct NopeAndValue {
  Ref nope;
  Ref value;
};

NopeAndValue parts_of_heads(Step& step, Ref kv) {
  const Latent latent(step);
  const bool gradient = step.b.phase() == Phase::backward;
  constexpr std::int8_t kHeadDim = 3;
  return {slice_of(step,
                   kv,
                   gradient ? "k gradient, without rotary part" : "k, without rotary part",
                   latent.heads(latent.nope()),
                   kHeadDim,
                   0,
                   latent.nope().size),
          slice_of(step,
                   kv,
                   gradient ? "v gradient" : "v",
                   latent.heads(latent.value()),
                   kHeadDim,
                   latent.nope().size,
                   latent.value().size)};
}

/// Values as attention reads them: Megatron Core packs them, which frees what they are a part of.
/// Source: megatron-lm, megatron/core/transformer/multi_latent_attention.py,
/// get_query_key_value_tensors: value.contiguous()
Ref packed_values(Step& step, Ref value) {
  if (!step.plan.transformer_engine) {
    return value;
  }
  const program::Tensor part = step.b.tensor(value.tensor);
  const Ref packed = step.value("v, packed", part.shape, part.layout);
  step.b.emit(Function::copy, "pack the values", {read(value), write(packed)});
  return packed;
}

/// The narrow vector, and the part of the keys that heads share.
struct NarrowAndShared {
  Ref narrow;
  Ref shared;
};

NarrowAndShared parts_of_tokens(Step& step, Ref down) {
  const Latent latent(step);
  const bool gradient = step.b.phase() == Phase::backward;
  constexpr std::int8_t kFeatures = 2;
  return {slice_of(step,
                   down,
                   gradient ? "narrow kv gradient" : "narrow kv",
                   latent.tokens(latent.kv_rank()),
                   kFeatures,
                   0,
                   latent.kv_rank().size),
          slice_of(step,
                   down,
                   gradient ? "shared key gradient, in place" : "shared key, in place",
                   latent.tokens(latent.rope()),
                   kFeatures,
                   latent.kv_rank().size,
                   latent.rope().size)};
}

void rotate(Step& step, Function function, std::string_view label, Ref x) {
  if (step.plan.model.rotary) {
    step.b.emit(function, label, {update(x)});
  }
}

Ref emit_queries(Step& step,
                 Parameters& parameters,
                 const AttentionParameters& block,
                 AttentionTensors& saved) {
  const Latent latent(step);
  Ref from = saved.normed;
  if (latent.narrow_queries()) {
    saved.latent.query_low =
        step.value("narrow q", latent.tokens(latent.query_rank()), step.between_blocks());
    emit_linear(step,
                parameters,
                block.latent.query_down,
                "query down projection",
                saved.normed,
                saved.latent.query_low);
    saved.latent.query_low_normed =
        step.value("narrow q, normed", latent.tokens(latent.query_rank()), step.between_blocks());
    emit_norm(step,
              parameters,
              block.latent.query_norm,
              saved.latent.query_low,
              saved.latent.query_low_normed);
    from = saved.latent.query_low_normed;
  }
  const Ref q = step.value("q", query_shape(step), projected(step));
  emit_up(step,
          parameters,
          block.latent.query_up,
          {.product = "query up projection", .gathered = "query input, gathered"},
          from,
          q);
  rotate(step, Function::rotary, "rotary embedding of q", rotary_part(step, q, "q, rotary part"));
  return q;
}

AttentionTensors forward(
    Step& step, Parameters& parameters, const AttentionParameters& block, Ref x, Ref out) {
  program::Builder& b = step.b;
  const Latent latent(step);
  AttentionTensors saved;
  saved.x = x;
  saved.normed = step.value("attention input, normed", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, block.norm, x, saved.normed);
  const Ref q = emit_queries(step, parameters, block, saved);

  saved.latent.kv_low = step.value(
      "narrow kv and shared key", latent.tokens(latent.narrow_and_shared()), step.between_blocks());
  emit_linear(step,
              parameters,
              block.latent.kv_down,
              "kv down projection",
              saved.normed,
              saved.latent.kv_low);
  const NarrowAndShared low = parts_of_tokens(step, saved.latent.kv_low);
  saved.latent.kv_narrow = low.narrow;
  saved.latent.kv_low_normed =
      step.value("narrow kv, normed", latent.tokens(latent.kv_rank()), step.between_blocks());
  emit_norm(step, parameters, block.latent.kv_norm, low.narrow, saved.latent.kv_low_normed);
  const Ref kv = step.value("k and v", latent.heads(latent.nope_and_value()), projected(step));
  emit_up(step,
          parameters,
          block.latent.kv_up,
          {.product = "kv up projection", .gathered = "narrow kv, gathered"},
          saved.latent.kv_low_normed,
          kv);
  Ref shared = step.value("shared key", latent.tokens(latent.rope()), step.between_blocks());
  b.emit(Function::copy, "take the shared key", {read(low.shared), write(shared)});
  rotate(step, Function::rotary, "rotary embedding of k", shared);
  if (splits_heads(step)) {
    shared = every_token(step, shared, "shared key, gathered");
  }
  const NopeAndValue parts = parts_of_heads(step, kv);
  const Ref k = step.value("k", key_value_shape(step), projected(step));
  b.emit(Function::assemble_keys, "put keys together", {read(parts.nope), read(shared), write(k)});

  const Ref v = packed_values(step, parts.value);
  const bool exchanged = !splits_heads(step);
  saved.q = exchanged ? to_heads(step, q, "q, exchanged") : q;
  saved.k = exchanged ? to_heads(step, k, "k, exchanged") : k;
  saved.v = exchanged ? to_heads(step, v, "v, exchanged") : v;
  emit_attention(step, saved);
  saved.o_tokens = exchanged ? to_tokens(step, saved.o, "attention output, exchanged") : saved.o;
  Ref y;
  if (exchanged) {
    y = step.value("attention block output", step.hidden_shape(), step.between_blocks());
    emit_linear(step, parameters, block.output, "attention output projection", saved.o_tokens, y);
  } else {
    y = emit_summed_linear(step,
                           parameters,
                           block.output,
                           {.product = "attention output projection",
                            .partial = "attention block output, partial",
                            .sum = "attention block output"},
                           saved.o_tokens);
  }
  emit_residual_add(step, parameters, {}, x, y, out);
  return saved;
}

/// Gradients of q, k and v where projections left them.
struct HeadGradients {
  Ref q;
  Ref k;
  Ref kv;  // of what keys and values were projected to; the values' part is written
};

HeadGradients emit_kernel_backward(Step& step, const AttentionTensors& saved, Ref d_o) {
  const Latent latent(step);
  const Layout by_heads = step.b.tensor(saved.q.tensor).layout;
  const Ref q = step.value("q gradient", query_shape(step), by_heads);
  const Ref k = step.value("k gradient", key_value_shape(step), by_heads);
  const bool exchanged = !splits_heads(step) && step.b.mesh().group_size(kGroup) > 1;
  if (!exchanged) {
    const Ref kv = step.value("k and v gradient", latent.heads(latent.nope_and_value()), by_heads);
    emit_attention_backward(step, saved, d_o, {q, k, parts_of_heads(step, kv).value});
    return {q, k, kv};
  }
  const Ref v = step.value("v gradient, of heads", latent.heads(latent.value()), by_heads);
  emit_attention_backward(step, saved, d_o, {q, k, v});
  const Ref q_tokens = to_tokens(step, q, "q gradient, exchanged");
  const Ref k_tokens = to_tokens(step, k, "k gradient, exchanged");
  const Ref kv =
      step.value("k and v gradient", latent.heads(latent.nope_and_value()), step.between_blocks());
  to_tokens_into(step, v, parts_of_heads(step, kv).value, "v gradient, exchanged");
  return {q_tokens, k_tokens, kv};
}

/// The gradient of the normed input through the queries.
Ref emit_queries_backward(Step& step,
                          Parameters& parameters,
                          const AttentionParameters& block,
                          const AttentionTensors& saved,
                          Ref dq) {
  const Latent latent(step);
  rotate(step,
         Function::rotary_backward,
         "rotary embedding of q, backward",
         rotary_part(step, dq, "q gradient, rotary part"));
  const bool narrow = latent.narrow_queries();
  const Ref d_input = emit_up_backward(step,
                                       parameters,
                                       block.latent.query_up,
                                       {.input = "query up projection, input gradient",
                                        .weight = "query up projection, weight gradient",
                                        .gathered = "query input, gathered again",
                                        .partial = "query input gradient, partial",
                                        .sum = "query input gradient"},
                                       dq,
                                       narrow ? saved.latent.query_low_normed : saved.normed);
  if (!narrow) {
    return d_input;
  }
  const Ref d_low =
      step.value("narrow q gradient", latent.tokens(latent.query_rank()), step.between_blocks());
  emit_norm_backward(
      step, parameters, block.latent.query_norm, d_input, saved.latent.query_low, d_low);
  const Ref d_normed = step.value(
      "attention input gradient, of queries", step.hidden_shape(), step.between_blocks());
  emit_input_gradient(step,
                      parameters,
                      block.latent.query_down,
                      "query down projection, input gradient",
                      d_low,
                      d_normed);
  emit_weight_gradient(step,
                       parameters,
                       block.latent.query_down,
                       "query down projection, weight gradient",
                       d_low,
                       saved.normed);
  return d_normed;
}

/// The gradient of the normed input through keys and values.
Ref emit_keys_backward(Step& step,
                       Parameters& parameters,
                       const AttentionParameters& block,
                       const AttentionTensors& saved,
                       const HeadGradients& heads) {
  program::Builder& b = step.b;
  const Latent latent(step);
  const bool split = splits_heads(step);
  Ref d_shared = step.value(split ? "shared key gradient, partial" : "shared key gradient",
                            latent.tokens(latent.rope()),
                            split ? Step::partial_sums() : step.between_blocks());
  b.emit(Function::assemble_keys_backward,
         "take keys apart",
         {read(heads.k), write(parts_of_heads(step, heads.kv).nope), write(d_shared)});
  if (split) {
    d_shared = summed(step, d_shared, "shared key gradient");
  }
  rotate(step, Function::rotary_backward, "rotary embedding of k, backward", d_shared);
  const Ref d_low_normed = emit_up_backward(step,
                                            parameters,
                                            block.latent.kv_up,
                                            {.input = "kv up projection, input gradient",
                                             .weight = "kv up projection, weight gradient",
                                             .gathered = "narrow kv, gathered again",
                                             .partial = "narrow kv gradient, partial",
                                             .sum = "narrow kv gradient, normed"},
                                            heads.kv,
                                            saved.latent.kv_low_normed);
  const Ref d_low = step.value("narrow kv and shared key gradient",
                               latent.tokens(latent.narrow_and_shared()),
                               step.between_blocks());
  const NarrowAndShared parts = parts_of_tokens(step, d_low);
  emit_norm_backward(
      step, parameters, block.latent.kv_norm, d_low_normed, saved.latent.kv_narrow, parts.narrow);
  b.emit(Function::copy, "put the shared key back", {read(d_shared), write(parts.shared)});
  const Ref d_normed =
      step.value("attention input gradient", step.hidden_shape(), step.between_blocks());
  emit_input_gradient(step,
                      parameters,
                      block.latent.kv_down,
                      "kv down projection, input gradient",
                      d_low,
                      d_normed);
  emit_weight_gradient(step,
                       parameters,
                       block.latent.kv_down,
                       "kv down projection, weight gradient",
                       d_low,
                       saved.normed);
  return d_normed;
}

void backward(Step& step,
              Parameters& parameters,
              const AttentionParameters& block,
              const AttentionTensors& saved,
              Ref dy,
              Ref dx) {
  program::Builder& b = step.b;
  const Latent latent(step);
  const Ref d_o_tokens = step.value("attention output gradient", latent.output(), projected(step));
  Ref dy_whole = dy;
  if (splits_heads(step)) {
    dy_whole = emit_gathered_input_gradient(step,
                                            parameters,
                                            block.output,
                                            {.product = "attention output projection, input "
                                                        "gradient",
                                             .gathered = "attention output gradient, gathered"},
                                            dy,
                                            d_o_tokens);
  } else {
    emit_input_gradient(step,
                        parameters,
                        block.output,
                        "attention output projection, input gradient",
                        dy,
                        d_o_tokens);
  }
  emit_weight_gradient(step,
                       parameters,
                       block.output,
                       "attention output projection, weight gradient",
                       dy_whole,
                       saved.o_tokens);
  const Ref d_o = splits_heads(step)
                      ? d_o_tokens
                      : to_heads(step, d_o_tokens, "attention output gradient, exchanged");
  const HeadGradients heads = emit_kernel_backward(step, saved, d_o);
  const Ref d_normed = emit_keys_backward(step, parameters, block, saved, heads);
  const Ref of_queries = emit_queries_backward(step, parameters, block, saved, heads.q);
  b.emit(Function::add, "sum of input gradients", {update(d_normed), read(of_queries)});
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const AttentionLoweringInfo kAttentionLatent = {
    AttentionLowering::ulysses,
    "latent",
    "as ulysses or megatron, whichever the plan has, with queries, keys and values from narrow "
    "vectors",
    "deepseek2024-v2",
    declare,
    forward,
    backward};

}  // namespace trireme::plan
