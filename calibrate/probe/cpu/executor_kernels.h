// Probes of the executor's kernels on this rank: matrix products, attention, kernels that memory
// bounds, and the executor's own time for an operation.
//
// Points carry the types that a step program declares, although every number is executed in double
// precision: so bytes count as `compare` counts them.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/harness/probe.h"

namespace trireme::calibrate {

enum class Grid : std::uint8_t { few, full };

[[nodiscard]] std::unique_ptr<Probe> executor_gemm(Grid grid);
[[nodiscard]] std::unique_ptr<Probe> executor_attention(Grid grid);
[[nodiscard]] std::unique_ptr<Probe> executor_memory_bound(Grid grid);
[[nodiscard]] std::unique_ptr<Probe> executor_launch(Grid grid);

/// Copies from one buffer in memory to another, as a CPU has no other memory.
[[nodiscard]] std::unique_ptr<Probe> host_copies(Grid grid);

}  // namespace trireme::calibrate
