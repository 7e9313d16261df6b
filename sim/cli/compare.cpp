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
  ledger::StudyResult result =
      study::compare(plan.empty() ? file.base() : study::only(file.base(), plan), engine_of(call));
  if (const auto law = law_of(call)) {
    study::apply_law(*law, result);
  }
  note_result(result);
  switch (call.format) {
    case Format::json:
      write_result(call, report::to_json(result, "compare"));
      break;
    case Format::csv:
      write_result(call, report::to_csv(result));
      break;
    case Format::table:
      write_result(call, report::to_terminal(report::results_table(result.rows), call.color));
      break;
  }
  return exit_code_of(result);
}

}  // namespace trireme::cli
