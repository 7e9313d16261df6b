#include "sim/cli/study_call.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/cli/output.h"
#include "sim/report/study_tables.h"

namespace trireme::cli {

config::StudyFile read_study_of(const Invocation& call) {
  config::StudyFile file = config::StudyFile::read(call.argument, call.data);
  std::vector<std::string> plans;
  for (const config::PlanSpec& plan : file.base().plans) {
    plans.push_back(plan.name);
  }
  echo_defaults(file.base().defaults_used, plans);
  return file;
}

void note_result(const ledger::StudyResult& result) {
  note(fmt::format("seconds by profile {}; accuracy band: none yet", result.profile));
  for (const std::string& remark : report::remarks(result.rows)) {
    note(remark);
  }
  for (const ledger::FailedRequirement& failed : result.failed) {
    note(fmt::format("{} ({}): {}", failed.plan, report::point_text(failed.point), failed.message));
  }
}

ExitCode exit_code_of(const ledger::StudyResult& result) {
  return result.failed.empty() && result.any_fits() ? ExitCode::done : ExitCode::infeasible;
}

}  // namespace trireme::cli
