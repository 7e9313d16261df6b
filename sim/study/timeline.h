// The timeline of one plan's step, read off the event engine.
#pragma once

#include <cstddef>

#include "sim/config/study_spec.h"
#include "sim/ledger/timeline.h"

namespace trireme::study {

/// The terms of a critical path for which the step is simulated again.
inline constexpr std::size_t kTermsTried = 5;

/// Every task of one rank per class of ranks that behave alike. Where the plan is illegal or the
/// profile does not know a kernel's seconds there are none, and a reason.
[[nodiscard]] ledger::Timeline timeline(const config::StudySpec& study,
                                        const config::PlanSpec& plan);

}  // namespace trireme::study
