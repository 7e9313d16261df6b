// Ranks that reach each other by TCP, where there is no MPI: rank 0 listens, the others connect.
#pragma once

#include <memory>
#include <string>

#include "calibrate/harness/rank_discovery.h"
#include "calibrate/harness/rank_link.h"

namespace trireme::calibrate {

/// Connects rank `rank` of `ranks`. Every rank gives the same rendezvous and token. Throws
/// RankFailure that names a rank that has not come within `limits.connect`, and Error (device) when
/// rank 0 cannot listen there. A RankFailure of which rank 0 has told has the rank -1.
[[nodiscard]] std::unique_ptr<RankLink> connect_by_tcp(std::int64_t rank,
                                                       std::int64_t ranks,
                                                       const Rendezvous& rendezvous,
                                                       const std::string& token,
                                                       const LinkLimits& limits);

}  // namespace trireme::calibrate
