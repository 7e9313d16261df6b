// How long a step takes when it is executed: repeated without an observer, on all ranks at once.
#pragma once

#include <cstdint>
#include <span>

#include "sim/ledger/verification.h"
#include "sim/program/program.h"
#include "sim/study/verify.h"
#include "sim/study/verify_reference.h"

namespace trireme::study {

/// Fills `result.step_time` where rank 0 is: steps after a first one that is not counted, as many
/// as fit into a few seconds. A step lasts from when all ranks begin until the slowest has ended.
/// Appends a message when a rank fails.
void time_steps(std::span<const program::Program> stages,
                const Reference& reference,
                std::int64_t gpus_per_node,
                const RunRanks& run,
                ledger::PlanVerification& result);

}  // namespace trireme::study
