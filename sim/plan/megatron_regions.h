// The borders of Megatron's tensor-parallel regions: where tokens are gathered and sums are made.
#pragma once

#include <string_view>

#include "sim/plan/step.h"

namespace trireme::plan {

/// The value of every token: gathered when the sequence is sharded between blocks.
/// Source: megatron-lm, megatron/core/tensor_parallel/mappings.py
[[nodiscard]] inline Ref every_token(
    Step& step,
    Ref tokens,
    std::string_view name,
    program::Completion completion = program::Completion::blocking) {
  return step.plan.sequence_sharded ? step.b.all_gather(tokens, kGroup, name, completion) : tokens;
}

/// The sum over the group: of this rank's tokens when the sequence is sharded between blocks.
/// Source: megatron-lm, megatron/core/tensor_parallel/mappings.py
[[nodiscard]] inline Ref summed(Step& step,
                                Ref partial,
                                std::string_view name,
                                program::Completion completion = program::Completion::blocking) {
  return step.plan.sequence_sharded
             ? step.b.reduce_scatter(partial, kGroup, program::kSequenceDim, name, completion)
             : step.b.all_reduce_in_place(partial, kGroup, name, completion);
}

/// Going backward, Megatron Core gathers a layer's input behind the input gradient's product and
/// sums the input gradient behind the weight gradient's, with its overlap options off too.
/// Source: megatron-lm, megatron/core/tensor_parallel/layers.py,
/// LinearWithGradAccumulationAndAsyncCommunication.backward
[[nodiscard]] inline program::Completion behind_gradient_products(const Step& step) {
  return step.plan.framework == config::Framework::megatron ? program::Completion::asynchronous
                                                            : program::Completion::blocking;
}

/// As `summed`, into a tensor that the caller declared.
inline void emit_sum_into(Step& step,
                          Ref partial,
                          Ref result,
                          std::string_view label,
                          program::Completion completion = program::Completion::blocking) {
  step.b.emit_collective(
      step.plan.sequence_sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
      label,
      kGroup,
      partial,
      result,
      completion);
}

}  // namespace trireme::plan
