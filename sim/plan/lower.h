// Lowering: from a plan to the step program that everything is read off.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/program/program.h"

namespace trireme::plan {

/// In which order the ranks of the plan's ring hold tokens.
[[nodiscard]] program::TokenOrder token_order(const Plan& plan);

/// The step program of a plan that `resolve` found legal, and that has no pipeline. Throws
/// program::BuildError where a lowering emits what does not fit together: a bug, never the user's
/// doing.
[[nodiscard]] program::Program lower(const Plan& plan);

/// The program of one stage of a plan's pipeline; of stage 0 of a plan without one, as `lower`.
[[nodiscard]] program::Program lower_stage(const Plan& plan, std::int64_t stage);

/// The programs of all stages, in order. Those of stages that have the same passes share segments.
[[nodiscard]] std::vector<program::Program> lower_stages(const Plan& plan);

/// One way to lower a part of the model: a row that `trireme plans` prints.
struct LoweringInfo {
  std::string_view part;  // attention, mlp, loss, schedule
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
};

/// Every lowering, in the order in which documents list them.
[[nodiscard]] std::span<const LoweringInfo> lowering_table();

}  // namespace trireme::plan
