// What is said of a prediction's accuracy.
#pragma once

#include <string>
#include <vector>

#include "sim/ledger/result.h"

namespace trireme::report {

/// The bands of the rows' kinds, in one sentence; "none yet" where no run of the kind was judged.
[[nodiscard]] std::string accuracy_band(const std::vector<ledger::PlanResult>& rows);

/// "too close to call: ...", a sentence for each point.
[[nodiscard]] std::vector<std::string> close_calls(const std::vector<ledger::TooClose>& close);

}  // namespace trireme::report
