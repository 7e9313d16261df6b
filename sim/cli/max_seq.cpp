#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/report/max_sequence.h"
#include "sim/study/evaluate.h"
#include "sim/study/max_sequence.h"

namespace trireme::cli {

ExitCode run_max_seq(const Invocation& call) {
  const config::StudyFile file = read_study_of(call);
  if (!file.points().empty()) {
    note("the sweep is ignored, and so is the study's own length of a sequence");
  }
  const std::string plan = call.text("plan");
  const ledger::LongestSequences found =
      study::longest_sequences(plan.empty() ? file.base() : study::only(file.base(), plan));
  write_result_as(
      call,
      [&] { return report::to_json(found); },
      [&] { return report::to_csv(found); },
      [&] { return report::to_terminal(found, call.color); });
  return found.any_fits() ? ExitCode::done : ExitCode::infeasible;
}

}  // namespace trireme::cli
