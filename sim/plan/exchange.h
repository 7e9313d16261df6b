// All-to-all exchanges between split tokens and split heads over the group of ranks.
#pragma once

#include <string_view>

#include "sim/plan/step.h"

namespace trireme::plan {

/// From every head of this rank's tokens to this rank's heads of every token. Heads for one peer
/// are not contiguous, so they are packed first; received tokens are in order.
[[nodiscard]] Ref to_heads(Step& step, Ref tokens, std::string_view name);

/// The way back: tokens for one peer are contiguous; received heads are unpacked.
[[nodiscard]] Ref to_tokens(Step& step, Ref heads, std::string_view name);

/// As `to_tokens` into what the caller declared, of a group of more than one rank.
void to_tokens_into(Step& step, Ref heads, Ref tokens, std::string_view label);

}  // namespace trireme::plan
