// Which experts the tokens of a verified step take: an input of its program.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.h"

namespace trireme::study {

/// By layer, [sequences, sequence, experts per token] in the order of a step's sequences; empty for
/// layers without experts.
struct Routing {
  std::vector<std::vector<std::int64_t>> experts;
  std::vector<std::vector<bool>> kept;  // whether the expert has a slot for the token
};

/// Routing that seed, step, layer and token decide. Without a capacity factor it is balanced: the
/// tokens that one rank sends, in a random order, take the experts, in a random order, one after
/// the other, so that counts differ by one at most. With one, each token takes random experts, and
/// an expert keeps as many of a rank's tokens as it has slots, the first ones. Nothing ties:
/// experts are drawn and not compared.
[[nodiscard]] Routing route(const plan::Plan& plan, std::uint64_t seed, std::int64_t step);

}  // namespace trireme::study
