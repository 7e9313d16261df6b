#include "sim/plan/attention_context.h"

#include <array>

namespace trireme::plan {

using program::Function;
using program::read;
using program::write;

program::Completion beside_attention(const Step& step) {
  return step.plan.overlap_nothing ? program::Completion::blocking
                                   : program::Completion::asynchronous;
}

Ref apart(Step& step, Ref tokens, std::string_view name) {
  const program::Tensor tensor = step.b.tensor(tokens.tensor);
  if (tensor.storage != program::Storage::view) {
    return tokens;
  }
  const Ref own = step.value(name, tensor.shape, tensor.layout, tensor.type);
  step.b.emit(Function::copy, name, {read(tokens), write(own)});
  return own;
}

KeyValueBlocks::KeyValueBlocks(Step& step, Ref own_keys)
    : step_(step), ranks_(step.b.mesh().group_size(kRing)) {
  const program::Tensor keys = step.b.tensor(own_keys.tensor);
  const Shape& own = keys.shape;
  shape_ = {own[0], {own[1].size / ranks_, "S'"}, own[2], {2, "2"}, own[3]};
  layout_ = keys.layout.with(kRing, Placement::replicate());
}

Ref KeyValueBlocks::declare(std::string_view name,
                            std::int64_t rotation,
                            ElementType type,
                            bool partial) {
  program::TensorSpec spec;
  spec.name = name;
  spec.role =
      step_.b.phase() == Phase::backward ? program::Role::temporary : program::Role::activation;
  spec.component = step_.b.component();
  spec.type = type;
  spec.varies = program::kPerLayerAndMicroBatch;
  spec.shape = shape_;
  spec.layout = partial ? layout_.with(kRing, Placement::partial_sum()) : layout_;
  spec.block = {kRing, static_cast<std::int16_t>((rotation % ranks_ + ranks_) % ranks_)};
  return step_.b.declare(spec);
}

Ref KeyValueBlocks::next(std::string_view name, std::int64_t rotation, Ref older, bool reuse) {
  return reuse ? Ref(step_.b.declare_next_block(older.tensor, rotation)) : declare(name, rotation);
}

Ref KeyValueBlocks::part(Ref block, std::string_view name, std::int64_t which) const {
  return step_.b.declare_view(block.tensor,
                              name,
                              {shape_[0], shape_[1], shape_[2], shape_[4]},
                              {.dim = 3, .first = which, .extent = 1});
}

Ref KeyValueBlocks::own(Ref k, Ref v) {
  const Ref block = declare("keys and values", 0);
  step_.b.emit(Function::place_block, "k beside v", {read(k), write(keys(block))});
  step_.b.emit(Function::place_block, "v beside k", {read(v), write(values(block))});
  return block;
}

std::span<const ContextLoweringInfo> context_lowerings() {
  static const std::array kRows = {
      kContextTransformerEngine, kContextRingFlashAttention, kContextPytorch, kContextAllGather};
  return kRows;
}

const ContextLoweringInfo& context_lowering(config::RingImplementation kind) {
  return context_lowerings()[static_cast<std::size_t>(kind)];
}

}  // namespace trireme::plan
