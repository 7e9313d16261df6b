// What a sweep along one numeric key shows: where plans overtake each other and stop fitting.
#pragma once

#include <span>
#include <vector>

#include "sim/ledger/result.h"

namespace trireme::study {

/// Crossovers between every two plans, ordered by the plans and then along the key. Empty unless
/// one key alone varies over the rows and its values are positive numbers. Points where a step time
/// is not known are passed over; whether plans fit plays no part.
///
/// EQ crossover: ln x = ln x0 + (ln x1 - ln x0) r0 / (r0 - r1)
///   x       value of the key at which both steps take equally long              [1]
///   x0, x1  neighbouring values between which the order of step times changes   [1]
///   r0, r1  logarithm of the ratio of the two step times at x0 and x1           [1]
/// Source: derived: the ratio taken as linear in the logarithm of the key between two points
/// Valid:  one crossing between neighbours; step times that change smoothly
/// Tests:  tests/unit/study/trends_test.cpp
[[nodiscard]] std::vector<ledger::Crossover> find_crossovers(
    std::span<const ledger::PlanResult> rows);

/// For each plan that stops fitting, the last value along the key that fits, the first behind it
/// that is tight and the first that does not fit.
[[nodiscard]] std::vector<ledger::MemoryWall> find_memory_walls(
    std::span<const ledger::PlanResult> rows);

}  // namespace trireme::study
