// What a study's `what_if` asks of the event engine, and how it is said beside results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/study_file.h"
#include "sim/config/study_spec.h"
#include "sim/engine/event/event.h"
#include "sim/engine/event/schedule.h"
#include "sim/ledger/critical_path.h"
#include "sim/ledger/result.h"

namespace trireme::study {

/// Whether only a clock over ranks has what is asked: slow ranks, and kernels that scatter.
[[nodiscard]] bool needs_event_engine(const config::WhatIfSpec& what_if);

/// The event engine where the study or a point of its sweep needs it, else the analytic one.
[[nodiscard]] ledger::Engine default_engine(const config::StudyFile& file);

/// A sentence for each thing that is otherwise; none without `what_if`.
[[nodiscard]] std::vector<std::string> sentences(const config::WhatIfSpec& what_if);

/// What is asked, as the event engine takes it.
[[nodiscard]] engine::EventOptions event_options(const config::WhatIfSpec& what_if);

/// A step by the event engine.
struct EventStep {
  engine::EventOptions options;  // under which it ran
  ledger::TimeLedger time;
  std::optional<ledger::StepDistribution> distribution;  // where kernels scatter
};

/// The step under what is asked; where kernels scatter, of all runs the one of median length (of
/// two in the middle the shorter). Empty when a kernel's seconds are unknown.
[[nodiscard]] std::optional<EventStep> event_step(const engine::Schedule& schedule,
                                                  const engine::Machine& machine,
                                                  const config::WhatIfSpec& what_if);

}  // namespace trireme::study
