// How a step's length scatters.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sim/engine/event/event.h"
#include "sim/ledger/critical_path.h"

namespace trireme::engine {

/// Simulates the step once for each seed, in parallel; the same for any number of threads. Empty
/// when a kernel's seconds are unknown, or without seeds.
[[nodiscard]] std::optional<ledger::StepDistribution> monte_carlo(
    const Schedule& schedule,
    const Machine& machine,
    const EventOptions& options,
    std::span<const std::uint64_t> seeds);

/// EQ sample-quantile: q = x(i) + (h - i) (x(i + 1) - x(i)), h = p (n - 1), i = floor(h)
///   x  values in ascending order, from 0; at least one   [seconds]
///   n  their number                                      [1]
///   p  part of the values below, 0 to 1                  [1]
///   q  result                                            [seconds]
/// Source: hyndman1996-quantiles, definition 7
/// Valid:  always
/// Tests:  tests/unit/engine/event_results_test.cpp
[[nodiscard]] Seconds sample_quantile(std::span<const Seconds> ascending, double part);

}  // namespace trireme::engine
