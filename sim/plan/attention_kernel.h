// The fused attention kernel: its shapes, what it saves, and the workspaces of its backward pass.
#pragma once

#include "sim/plan/attention.h"
#include "sim/plan/step.h"

namespace trireme::plan {

// Shapes of the model's own key/value heads, and of `groups` of them where they are repeated.

/// Queries, keys and values packed by key/value group: [B, S, g, a/g + 2, d].
[[nodiscard]] Shape packed_qkv_shape(const Step& step);
[[nodiscard]] Shape packed_qkv_shape(const Step& step, const program::Dim& groups);

/// [B, S, g, a/g, d]
[[nodiscard]] Shape query_shape(const Step& step);
[[nodiscard]] Shape query_shape(const Step& step, const program::Dim& groups);

/// [B, S, g, d]
[[nodiscard]] Shape key_value_shape(const Step& step);
[[nodiscard]] Shape key_value_shape(const Step& step, const program::Dim& groups);

/// Three views of one packed tensor.
struct QueryKeyValue {
  Ref q;
  Ref k;
  Ref v;
};

[[nodiscard]] QueryKeyValue unpack(Step& step, Ref packed);

/// Where a framework's modules do so: packs keys and values into a tensor of their own. Queries
/// stay where they are, or move too where they share keys and values, so that nothing of the
/// projection is left.
void copy_key_values(Step& step, AttentionTensors& saved);

/// Rotates queries and keys in place; nothing for a model without rotary embedding.
void emit_rotary(Step& step, Ref q, Ref k);
void emit_rotary_backward(Step& step, Ref dq, Ref dk);

/// Declares and writes saved.o and saved.log_sum_exp from saved.q, k and v.
void emit_attention(Step& step, AttentionTensors& saved);

/// Writes the gradients, which the caller declared, given the gradient of o.
void emit_attention_backward(Step& step,
                             const AttentionTensors& saved,
                             Ref gradient_of_o,
                             const QueryKeyValue& gradients);

}  // namespace trireme::plan
