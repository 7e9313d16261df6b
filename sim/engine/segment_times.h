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
  Seconds exposed_host;    // ... until the host, or a copy to or from it, is done
  Seconds exposed_communication;  // ... for another reason
};

/// The same for all programs that share the segments: messages between stages, whose seconds depend
/// on the stage, take none here.
struct SegmentTimes {
  std::vector<SegmentTime> segment;  // by number
  std::vector<Seconds> op;           // of one execution, by id
};

/// Empty when the machine's profile does not know a kernel.
[[nodiscard]] std::optional<SegmentTimes> segment_times(const program::Program& program,
                                                        const Machine& machine);

/// What each kind of work takes in a step, whatever runs beside it, messages included; and of the
/// streams' waits what is known segment by segment.
[[nodiscard]] ledger::TimeLedger sum_of_segments(const program::Program& program,
                                                 const SegmentTimes& times,
                                                 const Machine& machine);

}  // namespace trireme::engine
