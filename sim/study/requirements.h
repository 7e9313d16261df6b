// Checks what a study requires of its plans.
#pragma once

#include <span>
#include <vector>

#include "sim/config/study_spec.h"
#include "sim/ledger/result.h"

namespace trireme::study {

/// Appends to `failed` each requirement that does not hold in `rows`, the plans of one point. An
/// exposed fraction that is not known does not hold.
void check_requirements(std::span<const config::RequireSpec> requirements,
                        std::span<const ledger::PlanResult> rows,
                        std::vector<ledger::FailedRequirement>& failed);

}  // namespace trireme::study
