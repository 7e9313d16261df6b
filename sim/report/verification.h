// What `trireme verify` found: table, JSON and CSV.
#pragma once

#include <string>

#include "sim/ledger/verification.h"
#include "sim/report/table.h"

namespace trireme::report {

/// A row per plan: verdict, errors, bytes and memory beside the ledgers.
[[nodiscard]] Table verification_table(const ledger::VerificationResult& result);

/// A row per plan: wall-clock of one rank's last step by phase, and of repeated steps.
[[nodiscard]] Table wall_clock_table(const ledger::VerificationResult& result);

/// Every operation of a plan's program, with shapes and owners of its tensors.
[[nodiscard]] std::string trace_text(const ledger::PlanVerification& plan);

/// {"schema_version": 1, "command": "verify", ..., "rows": [...]}. Wall-clock differs from run to
/// run and is there only when `with_time`.
[[nodiscard]] std::string to_json(const ledger::VerificationResult& result, bool with_time);

/// One line per plan: the numbers of the JSON, named by their path.
[[nodiscard]] std::string to_csv(const ledger::VerificationResult& result);

}  // namespace trireme::report
