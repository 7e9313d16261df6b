// What commands on a study share: reading it, echoing, and the words about a result.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/invocation.h"
#include "sim/config/law.h"
#include "sim/config/study_file.h"
#include "sim/config/study_spec.h"
#include "sim/core/error.h"
#include "sim/ledger/result.h"

namespace trireme::cli {

/// Reads the study that the call names, a file or else a built-in study such as
/// reports/ulysses-vs-megatron/study.yaml, and echoes the defaults that it used.
[[nodiscard]] config::StudyFile read_study_of(const Invocation& call);

/// As read_study_of, without a word.
[[nodiscard]] config::StudyFile read_study_silently(const Invocation& call);

/// The plan of that name; without a name the study's only one. Throws Error (command line).
[[nodiscard]] const config::PlanSpec& chosen_plan(const config::StudySpec& study,
                                                  const std::string& name);

/// The reader of seconds that --engine names; without it the one that the study needs. Throws Error
/// (command line) at one that has not what the study asks.
[[nodiscard]] ledger::Engine engine_of(const Invocation& call, const config::StudyFile& file);

/// The law of step times that --law names, a file or a built-in one; empty without it.
[[nodiscard]] std::optional<config::LawSpec> law_of(const Invocation& call);

/// Notes on stderr: requirements that fail, why rows do not run, what results leave out.
void note_result(const ledger::StudyResult& result);

/// Infeasible when a requirement fails or no plan fits.
[[nodiscard]] ExitCode exit_code_of(const ledger::StudyResult& result);

}  // namespace trireme::cli
