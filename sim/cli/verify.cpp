#include "sim/study/verify.h"

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/report/table.h"
#include "sim/report/verification.h"
#include "sim/study/evaluate.h"
#if TRIREME_WITH_MPI
#include "sim/engine/execute/mpi_transport.h"
#endif

namespace trireme::cli {

namespace {

bool is_set(const Invocation& call, const std::string& option) {
  return call.values.count(option) != 0 && call.values[option].as<bool>();
}

std::string table_text(const Invocation& call, const ledger::VerificationResult& result) {
  std::string text;
  for (const ledger::PlanVerification& plan : result.rows) {
    if (!plan.trace.empty()) {
      text += report::trace_text(plan) + '\n';
    }
  }
  text += report::to_terminal(report::verification_table(result), call.color);
  if (is_set(call, "time")) {
    text += "\nwall-clock of rank 0 in the last step, and of repeated steps on the slowest rank\n" +
            report::to_terminal(report::wall_clock_table(result), call.color);
  }
  return text;
}

void write_verification(const Invocation& call, const ledger::VerificationResult& result) {
  for (const ledger::PlanVerification& plan : result.rows) {
    if (!plan.model.empty()) {
      note(fmt::format("{}: executed with {}, {} steps", plan.plan, plan.model, plan.steps));
    }
    for (const std::string& message : plan.messages) {
      note(message);
    }
  }
  write_result_as(
      call,
      [&] { return report::to_json(result, is_set(call, "time")); },
      [&] { return report::to_csv(result); },
      [&] { return table_text(call, result); });
}

ExitCode exit_code_of(const ledger::VerificationResult& result) {
  if (result.any(ledger::VerificationVerdict::differs)) {
    return ExitCode::bound_missed;
  }
  return result.any(ledger::VerificationVerdict::equal) ? ExitCode::done : ExitCode::infeasible;
}

ledger::VerificationResult verify(const Invocation& call,
                                  const config::StudyFile& file,
                                  const std::string& transport,
                                  const study::RunRanks& run) {
  const std::string plan = call.text("plan");
  study::VerifyOptions options;
  options.size = is_set(call, "full-size") ? study::ModelSize::stated
                 : is_set(call, "time")    ? study::ModelSize::larger
                                           : study::ModelSize::least;
  options.time = is_set(call, "time");
  options.trace = is_set(call, "full-trace");
  ledger::VerificationResult result = study::verify_study(
      plan.empty() ? file.base() : study::only(file.base(), plan), options, run);
  result.transport = transport;
  return result;
}

ExitCode verify_on_threads(const Invocation& call) {
  const ledger::VerificationResult result =
      verify(call, read_study_of(call), "threads", study::thread_ranks());
  write_verification(call, result);
  return exit_code_of(result);
}

#if TRIREME_WITH_MPI

/// One rank: every process reads the study and runs its rank of every plan; rank 0 writes.
ExitCode verify_rank(const Invocation& call, engine::Transport& transport) {
  const bool writes = transport.rank() == 0;
  const config::StudyFile file = writes ? read_study_of(call) : read_study_silently(call);
  const auto run = [&](std::int64_t ranks, const study::RankBody& body) -> std::string {
    if (ranks != transport.ranks()) {
      refuse(
          fmt::format("the plan runs on {} ranks, mpirun has started {}", ranks, transport.ranks()),
          fmt::format("mpirun -n {} trireme verify ...", ranks));
    }
    body(transport.rank(), transport);
    return {};
  };
  const ledger::VerificationResult result = verify(call, file, "mpi", run);
  if (!writes) {
    return ExitCode::done;
  }
  write_verification(call, result);
  return exit_code_of(result);
}

ExitCode verify_on_mpi(const Invocation& call) {
  engine::MpiLimits limits;
  if (is_set(call, "full-size")) {
    // Rank 0 computes the reference of one plan while the others wait for it at the next.
    limits.receive = std::chrono::minutes(10);
  }
  return engine::run_mpi_rank(
      limits,
      [](const engine::RankFailure& failure) { note(failure.what()); },
      [&](engine::Transport& transport) { return verify_rank(call, transport); });
}

#else

ExitCode verify_on_mpi(const Invocation& /*call*/) {
  refuse("--transport mpi: this trireme was built where there was no MPI",
         "install OpenMPI (libopenmpi-dev, openmpi-bin) and build again");
}

#endif

}  // namespace

ExitCode run_verify(const Invocation& call) {
  const std::string transport = call.text("transport");
  if (transport == "mpi") {
    return verify_on_mpi(call);
  }
  if (!transport.empty() && transport != "threads") {
    const std::vector<std::string> known = {"threads", "mpi"};
    refuse(fmt::format("--transport: {} is not known", in_quotes(transport)),
           hint_near(transport, known));
  }
  return verify_on_threads(call);
}

}  // namespace trireme::cli
