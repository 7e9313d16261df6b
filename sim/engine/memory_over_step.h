// Memory while each operation runs, as the peak's reader sees it.
#pragma once

#include <vector>

#include "sim/ledger/memory_over_step.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// One entry for each execution of an operation, in the order of issue. The highest is the peak of
/// `read_memory`.
[[nodiscard]] std::vector<ledger::MemoryInstant> memory_over_step(const program::Program& program);

}  // namespace trireme::engine
