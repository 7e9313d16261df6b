#include "sim/plan/attention_exchange.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::write;

namespace {

bool exchanges(const Step& step) {
  return step.b.mesh().group_size(exchange_group(step.plan)) > 1;
}

bool repeats_heads(const Step& step) {
  return step.plan.exchanged_kv_heads() != step.plan.model.kv_heads;
}

Layout by_tokens(const Step& step, const Layout& layout) {
  return layout.with(exchange_group(step.plan), Placement::shard(program::kSequenceDim));
}

/// Tensor parallelism has split the heads before.
Layout by_heads(const Step& step, const Layout& layout) {
  return layout.with(exchange_group(step.plan),
                     step.plan.attention == AttentionLowering::megatron
                         ? Placement::shard_within(program::kFeatureDim)
                         : Placement::shard(program::kFeatureDim));
}

void emit_exchange(Step& step, std::string_view label, Ref from, Ref to) {
  step.b.emit_collective(CollectiveKind::all_to_all, label, exchange_group(step.plan), from, to);
}

/// Queries of the packed projection, grouped by the key/value heads that are exchanged.
Ref regrouped_queries(Step& step, Ref q, std::string_view name) {
  return repeats_heads(step)
             ? Ref(step.b.declare_view(q.tensor, name, query_shape(step, step.exchanged_groups())))
             : q;
}

Ref repeated_heads(Step& step, Ref heads, std::string_view name) {
  if (!repeats_heads(step)) {
    return heads;
  }
  const Ref repeated = step.value(
      name, key_value_shape(step, step.exchanged_groups()), step.b.tensor(heads.tensor).layout);
  step.b.emit(Function::repeat_heads, name, {read(heads), write(repeated)});
  return repeated;
}

/// The packed projection with its key/value heads repeated.
Ref repeated_packed(Step& step, Ref packed) {
  if (!repeats_heads(step)) {
    return packed;
  }
  const QueryKeyValue own = unpack(step, packed);
  const Ref repeated = step.value("qkv, heads repeated",
                                  packed_qkv_shape(step, step.exchanged_groups()),
                                  step.b.tensor(packed.tensor).layout);
  const QueryKeyValue all = unpack(step, repeated);
  step.b.emit(Function::copy, "queries beside repeated heads", {read(own.q), write(all.q)});
  step.b.emit(Function::repeat_heads, "k, repeated", {read(own.k), write(all.k)});
  step.b.emit(Function::repeat_heads, "v, repeated", {read(own.v), write(all.v)});
  return repeated;
}

/// Gradients of repeated heads, packed, to those of the heads.
Ref summed_packed(Step& step, Ref repeated) {
  if (!repeats_heads(step)) {
    return repeated;
  }
  const QueryKeyValue all = unpack(step, repeated);
  const Ref packed = step.value(
      "qkv gradient, heads summed", packed_qkv_shape(step), step.b.tensor(repeated.tensor).layout);
  const QueryKeyValue own = unpack(step, packed);
  step.b.emit(Function::copy, "query gradients of summed heads", {read(all.q), write(own.q)});
  step.b.emit(Function::sum_repeated_heads, "k gradient, summed", {read(all.k), write(own.k)});
  step.b.emit(Function::sum_repeated_heads, "v gradient, summed", {read(all.v), write(own.v)});
  return packed;
}

/// An exchange back of the gradients of heads that were repeated: they are summed into `to`.
void exchange_and_sum_into(
    Step& step, Ref from, Ref to, std::string_view label, std::string_view repeated_name) {
  if (!repeats_heads(step)) {
    return to_tokens_into(step, from, to, label);
  }
  const program::Tensor heads = step.b.tensor(from.tensor);
  const Ref repeated = step.value(repeated_name, heads.shape, by_tokens(step, heads.layout));
  to_tokens_into(step, from, repeated, label);
  step.b.emit(Function::sum_repeated_heads, label, {read(repeated), write(to)});
}

Ref separate_gradient(Step& step, const AttentionTensors& saved, Ref d_o) {
  const program::Tensor q = step.b.tensor(saved.q.tensor);
  const Shape keys = step.b.tensor(saved.k.tensor).shape;
  const QueryKeyValue heads{step.value("q gradient", q.shape, q.layout),
                            step.value("k gradient", keys, q.layout),
                            step.value("v gradient", keys, q.layout)};
  emit_attention_backward(step, saved, d_o, heads);
  const Ref packed =
      step.value("qkv gradient, exchanged", packed_qkv_shape(step), by_tokens(step, q.layout));
  const QueryKeyValue tokens = unpack(step, packed);
  to_tokens_into(
      step, heads.q, regrouped_queries(step, tokens.q, "q gradient"), "q gradient, exchanged");
  exchange_and_sum_into(
      step, heads.k, tokens.k, "k gradient, exchanged", "k gradient of repeated heads");
  exchange_and_sum_into(
      step, heads.v, tokens.v, "v gradient, exchanged", "v gradient of repeated heads");
  return packed;
}

}  // namespace

// Heads for one peer are not contiguous, so they are packed first; received tokens are in order.
Ref to_heads(Step& step, Ref tokens, std::string_view name) {
  if (!exchanges(step)) {
    return tokens;
  }
  program::Builder& b = step.b;
  const program::Tensor from = b.tensor(tokens.tensor);
  const Ref packed = step.buffer("send buffer of the exchange to heads", from.shape, from.layout);
  b.emit(Function::copy, "pack heads by peer", {read(tokens), write(packed)});
  const Ref heads = step.value(name, from.shape, by_heads(step, from.layout));
  emit_exchange(step, name, packed, heads);
  return heads;
}

// Tokens for one peer are contiguous; received heads are unpacked.
Ref to_tokens(Step& step, Ref heads, std::string_view name) {
  if (!exchanges(step)) {
    return heads;
  }
  program::Builder& b = step.b;
  const program::Tensor from = b.tensor(heads.tensor);
  const Layout layout = by_tokens(step, from.layout);
  const Ref received = step.buffer("receive buffer of the exchange to tokens", from.shape, layout);
  emit_exchange(step, name, heads, received);
  const Ref tokens = step.value(name, from.shape, layout);
  b.emit(Function::copy, "unpack heads by peer", {read(received), write(tokens)});
  return tokens;
}

void to_tokens_into(Step& step, Ref from, Ref to, std::string_view label) {
  const program::Tensor heads = step.b.tensor(from.tensor);
  const Ref received = step.buffer(
      "receive buffer of the exchange to tokens", heads.shape, by_tokens(step, heads.layout));
  emit_exchange(step, label, from, received);
  step.b.emit(Function::copy, "unpack heads by peer", {read(received), write(to)});
}

QueryKeyValue qkv_to_heads(Step& step, Ref packed) {
  if (!exchanges(step)) {
    return unpack(step, packed);
  }
  if (step.plan.exchange == config::ExchangeKind::packed) {
    return unpack(step, to_heads(step, repeated_packed(step, packed), "qkv, exchanged"));
  }
  const QueryKeyValue tokens = unpack(step, packed);
  return {to_heads(step, regrouped_queries(step, tokens.q, "q"), "q, exchanged"),
          to_heads(step, repeated_heads(step, tokens.k, "k, repeated"), "k, exchanged"),
          to_heads(step, repeated_heads(step, tokens.v, "v, repeated"), "v, exchanged")};
}

Ref qkv_gradient(Step& step, const AttentionTensors& saved, Ref d_o) {
  if (exchanges(step) && step.plan.exchange == config::ExchangeKind::separate) {
    return separate_gradient(step, saved, d_o);
  }
  const program::Tensor q = step.b.tensor(saved.q.tensor);
  const Ref packed =
      step.value("qkv gradient", packed_qkv_shape(step, q.shape[program::kFeatureDim]), q.layout);
  emit_attention_backward(step, saved, d_o, unpack(step, packed));
  if (!exchanges(step)) {
    return packed;
  }
  return summed_packed(step, to_tokens(step, packed, "qkv gradient, exchanged"));
}

}  // namespace trireme::plan
