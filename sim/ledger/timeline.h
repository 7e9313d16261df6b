// When what happens in a step, as traces and charts draw it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/ledger/critical_path.h"
#include "sim/ledger/work.h"
#include "sim/units/units.h"

namespace trireme::ledger {

/// One task of one rank on one stream. Slices of a stream do not overlap.
struct TimelineSlice {
  std::int64_t rank = 0;
  std::size_t stream = 0;  // of Timeline::streams
  std::string_view operation;
  std::string_view function;
  Work work = Work::memory_bound;
  Phase phase = Phase::forward;
  Component component = Component::attention;
  std::string where;                  // "micro batch 0, layer 3"
  std::optional<std::int64_t> layer;  // empty outside the layers
  bool critical = false;              // on the critical path
  Seconds start;
  Seconds end;
  Bytes allocated;  // of the rank while the task runs, in the order of issue
};

/// A slice that had to wait for another of the same rank: places in Timeline::slices.
struct TimelineWait {
  std::size_t waited_for = 0;
  std::size_t waiting = 0;
};

/// A collective that started when its last rank had come to it: the slice of that rank, and that of
/// another which had to wait for it. Places in Timeline::slices.
struct TimelineMeeting {
  std::size_t last = 0;
  std::size_t waiting = 0;
};

struct Timeline {
  std::string study;
  std::string plan;
  std::vector<std::string> what_if;   // is otherwise than cluster and plan are
  Tokens sequence;                    // of the workload
  std::int64_t ranks = 1;             // of the plan; those drawn stand for all
  std::vector<std::string> streams;   // names, the compute stream first
  std::vector<std::int64_t> drawn;    // ranks, ascending
  std::vector<TimelineSlice> slices;  // by start
  std::vector<TimelineWait> waits;
  std::vector<TimelineMeeting> meetings;
  Seconds step;
  std::int64_t layers = 0;
  CriticalPath critical_path;
  std::string reason;  // why there is no timeline: an illegal plan, or unknown seconds
};

}  // namespace trireme::ledger
