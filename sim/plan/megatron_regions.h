// The borders of Megatron's tensor-parallel regions: where tokens are gathered and sums are made,
// and how products hide it.
#pragma once

#include <string_view>

#include "sim/plan/block.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// The value of every token: gathered when the sequence is sharded between blocks, into `buffer`
/// where there is one.
/// Source: megatron-lm, megatron/core/tensor_parallel/mappings.py
[[nodiscard]] Ref every_token(Step& step,
                              Ref tokens,
                              std::string_view name,
                              program::Completion completion = program::Completion::blocking,
                              TensorId buffer = program::kNoTensor);

/// The sum over the group: of this rank's tokens when the sequence is sharded between blocks.
/// Source: megatron-lm, megatron/core/tensor_parallel/mappings.py
[[nodiscard]] Ref summed(Step& step,
                         Ref partial,
                         std::string_view name,
                         program::Completion completion = program::Completion::blocking);

/// Going backward, Megatron Core gathers a layer's input behind the input gradient's product and
/// sums the input gradient behind the weight gradient's, with its overlap options off too;
/// TransformerEngine's bulk overlap does the same.
/// Source: megatron-lm, megatron/core/tensor_parallel/layers.py,
/// LinearWithGradAccumulationAndAsyncCommunication.backward; transformer-engine,
/// transformer_engine/pytorch/module/base.py, initialize_ub: qkv_dgrad, qkv_wgrad, fc1_dgrad and
/// fc1_wgrad are "bulk"
[[nodiscard]] program::Completion behind_gradient_products(const Step& step);

/// As `summed`, into a tensor that the caller declared.
void emit_sum_into(Step& step,
                   Ref partial,
                   Ref result,
                   std::string_view label,
                   program::Completion completion = program::Completion::blocking);

// Products at the borders. With ring exchange a product is cut into a piece for each rank's tokens:
// while one is computed, the next piece's tokens arrive from the neighbour, or the sums of the last
// piece leave for the rank that owns them. Buffers are those of TransformerEngine's userbuffers:
// every token's for a gather, 2 P - 1 blocks for a sum, which is made at the end.
// Source: transformer-engine, transformer_engine/common/comm_gemm_overlap/comm_gemm_overlap.cpp,
// CommOverlapP2PBase::split_overlap_ag and split_overlap_rs

/// A product, and the names of its operation and of the tokens that are gathered or summed for it.
struct BorderNames {
  std::string_view product = {};
  std::string_view gathered = {};
  std::string_view partial = {};
  std::string_view sum = {};
};

/// y = every_token(x) · weightᵀ + bias; writes y and returns x of every token.
Ref emit_gathered_linear(Step& step,
                         Parameters& parameters,
                         const LinearParameters& linear,
                         const BorderNames& names,
                         Ref x,
                         Ref y);

/// x of every token for a weight's gradient: what a forward pass `gathered` where that is kept,
/// else gathered again from the shards that it kept.
[[nodiscard]] Ref gathered_for_gradient(
    Step& step, Ref gathered, Ref shards, std::string_view name, TensorId buffer);

/// dx = every_token(dy) · weight; writes dx and returns dy of every token.
[[nodiscard]] Ref emit_gathered_input_gradient(Step& step,
                                               Parameters& parameters,
                                               const LinearParameters& linear,
                                               const BorderNames& names,
                                               Ref dy,
                                               Ref dx);

/// The sum over the group of x · weightᵀ, as `summed` gives it.
[[nodiscard]] Ref emit_summed_linear(Step& step,
                                     Parameters& parameters,
                                     const LinearParameters& linear,
                                     const BorderNames& names,
                                     Ref x);

}  // namespace trireme::plan
