// What NCCL would choose for a collective on a cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/config/cluster_spec.h"
#include "sim/core/vocabulary.h"
#include "sim/cost/collective_bytes.h"
#include "sim/cost/nccl_choice.h"
#include "sim/units/units.h"

namespace trireme::study {

struct NcclPick {
  std::string release;  // whose constants were used
  std::string source;
  cost::NcclChoice choice;
  /// The algorithm in engine/network/expansion.h that sends as NCCL does; empty for PAT, which is
  /// not modelled as messages.
  std::string_view expansion;
};

/// The constants of the release that the cluster's profile was measured with; empty on a GPU that
/// they do not know.
[[nodiscard]] std::optional<cost::NcclTuning> nccl_tuning_of(const config::ClusterSpec& cluster);

/// By the constants of the release that the cluster's profile was measured with. `payload` is the
/// gathered or reduced buffer. Empty for one rank, for an exchange (NCCL groups sends and receives
/// and has no choice), and on a GPU that NCCL's constants do not know.
[[nodiscard]] std::optional<NcclPick> nccl_pick(const config::ClusterSpec& cluster,
                                                CollectiveKind kind,
                                                Bytes payload,
                                                cost::Group group);

}  // namespace trireme::study
