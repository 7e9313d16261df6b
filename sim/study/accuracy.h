// Which accuracy a prediction has, and which plans are too close to call.
#pragma once

#include <optional>
#include <vector>

#include "sim/config/study_spec.h"
#include "sim/ledger/result.h"

namespace trireme::study {

/// Of the kind of run that a study describes; empty where no run of the kind was judged.
[[nodiscard]] std::optional<ledger::AccuracyBand> band_of(const config::StudySpec& study);

/// Plans whose step is within the median error of the fastest one's at their point. An error that
/// all plans share cancels, so what differs by more may still be decided wrongly and what differs
/// by less rightly.
///
/// EQ too-close-to-call: T / T0 - 1 < E
///   T, T0  steps of a plan and of the fastest at the same point              [seconds]
///   E      band.median_error of that kind of run                             [1]
/// Source: derived: half of the judged runs of the kind were missed by more
/// Valid:  errors of the two plans that do not depend on each other
/// Tests:  tests/unit/study/accuracy_test.cpp
[[nodiscard]] std::vector<ledger::TooClose> too_close_to_call(
    const std::vector<ledger::PlanResult>& rows);

}  // namespace trireme::study
