// A timeline as a Gantt chart, and its critical path in words.
#pragma once

#include <string>
#include <vector>

#include "sim/ledger/critical_path.h"
#include "sim/ledger/timeline.h"

namespace trireme::report {

/// One sentence per term of the critical path for which the step was simulated again: how much of
/// the step it fills, and what the step would take if that work took half its time, or none.
[[nodiscard]] std::vector<std::string> critical_sentences(const ledger::CriticalPath& path);

/// SVG 1.1 of the first drawn rank: the whole step, and one layer's forward and backward at a scale
/// at which operations can be told apart; a row per stream, colours by kind of work, the critical
/// path underlined. Every slice has a title that names it. Deterministic.
[[nodiscard]] std::string to_gantt(const ledger::Timeline& timeline);

}  // namespace trireme::report
