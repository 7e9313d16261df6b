// Seconds of the segments of a program, each on its own: what the analytic reader adds up.
#pragma once

#include <optional>
#include <vector>

#include "sim/engine/analytic.h"

namespace trireme::engine {

/// One execution of a segment.
struct SegmentTime {
  Seconds length;
  Seconds compute_busy;
  Seconds exposed_launch;  // the compute stream stands still until the host has issued its work
  Seconds exposed_communication;  // ... for another reason
};

struct SegmentTimes {
  /// By number; of a message between stages, zero: it depends on the other end.
  std::vector<SegmentTime> segment;
  /// What each kind of work takes in a step, whatever runs beside it.
  ledger::TimeLedger busy;
};

/// Empty when the machine's profile does not know a kernel.
[[nodiscard]] std::optional<SegmentTimes> segment_times(const program::Program& program,
                                                        const Machine& machine);

}  // namespace trireme::engine
