// Ulysses' exchanges around the attention kernel: from every head of this rank's tokens to this
// rank's heads of the tokens of its peers, and back.
#pragma once

#include "sim/plan/attention.h"
#include "sim/plan/attention_kernel.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// From the packed projection of this rank's tokens to the queries, keys and values that its kernel
/// attends with; views of `packed` where nothing is exchanged. Key/value heads that are too few are
/// repeated before.
[[nodiscard]] QueryKeyValue qkv_to_heads(Step& step, Ref packed);

/// From every head of this rank's tokens to this rank's heads of every token.
[[nodiscard]] Ref to_heads(Step& step, Ref tokens, std::string_view name);

/// The way back.
[[nodiscard]] Ref to_tokens(Step& step, Ref heads, std::string_view name);

/// As `to_tokens` into what the caller declared, of a group of more than one rank.
void to_tokens_into(Step& step, Ref heads, Ref tokens, std::string_view label);

/// The backward pass of the kernel, given the gradient of its output: the gradients of queries,
/// keys and values at this rank's tokens, packed as the projection wrote them.
[[nodiscard]] Ref qkv_gradient(Step& step, const AttentionTensors& saved, Ref d_o);

}  // namespace trireme::plan
