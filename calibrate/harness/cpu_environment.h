// The record of a machine whose CPUs are measured.
#pragma once

#include "calibrate/harness/rank_link.h"
#include "calibrate/measurement/environment.h"

namespace trireme::calibrate {

/// This machine, now; called on all ranks, whose hosts it counts. `mpi`: the library's name and
/// version, empty without one. The key is left to who knows which are taken.
[[nodiscard]] Environment cpu_environment(const Placement& placement, const std::string& mpi);

/// "2026-11-30T13:25:29Z": the time in UTC.
[[nodiscard]] std::string utc_now();

}  // namespace trireme::calibrate
