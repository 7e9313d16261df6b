#include "sim/plan/megatron_regions.h"

#include <vector>

namespace trireme::plan {

using config::TensorParallelOverlap;
using program::Access;
using program::Completion;
using program::Function;
using program::Operand;
using program::read;
using program::write;

namespace {

bool exchanges_pieces(const Step& step) {
  return step.plan.overlap_tensor == TensorParallelOverlap::ring_exchange &&
         step.plan.sequence_sharded && step.b.mesh().group_size(kGroup) > 1;
}

/// Gathers x hop by hop and calls `multiply(tokens, product)` for each block of them as soon as it
/// is there; `product` is that block of y. Returns x of every token.
template <class Multiply>
Ref emit_product_of_hops(Step& step, std::string_view name, Ref x, Ref y, Multiply multiply) {
  program::Builder& b = step.b;
  const program::Tensor own = b.tensor(x.tensor);
  program::TensorSpec spec;
  spec.name = name;
  spec.role = own.role;
  spec.component = own.component;
  spec.type = own.type;
  spec.varies = own.varies;
  spec.shape = own.shape;
  spec.layout = own.layout.with(kGroup, Placement::replicate());
  Ref every = x;  // the same instance
  every.tensor = b.declare(spec);
  const auto block = [&](Ref whole, std::int64_t rotation) {
    Ref part = whole;
    part.tensor = b.declare_block(whole.tensor, kGroup, rotation);
    return part;
  };
  const std::int64_t ranks = b.mesh().group_size(kGroup);
  Ref tokens = block(every, 0);
  b.emit(Function::place_block, name, {read(x), write(tokens)});
  for (std::int64_t i = 0; i < ranks; ++i) {
    Ref arriving;
    if (i + 1 < ranks) {
      arriving = block(every, i + 1);
      b.emit_hop(name, kGroup, tokens, arriving, 1, Completion::asynchronous);
    }
    multiply(tokens, block(y, i));
    tokens = arriving;
  }
  return every;
}

}  // namespace

Ref every_token(
    Step& step, Ref tokens, std::string_view name, Completion completion, TensorId buffer) {
  if (!step.plan.sequence_sharded) {
    return tokens;
  }
  if (buffer == program::kNoTensor) {
    return step.b.all_gather(tokens, kGroup, name, completion);
  }
  step.b.emit_collective(CollectiveKind::all_gather, name, kGroup, tokens, buffer, completion);
  return buffer;
}

Ref summed(Step& step, Ref partial, std::string_view name, Completion completion) {
  return step.plan.sequence_sharded
             ? step.b.reduce_scatter(partial, kGroup, program::kSequenceDim, name, completion)
             : step.b.all_reduce_in_place(partial, kGroup, name, completion);
}

Completion behind_gradient_products(const Step& step) {
  const bool overlaps =
      !step.plan.overlap_nothing && (step.plan.framework == config::Framework::megatron ||
                                     step.plan.overlap_tensor != TensorParallelOverlap::none);
  return overlaps ? Completion::asynchronous : Completion::blocking;
}

void emit_sum_into(
    Step& step, Ref partial, Ref result, std::string_view label, Completion completion) {
  step.b.emit_collective(
      step.plan.sequence_sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
      label,
      kGroup,
      partial,
      result,
      completion);
}

Ref gathered_for_gradient(
    Step& step, Ref gathered, Ref shards, std::string_view name, TensorId buffer) {
  return step.plan.gathers_again
             ? every_token(step, shards, name, behind_gradient_products(step), buffer)
             : gathered;
}

Ref emit_gathered_linear(Step& step,
                         Parameters& parameters,
                         const LinearParameters& linear,
                         const BorderNames& names,
                         Ref x,
                         Ref y) {
  if (!exchanges_pieces(step)) {
    const Ref every =
        every_token(step, x, names.gathered, Completion::blocking, step.gathered_inputs);
    emit_linear(step, parameters, linear, names.product, every, y);
    return every;
  }
  return emit_product_of_hops(step, names.gathered, x, y, [&](Ref tokens, Ref product) {
    emit_linear(step, parameters, linear, names.product, tokens, product);
  });
}

Ref emit_gathered_input_gradient(Step& step,
                                 Parameters& parameters,
                                 const LinearParameters& linear,
                                 const BorderNames& names,
                                 Ref dy,
                                 Ref dx) {
  if (!exchanges_pieces(step)) {
    const Ref every =
        every_token(step, dy, names.gathered, Completion::blocking, step.gathered_gradients);
    emit_input_gradient(step, parameters, linear, names.product, every, dx);
    return every;
  }
  return emit_product_of_hops(step, names.gathered, dy, dx, [&](Ref tokens, Ref product) {
    emit_input_gradient(step, parameters, linear, names.product, tokens, product);
  });
}

Ref emit_summed_linear(Step& step,
                       Parameters& parameters,
                       const LinearParameters& linear,
                       const BorderNames& names,
                       Ref x) {
  program::Builder& b = step.b;
  if (!exchanges_pieces(step)) {
    const Ref partial = step.value(names.partial, step.hidden_shape(), Step::partial_sums());
    emit_linear(step, parameters, linear, names.product, x, partial);
    return summed(step, partial, names.sum);
  }
  const std::int64_t ranks = b.mesh().group_size(kGroup);
  const auto buffer = [&](std::int64_t rotation) -> Ref {
    return step.block_buffer(
        names.partial, {kGroup, static_cast<std::int16_t>(rotation)}, Step::partial_sums());
  };
  std::vector<Operand> sent;
  std::vector<Operand> parts;
  const auto multiply = [&](std::int64_t rotation) {
    const Ref product = buffer(rotation);
    emit_linear(step,
                parameters,
                linear,
                names.product,
                b.declare_block(x.tensor, kGroup, rotation),
                product);
    return product;
  };
  // Position p begins with the tokens of p + 1 and ends with its own.
  for (std::int64_t shift = 1; shift < ranks; ++shift) {
    const Ref product = multiply(ranks - shift);
    const Ref arriving = buffer(0);
    b.emit_hop(names.sum, kGroup, product, arriving, shift, Completion::asynchronous);
    sent.push_back({product, Access::hold});
    parts.push_back(read(arriving));
  }
  parts.push_back(read(multiply(0)));
  const Ref sum = step.value(names.sum, step.hidden_shape(), Step::sequence_shards());
  parts.push_back(write(sum));
  b.emit(Function::sum_blocks, names.sum, parts);
  b.emit(Function::keep, "keep", sent).source =
      "transformer-engine, CommOverlapP2PBase: 2 P - 1 blocks";
  return sum;
}

}  // namespace trireme::plan
