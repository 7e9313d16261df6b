// How NCCL would send a collective: its choice, as an algorithm of expansion.h.
#pragma once

#include <optional>
#include <string_view>

#include "sim/core/vocabulary.h"
#include "sim/cost/collective_bytes.h"
#include "sim/cost/nccl_choice.h"
#include "sim/engine/network/expansion.h"
#include "sim/engine/network/topology.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// The ranks of a group as NCCL sees them.
[[nodiscard]] cost::NcclCommunicator nccl_communicator(cost::Group group,
                                                       const TopologyShape& shape);

/// NCCL's choice. `payload` is the gathered or reduced buffer. Empty for one rank, and for an
/// exchange: NCCL groups sends and receives and has no choice.
[[nodiscard]] std::optional<cost::NcclChoice> nccl_choice_of(CollectiveKind kind,
                                                             Bytes payload,
                                                             cost::Group group,
                                                             const TopologyShape& shape,
                                                             const cost::NcclTuning& tuning);

/// The name of the algorithm in expansion.h that sends as NCCL does; empty for PAT, which is not
/// modelled as messages.
[[nodiscard]] std::string_view expansion_of(cost::NcclAlgorithm algorithm);

/// The algorithm that NCCL chooses where its constants are known and it is modelled, else the usual
/// one.
[[nodiscard]] const Algorithm& sending_algorithm(CollectiveKind kind,
                                                 Bytes payload,
                                                 cost::Group group,
                                                 bool in_switches,
                                                 const TopologyShape& shape,
                                                 const std::optional<cost::NcclTuning>& tuning);

}  // namespace trireme::engine
