// The event reader: a discrete-event clock over the streams of many ranks.
//
// Streams run their tasks in the order of issue. A task starts when its streams are free, what it
// waits for has ended and the host has launched it; a collective when all ranks of its group have
// come to it. Ranks that behave alike are folded into one class, which is simulated once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/engine/event/rank_classes.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/event/variation.h"
#include "sim/ledger/ledger.h"
#include "sim/program/program.h"

namespace trireme::engine {

struct EventOptions {
  Variation variation;
  /// Simulate every rank, also those that behave alike.
  bool unfolded = false;
  /// Collectives that are in flight at once share links; without it each runs as if it were alone.
  bool contention = true;
  /// Kernels and collectives beside each other slow down, where the profile says by how much.
  bool interference = true;
  /// What an operation's seconds are multiplied with, by its number in the schedule; empty for 1.
  std::vector<double> op_factors;
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
  std::vector<Seconds> busy_of_stream;  // by StreamSlot, of the same rank
  /// Whether kernels and collectives slow each other here: the profile says by how much.
  bool interference = false;
};

/// The classes of ranks that are simulated under `options`.
[[nodiscard]] RankClasses classes_of(std::span<const program::Program> stages,
                                     const Machine& machine,
                                     const EventOptions& options);

/// Seconds of every operation of all programs, by number in the schedule.
struct OpTimes {
  std::vector<Seconds> slowest;  // of the slowest rank
  /// Where ranks differ: by position in their ring. Empty elsewhere.
  std::vector<std::vector<Seconds>> by_position;
  program::AxisMask ring = 0;  // that ring; 0: ranks are alike

  [[nodiscard]] Seconds on(const program::Mesh& mesh, std::int64_t rank, std::uint32_t op) const {
    return by_position[op].empty()
               ? slowest[op]
               : by_position[op][static_cast<std::size_t>(mesh.position(rank, ring))];
  }
};

/// Empty when the machine's profile does not know a kernel.
[[nodiscard]] std::optional<OpTimes> op_times(const Schedule& schedule, const Machine& machine);

/// Runs a step on all ranks of the programs' mesh. Empty when a kernel's seconds are unknown.
/// Simultaneous events are handled in the order in which they were scheduled, which is that of
/// ranks and streams.
///
/// EQ event-task-start: s = max(end of the stream's task before, ends of the tasks waited for,
///   n L), of a collective the largest over the ranks that meet in it
///   s  start of a task                                                        [seconds]
///   n  tasks that the host has launched before it                             [1]
///   L  issue_time: the host issues one task after the other and runs ahead [seconds]
/// Source: derived, docs/decisions/0001-step-program.md
/// Valid:  a host that nothing makes wait; tasks without seconds are not launched
/// Tests:  tests/unit/engine/event_test.cpp, tests/property/event_test.cpp
[[nodiscard]] std::optional<EventResult> simulate(const Schedule& schedule,
                                                  const Machine& machine,
                                                  const EventOptions& options = {},
                                                  const TaskObserver& observer = {});

}  // namespace trireme::engine
