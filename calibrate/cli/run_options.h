// What the command line of `trireme-calibrate run` asks for.
#pragma once

#include <filesystem>

#include "calibrate/cli/invocation.h"
#include "calibrate/harness/harness.h"
#include "calibrate/harness/rank_discovery.h"
#include "calibrate/harness/rank_link.h"
#include "calibrate/probe/cpu/executor_kernels.h"

namespace trireme::calibrate {

struct RunOptions {
  std::filesystem::path folder;
  Grid grid = Grid::full;
  HarnessLimits limits;
  LinkLimits link;
};

/// Throws Error (command line).
[[nodiscard]] RunOptions run_options_of(const Invocation& call);

/// What --link and --rendezvous make of what the launcher has left. Throws Error (command line).
[[nodiscard]] Discovery discovery_of(const Invocation& call);

}  // namespace trireme::calibrate
