// The event reader: a discrete-event clock over the streams of many ranks.
//
// Streams run their tasks in the order of issue. A task starts when its streams are free and what
// it waits for has ended; a collective when all ranks of its group have come to it. Ranks that
// behave alike are folded into one class, which is simulated once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/engine/event/schedule.h"
#include "sim/ledger/ledger.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// A rank whose kernels take longer than the others' by a factor.
struct Straggler {
  std::int64_t rank = 0;
  double factor = 1;
};

struct EventOptions {
  std::vector<Straggler> stragglers;
  /// Relative standard deviation of every kernel's time, log-normal, independent by rank and task;
  /// 0 for none. Numbers are counters of (seed, rank, task): order and threads cannot change them.
  double jitter = 0;
  std::uint64_t seed = 0;
  /// Simulate every rank, also those that behave alike.
  bool unfolded = false;
};

/// One task that ran: `rank` is the class's first rank.
struct TaskRecord {
  std::int64_t rank = 0;
  TaskId task = 0;
  Seconds start;
  Seconds end;
};

using TaskObserver = std::function<void(const TaskRecord& record)>;

struct EventResult {
  ledger::TimeLedger time;  // of the rank that ends last; ties: the lowest
  std::int64_t rank = 0;
  std::int64_t classes = 0;  // of ranks that were simulated
  std::uint64_t events = 0;
};

/// Runs a step on `program.mesh().ranks()` ranks. Empty when a kernel's seconds are unknown.
/// Simultaneous events are handled in the order in which they were scheduled, which is that of
/// ranks and streams.
///
/// EQ event-task-start: s = max(end of the stream's task before, ends of the tasks waited for),
///   of a collective the largest over its group
///   s  start of a task  [seconds]
/// Source: derived, docs/decisions/0001-step-program.md
/// Valid:  collectives in closed form: nothing contends for a link
/// Tests:  tests/unit/engine/event_test.cpp, tests/property/event_test.cpp
[[nodiscard]] std::optional<EventResult> simulate(const Schedule& schedule,
                                                  const Machine& machine,
                                                  const EventOptions& options = {},
                                                  const TaskObserver& observer = {});

}  // namespace trireme::engine
