// Probe of an MPI library's own collectives.
#pragma once

#include <memory>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/cpu/executor_kernels.h"
#include "sim/engine/execute/mpi_calls.h"

namespace trireme::calibrate {

/// All-to-all, all-gather, reduce-scatter, all-reduce and a ring's send and receive of fp64, in the
/// groups of executor_collectives(). `mpi` outlives the probe.
[[nodiscard]] std::unique_ptr<Probe> mpi_collectives(engine::MpiCalls& mpi,
                                                     std::int64_t ranks_per_node,
                                                     Grid grid);

}  // namespace trireme::calibrate
