// What would need less memory: changes of a plan, each evaluated as the plan it makes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/study_spec.h"
#include "sim/ledger/device_memory.h"
#include "sim/study/device_memory.h"

namespace trireme::study {

/// A way to save memory. Rows stand in order of what they cost: nothing first, then seconds, then
/// another layout of the ranks.
struct LeverRow {
  std::string_view name;  // such as "recompute"
  /// Changes the plan and says how, as a study writes it; empty where it does not apply.
  std::string (*apply)(config::PlanSpec& plan, config::StudySpec& study);
};

[[nodiscard]] std::span<const LeverRow> lever_table();

/// A lever, and the study whose plan it has changed.
struct ChangedPlan {
  ledger::Lever lever;
  config::StudySpec study;
  config::PlanSpec plan;
};

/// Every lever that applies to the plan, is legal and saves memory.
[[nodiscard]] std::vector<ChangedPlan> levers(const config::StudySpec& study,
                                              const config::PlanSpec& plan,
                                              const ledger::DeviceMemory& now);

/// The first that makes the plan fit; where none does, the one that saves most. Empty where nothing
/// saves.
[[nodiscard]] std::optional<ChangedPlan> next_lever(const config::StudySpec& study,
                                                    const config::PlanSpec& plan,
                                                    const ledger::DeviceMemory& now);

}  // namespace trireme::study
