// The timeline of one plan's step, read off the event engine.
#pragma once

#include "sim/config/study_spec.h"
#include "sim/ledger/timeline.h"

namespace trireme::study {

/// Every task of one rank per class of ranks that behave alike. Where the plan is illegal or the
/// profile does not know a kernel's seconds there are none, and a reason.
[[nodiscard]] ledger::Timeline timeline(const config::StudySpec& study,
                                        const config::PlanSpec& plan);

}  // namespace trireme::study
