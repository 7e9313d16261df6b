// Lowering: from a plan to the step program that everything is read off.
#pragma once

#include <span>
#include <string_view>

#include "sim/plan/plan.h"
#include "sim/program/program.h"

namespace trireme::plan {

/// In which order the ranks of the plan's ring hold tokens.
[[nodiscard]] program::TokenOrder token_order(const Plan& plan);

/// The step program of a plan that `resolve` found legal. Throws program::BuildError where a
/// lowering emits what does not fit together: a bug, never the user's doing.
[[nodiscard]] program::Program lower(const Plan& plan);

/// One way to lower a part of the model: a row that `trireme plans` prints.
struct LoweringInfo {
  std::string_view part;  // attention, mlp, loss
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
};

/// Every lowering, in the order in which documents list them.
[[nodiscard]] std::span<const LoweringInfo> lowering_table();

}  // namespace trireme::plan
