// Ranks as MPI processes.
#pragma once

#include <chrono>
#include <functional>

#include "sim/core/error.h"
#include "sim/engine/execute/transport.h"

namespace trireme::engine {

/// How long a run waits before it gives a rank up.
struct MpiLimits {
  /// For a sign of life, which every rank sends several times a second, also while it computes.
  std::chrono::milliseconds silence = std::chrono::seconds(5);
  /// For one message of a rank that is alive, and for all ranks to start and to end.
  std::chrono::milliseconds receive = std::chrono::seconds(60);
};

/// Runs `body` as one rank of a program that mpirun has started, between MPI_Init and MPI_Finalize,
/// which a process can pass once. Returns what `body` returns.
///
/// A rank that is killed or stopped ends the run of the others, wherever they are: within `silence`
/// and about a second, one of them calls `report` with a failure that names the lost rank, from
/// another thread than `body`'s, and all leave the process with ExitCode::device. SIGTERM, by which
/// mpirun ends what is left of a run, waits until then.
///
/// What `body` throws ends the other ranks without a word and is thrown here, after which MPI
/// is no longer usable: the caller prints it and leaves with a code other than 0.
[[nodiscard]] ExitCode run_mpi_rank(const MpiLimits& limits,
                                    const std::function<void(const RankFailure&)>& report,
                                    const std::function<ExitCode(Transport& transport)>& body);

}  // namespace trireme::engine
