// The longest sequence that a plan can train on, by search on its step program.
#pragma once

#include <string>

#include "sim/config/study_spec.h"
#include "sim/ledger/max_sequence.h"

namespace trireme::study {

/// Of every plan of the study, whose own length does not matter. Lengths go in the smallest step at
/// which the plan's rules hold; memory grows with the length, so that the search is a bisection.
[[nodiscard]] ledger::LongestSequences longest_sequences(const config::StudySpec& study);

}  // namespace trireme::study
