#include "sim/report/trace.h"

#include <string>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/report/gzip.h"
#include "sim/study/timeline.h"

namespace trireme::cli {

ExitCode run_trace(const Invocation& call) {
  const config::StudyFile file = read_study_of(call);
  const config::PlanSpec& plan = chosen_plan(file.base(), call.text("plan"));
  const ledger::Timeline timeline = study::timeline(file.base(), plan);
  if (!timeline.reason.empty()) {
    note(fmt::format("plan '{}' has no timeline: {}", plan.name, timeline.reason));
    return ExitCode::infeasible;
  }
  for (const std::string& said : timeline.what_if) {
    note("what if: " + said);
  }
  const std::string trace = report::to_trace(timeline);
  const bool compressed =
      call.values["gzip"].as<bool>() || (call.output && call.output->extension() == ".gz");
  write_result(call, compressed ? report::gzip(trace) : trace);
  return ExitCode::done;
}

}  // namespace trireme::cli
