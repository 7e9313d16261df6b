// How much of a rank's links a collective needs while it is in flight.
#pragma once

#include "sim/engine/analytic.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// Parts of a link's time, 0 to 1, of the rank's port to the node's switches and of its NIC. Both
/// directions of a port are loaded alike, so that one number stands for them.
struct LinkUse {
  double nvlink = 0;
  double nic = 0;
};

/// The use of a collective that takes `alone` when nothing contends, on average over the ranks of a
/// node, as algorithms spread what leaves a node over its NICs.
///
/// EQ link-use: u = min(1, B / (R T))
///   B  bytes that a rank sends over the link, on average over its node      [bytes]
///   R  what the collective reaches on that link at best (its beta)         [bytes/second]
///   T  alone                                                                [seconds]
///   u  result                                                               [1]
/// Source: derived: the link's share of the closed form's seconds
/// Valid:  a collective that loads its links evenly from its beginning to its end
/// Tests:  tests/unit/engine/event_contention_test.cpp
[[nodiscard]] LinkUse link_use(const program::Program& program,
                               const program::Op& op,
                               const Machine& machine,
                               Seconds alone);

}  // namespace trireme::engine
