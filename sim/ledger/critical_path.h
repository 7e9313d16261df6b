// What a step's length hangs on, and how it scatters.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/ledger/ledger.h"
#include "sim/ledger/work.h"
#include "sim/units/units.h"

namespace trireme::ledger {

/// One kind of work on the critical path: what one lever, such as a faster kernel or link, changes.
struct CriticalTerm {
  Work work = Work::memory_bound;
  std::optional<Component> component;  // whose attention or matrix products; else of all
  std::size_t executions = 0;          // of operations on the path
  Seconds on_path;                     // seconds of the step that they fill
  /// The step if this work, on the path or not, took half the time, or none; of the largest terms.
  std::optional<Seconds> step_at_half;
  std::optional<Seconds> step_without;
};

/// The chain of work, each waiting for the one before, that ends last. Its seconds sum to the step.
struct CriticalPath {
  Seconds step;
  std::vector<CriticalTerm> terms;  // by seconds on the path, the largest first
  PerComponent<Seconds> kernels{};
  PerCollective<Seconds> collectives{};
  Seconds launch;  // in which the host had not issued what comes next
};

/// A step's length over seeds of what varies.
struct StepDistribution {
  std::vector<Seconds> steps;  // by seed, in the order in which they were given
  Seconds mean;
  Seconds quantile_05;
  Seconds median;
  Seconds quantile_95;
  Seconds longest;
};

}  // namespace trireme::ledger
