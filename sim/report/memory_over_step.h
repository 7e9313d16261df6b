// A plan's memory over the step as table, JSON and CSV.
#pragma once

#include <string>

#include "sim/ledger/memory_over_step.h"

namespace trireme::report {

/// A row for each stretch of one phase, block and layer: the first and the last of a loop. Then the
/// tensors at the peak, and what lies beyond them on the GPU.
[[nodiscard]] std::string to_terminal(const ledger::MemoryOverStep& memory, bool color);
[[nodiscard]] std::string to_json(const ledger::MemoryOverStep& memory);

/// A line for each execution of an operation, in bytes.
[[nodiscard]] std::string to_csv(const ledger::MemoryOverStep& memory);

}  // namespace trireme::report
