// Which probes this build has.
#pragma once

#include <string>

namespace trireme::calibrate {

/// A line for each library that a build may have or lack: "MPI: yes", "CUDA, ...: no".
[[nodiscard]] std::string built_with();

}  // namespace trireme::calibrate
