// What a step's length hangs on, and how it scatters.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/ledger/ledger.h"
#include "sim/units/units.h"

namespace trireme::ledger {

/// One kind of work on the critical path: the executions of what is one operation to a reader.
struct CriticalTerm {
  Phase phase = Phase::forward;
  Component component = Component::attention;
  std::string_view operation;
  std::string_view function;
  std::optional<CollectiveKind> collective;
  std::size_t executions = 0;  // on the path
  Seconds on_path;             // seconds of the step that they fill
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
