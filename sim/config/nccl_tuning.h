// Reading what NCCL chooses by: one file for each release in topologies/nccl.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/node.h"
#include "sim/cost/nccl_choice.h"

namespace trireme::config {

struct NcclTuningSpec {
  std::string release;
  std::string source;
  cost::NcclTuning tuning;
};

/// Reads a file of constants for the GPU of this name, of which the part before the first '-'
/// counts. Empty when the file does not know its architecture. Throws Error (input), located.
[[nodiscard]] std::optional<NcclTuningSpec> read_nccl_tuning(const Node& root,
                                                             std::string_view gpu);

/// The releases of which the constants are known, oldest first.
[[nodiscard]] std::vector<std::string> nccl_releases();

/// The constants of the newest known release that is not newer than the one that `version` begins
/// with ("2.27", "2.29.2 ..."), or of the oldest; of the newest when it names none. Empty when the
/// release does not know the GPU's architecture.
[[nodiscard]] std::optional<NcclTuningSpec> nccl_tuning(std::string_view version,
                                                        std::string_view gpu);

}  // namespace trireme::config
