// What the end of a step hangs on, and what would bring it forward.
#pragma once

#include <cstddef>
#include <optional>

#include "sim/engine/event/event.h"
#include "sim/ledger/critical_path.h"

namespace trireme::engine {

/// Walks back from the task that ends last to what it waited for: the task before it on its stream,
/// a tensor, a partner of its collective, or the host. Of several that end at once the first is
/// taken, in this order and that of ranks. For the `tried` largest terms the step is simulated
/// again with their work at half its seconds and at none: exact, not estimated. `on_path` is told
/// every task of the path, the last one first. Empty when a kernel's seconds are unknown.
///
/// EQ critical-path: T = sum over the tasks of the path of (e - s), plus the launch before the
/// first
///   s  start of a task, which is the end of the one before  [seconds]
///   e  its end                                              [seconds]
///   T  the step                                             [seconds]
/// Source: derived: every task starts at the end of what it waits for last
/// Valid:  always; a path of several that are equally long
/// Tests:  tests/unit/engine/event_results_test.cpp, tests/property/event_engine_test.cpp
[[nodiscard]] std::optional<ledger::CriticalPath> critical_path(const Schedule& schedule,
                                                                const Machine& machine,
                                                                const EventOptions& options = {},
                                                                std::size_t tried = 0,
                                                                const TaskObserver& on_path = {});

}  // namespace trireme::engine
