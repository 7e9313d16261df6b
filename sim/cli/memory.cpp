#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/ledger/device_memory.h"
#include "sim/report/memory_over_step.h"
#include "sim/study/memory_over_step.h"

namespace trireme::cli {

ExitCode run_memory(const Invocation& call) {
  const config::StudyFile file = read_study_of(call);
  const config::PlanSpec& plan = chosen_plan(file.base(), call.text("plan"));
  const ledger::MemoryOverStep memory = study::memory_over_step(file.base(), plan);
  for (const std::string& refusal : memory.refusals) {
    note(plan.name + " is illegal: " + refusal);
  }
  write_result_as(
      call,
      [&] { return report::to_json(memory); },
      [&] { return report::to_csv(memory); },
      [&] { return report::to_terminal(memory, call.color); });
  return memory.verdict == ledger::Verdict::fits ? ExitCode::done : ExitCode::infeasible;
}

}  // namespace trireme::cli
