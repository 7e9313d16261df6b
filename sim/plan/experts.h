// Mixture of experts: which ranks hold which experts, and how many slots an expert has for the
// tokens of one rank.
#pragma once

#include "sim/plan/step.h"

namespace trireme::plan {

/// The axes over which experts are spread: the group of expert parallelism.
[[nodiscard]] AxisMask expert_axes(const Plan& plan);

/// Whether the features of every expert are split over the tensor-parallel group.
[[nodiscard]] bool splits_expert_features(const Plan& plan);

/// Axes over which ranks bring tokens of their own to one expert of a rank: its gradients are
/// partial sums over them.
[[nodiscard]] AxisMask expert_partial_axes(const Plan& plan);

/// Tokens of a micro batch that one rank sends to its experts.
[[nodiscard]] std::int64_t source_tokens(const Plan& plan);

/// Slots that one expert has for the tokens of one rank.
///
/// EQ expert-slots: C = ceil(T k / E), with a capacity factor min(T, ceil(f T k / E))
///   T  source_tokens: tokens of one rank                                     [tokens]
///   k  experts.per_token; E experts.count                                    [experts]
///   f  plan.expert_capacity                                                  [1]
///   C  result                                                                [tokens]
/// Source: megatron-lm, megatron/core/transformer/moe/moe_utils.py, get_capacity; gshard2020,
///   section 2.2
/// Valid:  without a capacity factor routing is balanced: every expert gets as many tokens of every
///   rank, up to one. With one, every buffer is padded to it and tokens beyond are dropped.
/// Tests:  tests/unit/plan/experts_test.cpp
[[nodiscard]] std::int64_t expert_slots(const Plan& plan);

/// [source rank, expert, slot, h]: tokens by expert, of all ranks.
[[nodiscard]] Shape slots_shape(const Step& step, program::Dim features);

/// Tokens by expert where they come from: each rank has its own tokens' for every expert.
[[nodiscard]] Layout at_sources(const Step& step);

/// Tokens by expert where the experts are.
[[nodiscard]] Layout at_experts(const Step& step);

/// From where tokens are to where their experts are: an all-to-all over the experts' ranks, with
/// split features a gather over the tensor-parallel group, and a sort by expert on arrival.
/// Source: megatron-lm, megatron/core/transformer/moe/token_dispatcher.py,
/// MoEAlltoAllTokenDispatcher.token_dispatch and dispatch_postprocess
[[nodiscard]] Ref to_experts(Step& step, Ref slots, std::string_view name);

/// The way back; with split features sums are made over the tensor-parallel group.
/// Source: as to_experts, combine_preprocess and token_combine
[[nodiscard]] Ref from_experts(Step& step, Ref slots, std::string_view name);

}  // namespace trireme::plan
