// Tensor-parallel ranks that share key and value heads, as there are fewer of those than ranks.
// Their weights are not replicated: each rank projects an equal part of the packed rows, gathers
// what every rank projected, and takes the heads that it attends with.
#pragma once

#include "sim/plan/attention_kernel.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// Source: megatron-lm, megatron/core/transformer/attention.py, get_query_key_value_tensors:
/// num_query_groups below the tensor-parallel ranks
[[nodiscard]] bool shares_key_value_heads(const Plan& plan);

/// A rank's rows of the packed projection: [B, S, (a + 2 g) d].
[[nodiscard]] Shape projected_rows_shape(const Step& step);

/// Gathers the rows of every rank and takes the own heads: queries [B, S, P, a / P, d], keys and
/// values [B, S, P, d], a group for each rank.
[[nodiscard]] QueryKeyValue take_own_heads(Step& step, Ref rows);

/// Declares gradients as take_own_heads gives the heads.
[[nodiscard]] QueryKeyValue declare_own_gradients(Step& step, const QueryKeyValue& heads);

/// The gradient of the own rows: the sum over the ranks, scattered.
///
/// EQ shared-heads-bytes: W = 2 e B S (a + 2 g) d (P - 1) / P
///   e  bytes of an activation's element                                       [bytes]
///   B  sequences of a micro batch                                             [1]
///   S  tokens of a sequence                                                   [1]
///   a  query heads, g key/value heads, d head dimension                       [1]
///   P  tensor-parallel ranks, a multiple of g                                 [ranks]
///   W  sent per rank and layer beyond a layer without shared heads            [bytes]
/// Source: derived: all-gather and reduce-scatter of the packed queries, keys and values
/// Valid:  P > g; recomputation gathers once more
/// Tests:  tests/unit/plan/shared_heads_test.cpp
[[nodiscard]] Ref gradient_of_rows(Step& step, const QueryKeyValue& gradients);

}  // namespace trireme::plan
