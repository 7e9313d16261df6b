// Results as one JSON document (schema_version 1), and the same fields as CSV.
//
// Bytes are integers, seconds and ratios doubles with at most 9 significant digits. A number that
// is not known yet, or that an illegal plan has not, is null; an empty cell in CSV.
#pragma once

#include <string>
#include <string_view>

#include "sim/ledger/explanation.h"
#include "sim/ledger/result.h"

namespace trireme::report {

/// The seconds of a step are those of the engine that the document names; of both, the event
/// engine's, and `by_engine` has each.
///
/// {"schema_version": 1, "command": ..., "study": ..., "profile": ..., "rows": [...]}, with the
/// failed requirements, and for a sweep its crossovers and memory walls.
[[nodiscard]] std::string to_json(const ledger::StudyResult& result, std::string_view command);

/// One line per row: the fields of the JSON, named by their path ("sent_bytes_per_rank.total").
[[nodiscard]] std::string to_csv(const ledger::StudyResult& result);

/// Terms, memory at the worst instant, shapes and owners of one plan.
[[nodiscard]] std::string to_json(const ledger::Explanation& explanation);

/// The terms, one per line.
[[nodiscard]] std::string to_csv(const ledger::Explanation& explanation);

}  // namespace trireme::report
