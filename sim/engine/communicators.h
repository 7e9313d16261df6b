// The communicators that a program's collectives run in.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/collectives.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// One group of ranks, and how its ranks are connected.
struct Communicator {
  program::AxisMask group = 0;
  cost::Group placed;
  bool rings = false;       // of collectives that go around a ring or a tree
  bool all_peers = false;   // of an all-to-all
  bool neighbours = false;  // of messages to the next rank
};

/// One for each group of several ranks that some collective runs over, by ascending mask.
[[nodiscard]] std::vector<Communicator> communicators(const program::Program& program,
                                                      std::int64_t gpus_per_node);

}  // namespace trireme::engine
