#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/report/json.h"
#include "sim/report/study_tables.h"
#include "sim/study/evaluate.h"
#include "sim/study/law.h"

namespace trireme::cli {

ExitCode run_compare(const Invocation& call) {
  const config::StudyFile file = read_study_of(call);
  if (!file.points().empty()) {
    note(fmt::format("the sweep of {} points is ignored: 'trireme sweep {}' evaluates it",
                     file.points().size(),
                     call.argument));
  }
  const std::string plan = call.text("plan");
  ledger::StudyResult result = study::compare(
      plan.empty() ? file.base() : study::only(file.base(), plan), engine_of(call, file));
  if (const auto law = law_of(call)) {
    study::apply_law(*law, result);
  }
  note_result(result);
  write_result_as(
      call,
      [&] { return report::to_json(result, "compare"); },
      [&] { return report::to_csv(result); },
      [&] { return report::to_terminal(result, call.color); });
  return exit_code_of(result);
}

}  // namespace trireme::cli
