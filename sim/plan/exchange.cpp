#include "sim/plan/exchange.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::write;

namespace {

void emit_exchange(Step& step, std::string_view label, Ref from, Ref to) {
  step.b.emit_collective(CollectiveKind::all_to_all, label, kGroup, from, to);
}

}  // namespace

Ref to_heads(Step& step, Ref tokens, std::string_view name) {
  program::Builder& b = step.b;
  if (b.mesh().group_size(kGroup) == 1) {
    return tokens;
  }
  const program::Tensor from = b.tensor(tokens.tensor);
  const Ref packed = step.buffer("send buffer of the exchange to heads", from.shape, from.layout);
  b.emit(Function::copy, "pack heads by peer", {read(tokens), write(packed)});
  const Ref heads = step.value(name, from.shape, Step::feature_shards());
  emit_exchange(step, name, packed, heads);
  return heads;
}

void to_tokens_into(Step& step, Ref heads, Ref tokens, std::string_view label) {
  const Ref received = step.buffer("receive buffer of the exchange to tokens",
                                   step.b.tensor(heads.tensor).shape,
                                   Step::sequence_shards());
  emit_exchange(step, label, heads, received);
  step.b.emit(Function::copy, "unpack heads by peer", {read(received), write(tokens)});
}

Ref to_tokens(Step& step, Ref heads, std::string_view name) {
  program::Builder& b = step.b;
  if (b.mesh().group_size(kGroup) == 1) {
    return heads;
  }
  const program::Tensor from = b.tensor(heads.tensor);
  const Ref received =
      step.buffer("receive buffer of the exchange to tokens", from.shape, Step::sequence_shards());
  emit_exchange(step, name, heads, received);
  const Ref tokens = step.value(name, from.shape, Step::sequence_shards());
  b.emit(Function::copy, "unpack heads by peer", {read(received), write(tokens)});
  return tokens;
}

}  // namespace trireme::plan
