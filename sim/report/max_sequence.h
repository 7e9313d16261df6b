// The longest sequences of a study's plans as table, JSON and CSV.
#pragma once

#include <string>
#include <vector>

#include "sim/ledger/max_sequence.h"

namespace trireme::report {

/// A row per plan, and a sentence on what ends each.
[[nodiscard]] std::string to_terminal(const ledger::LongestSequences& found, bool color);
[[nodiscard]] std::string to_json(const ledger::LongestSequences& found);

/// A line per plan, with the lever that lengthens most.
[[nodiscard]] std::string to_csv(const ledger::LongestSequences& found);

}  // namespace trireme::report
