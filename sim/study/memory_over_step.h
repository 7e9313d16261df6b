// One plan's memory over a step.
#pragma once

#include "sim/config/study_spec.h"
#include "sim/ledger/memory_over_step.h"

namespace trireme::study {

[[nodiscard]] ledger::MemoryOverStep memory_over_step(const config::StudySpec& study,
                                                      const config::PlanSpec& plan);

}  // namespace trireme::study
