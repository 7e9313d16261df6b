// MPI's own collectives beside the messages of a transport, with the same watch over lost ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <mpi.h>

#include "sim/engine/execute/mpi_transport.h"

namespace trireme::engine {

/// One rank's end of MPI. MPI is called through complete() alone.
class MpiCalls : public Transport {
 public:
  /// How to wait: eagerly for what is timed, as MPI moves data in its calls alone; else with pauses
  /// that leave the core to ranks which compute.
  enum class Patience : std::uint8_t { eager, sleeping };

  /// Begins a call of MPI that does not wait, such as MPI_Iallgather, by `begin`, which returns
  /// MPI's code, and returns when its request is complete. The buffers outlive it. Throws
  /// RankFailure with the name of the call when it is not complete within the limit for a message.
  virtual void complete(const char* call,
                        const std::function<int(MPI_Request* request)>& begin,
                        Patience patience = Patience::eager) = 0;

  /// Runs a call of MPI that can only wait for the other ranks, such as MPI_Comm_split. When it
  /// is not over within the limit for a message, the failure is reported and the process left.
  virtual void run_blocking(const char* call, const std::function<int()>& body) = 0;
};

/// As run_mpi_rank, for a body that calls MPI itself.
[[nodiscard]] ExitCode run_mpi_calls(const MpiLimits& limits,
                                     const std::function<void(const RankFailure&)>& report,
                                     const std::function<ExitCode(MpiCalls& mpi)>& body);

}  // namespace trireme::engine
