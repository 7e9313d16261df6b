// The probes of a run: the table of those on CPUs, and the choice that --probe makes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/cli/invocation.h"
#include "calibrate/harness/probe.h"
#include "calibrate/harness/rank_discovery.h"
#include "calibrate/harness/rank_link.h"
#include "calibrate/probe/cpu/executor_kernels.h"
#if TRIREME_WITH_MPI
#include "calibrate/harness/mpi_link.h"
#endif

namespace trireme::calibrate {

/// What a rank has to measure with.
struct Machine {
  RankLink& link;
  Placement placement;
#if TRIREME_WITH_MPI
  engine::MpiCalls* mpi = nullptr;  // null without ranks of MPI

  [[nodiscard]] std::string mpi_name() const {
    return mpi == nullptr ? "" : mpi_library();
  }
#else
  [[nodiscard]] static std::string mpi_name() {
    return {};
  }
#endif
};

/// What --probe names; nothing when all are to be measured.
[[nodiscard]] std::vector<std::string> names_of_probes(const Invocation& call);

/// The probes on CPUs that --probe chooses, or all that this machine can run. Throws Error (command
/// line) for a name that none has and for a probe that needs several ranks of MPI.
[[nodiscard]] std::vector<std::unique_ptr<Probe>> chosen_probes(const Invocation& call,
                                                                const Machine& machine,
                                                                Grid grid);

/// Those of `all` that `names` has; all for no names. Throws Error (command line) for a name that
/// none has.
[[nodiscard]] std::vector<std::unique_ptr<Probe>> named_probes(
    std::vector<std::unique_ptr<Probe>> all, const std::vector<std::string>& names);

/// "launch, gemm, ...": the probes on CPUs.
[[nodiscard]] std::string probe_names();

}  // namespace trireme::calibrate
