// How far off predictions are, for people and for machines.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ledger/validation.h"

namespace trireme::report {

/// case, predicted, expected, error, verdict, worst first; then the summary by topic.
[[nodiscard]] std::string to_terminal(const ledger::ValidationResult& result, bool color);

/// A row per case, in base units.
[[nodiscard]] std::string to_csv(const ledger::ValidationResult& result);

/// {"schema_version": 1, "command": "validate", "failed": ..., "summary": [...], "rows": [...]}
[[nodiscard]] std::string to_json(const ledger::ValidationResult& result);

/// The judged cases counted by topic, with their errors, in markdown.
[[nodiscard]] std::string accuracy_summary(const ledger::ValidationResult& result);

/// docs/accuracy.md, which shows the figure of accuracy_figure under the name `figure`.
[[nodiscard]] std::string accuracy_page(const ledger::ValidationResult& result,
                                        const std::string& figure);

/// topologies/accuracy/public.yaml: bands of the judged runs of each of the kinds, of which the
/// sequence of one is at most `longest`.
[[nodiscard]] std::string accuracy_bands(const ledger::ValidationResult& result,
                                         const std::string& longest,
                                         std::span<const std::string_view> kinds);

/// SVG: predicted over expected of every case that states a value, a row per source.
[[nodiscard]] std::string accuracy_figure(const ledger::ValidationResult& result);

/// What cannot be predicted first, then by the size of the error.
[[nodiscard]] std::vector<const ledger::ValidationRow*> worst_first(
    const ledger::ValidationResult& result);

// Cells of a row in tables.
[[nodiscard]] std::string predicted_text(const ledger::ValidationRow& row);
[[nodiscard]] std::string expected_text(const ledger::ValidationRow& row);
[[nodiscard]] std::string tolerance_text(const ledger::ValidationRow& row);
[[nodiscard]] std::string error_text(const ledger::ValidationRow& row);
[[nodiscard]] std::string verdict_text(const ledger::ValidationRow& row);

}  // namespace trireme::report
