#include "sim/study/verify.h"

#include <exception>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/execute/thread_transport.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/program/builder.h"
#include "sim/study/rank_record.h"
#include "sim/study/step_timing.h"
#include "sim/study/verify_checks.h"
#include "sim/study/verify_reference.h"
#include "sim/units/text.h"

namespace trireme::study {

using engine::InstanceIndex;
using engine::LocalTensor;
using ledger::PlanVerification;
using ledger::VerificationVerdict;
using plan::Plan;
using program::Program;

namespace {

/// A quantity of one tensor that differs everywhere needs one message, not one per rank and layer.
constexpr std::size_t kMostMessages = 12;

/// Executes every stage's program on its ranks, of those that this process has. Fills `records`, of
/// every rank, where rank 0 is. Returns why a rank failed.
std::string execute(const std::vector<Program>& stages,
                    const Reference& reference,
                    std::int64_t gpus_per_node,
                    std::int64_t steps,
                    const RunRanks& run,
                    std::vector<RankRecord>& records) {
  const program::Mesh& mesh = stages.front().mesh();
  return run(mesh.ranks(), [&](std::int64_t rank, engine::Transport& transport) {
    const Program& program = stages[static_cast<std::size_t>(mesh.stage_of(rank))];
    RankRecord own = record_rank(
        program,
        transport,
        gpus_per_node,
        steps,
        reference.constants(),
        [&](std::int64_t step, const InstanceIndex& instance, LocalTensor& local) {
          reference.fill(mesh, rank, step, in_model(program, *local.tensor, instance), local);
        });
    if (rank != 0) {
      send_record(transport, own);
      return;
    }
    records.push_back(std::move(own));
    for (std::int64_t other = 1; other < transport.ranks(); ++other) {
      records.push_back(receive_record(transport, other));
    }
  });
}

}  // namespace

RunRanks thread_ranks(std::chrono::milliseconds timeout) {
  return [timeout](std::int64_t ranks, const RankBody& body) -> std::string {
    engine::ThreadNetwork network(ranks, timeout);
    try {
      engine::run_ranks(network, body);
    } catch (const std::exception& failure) {  // of the execution, or of a rank that is lost
      return failure.what();
    }
    return {};
  };
}

namespace {

/// Executes one program and appends a message for everything that differs.
void compare_with_reference(const Plan& plan,
                            const std::vector<Program>& promised,
                            const std::vector<Program>& executed,
                            std::int64_t gpus_per_node,
                            const VerifyOptions& options,
                            const RunRanks& run,
                            PlanVerification& result) {
  Reference reference(plan, options.steps, options.seed);
  std::vector<RankRecord> records;
  const std::string failure =
      execute(executed, reference, gpus_per_node, options.steps, run, records);
  // Before rank 0 computes the reference, so that no rank waits for it.
  if (options.time && failure.empty()) {
    time_steps(executed, reference, gpus_per_node, run, result);
  }
  if (!failure.empty()) {
    result.messages.push_back(failure);
  } else if (!records.empty()) {
    reference.run();
    check_numbers(executed, reference, records, result);
    check_bytes(promised, executed, gpus_per_node, records, result);
    check_memory(promised, executed, records, result);
    result.wall_clock = records.front().steps.back().wall_clock;
  }
}

}  // namespace

PlanVerification verify_small_plan(const Plan& plan,
                                   std::int64_t gpus_per_node,
                                   const VerifyOptions& options,
                                   const RunRanks& run,
                                   const Lowering& executed) {
  PlanVerification result;
  result.plan = plan.name;
  result.model = in_words(plan);
  result.ranks = plan.ranks();
  result.steps = options.steps;
  try {
    std::vector<Program> stages;
    for (std::int64_t stage = 0; stage < plan.pipeline_degree; ++stage) {
      stages.push_back(executed(plan, stage));
    }
    if (options.trace) {
      for (const Program& stage : stages) {
        const std::vector<ledger::TracedOperation> trace = trace_of(stage);
        result.trace.insert(result.trace.end(), trace.begin(), trace.end());
      }
    }
    compare_with_reference(
        plan, plan::lower_stages(plan), stages, gpus_per_node, options, run, result);
  } catch (const program::BuildError& refusal) {  // a lowering that contradicts itself
    result.messages.emplace_back(refusal.what());
  }
  result.verdict =
      result.messages.empty() ? VerificationVerdict::equal : VerificationVerdict::differs;
  if (result.messages.size() > kMostMessages) {
    const std::size_t more = result.messages.size() - kMostMessages;
    result.messages.resize(kMostMessages);
    result.messages.push_back(fmt::format("and {} more", more));
  }
  for (std::string& message : result.messages) {
    message = fmt::format("plan '{}': {}", plan.name, message);
  }
  return result;
}

namespace {

/// Why this machine cannot execute a plan; empty when it can.
std::string too_large_to_execute(const Plan& plan) {
  // Every number takes 8 bytes, and a place among the elements of the whole tensor as much again;
  // declared types are of 2 bytes at least.
  constexpr std::int64_t kBytesExecuted = 8;
  Bytes declared;
  for (const Program& stage : plan::lower_stages(plan)) {
    declared = std::max(declared, engine::read_peak(stage).allocated);
  }
  const Bytes memory(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE));
  const Bytes needed = kBytesExecuted * plan.ranks() * declared;
  if (needed <= memory) {
    return {};
  }
  return fmt::format("plan '{}': to execute it takes about {}, and this machine has {}",
                     plan.name,
                     to_text(needed),
                     to_text(memory));
}

}  // namespace

PlanVerification verify_plan(const Plan& plan,
                             std::int64_t gpus_per_node,
                             const VerifyOptions& options,
                             const RunRanks& run) {
  const Plan small = shrink(plan, options.size, gpus_per_node);
  if (options.size == ModelSize::stated) {
    if (std::string reason = too_large_to_execute(small); !reason.empty()) {
      PlanVerification result;
      result.plan = plan.name;
      result.messages.push_back(std::move(reason));
      return result;
    }
  }
  return verify_small_plan(small, gpus_per_node, options, run);
}

ledger::VerificationResult verify_study(const config::StudySpec& study,
                                        const VerifyOptions& options,
                                        const RunRanks& run) {
  ledger::VerificationResult result;
  result.study = study.name;
  result.tolerance = kVerifyTolerance;
  for (const config::PlanSpec& spec : study.plans) {
    const plan::Resolution resolution = plan::resolve(study, spec);
    if (resolution.feasibility.legal()) {
      result.rows.push_back(
          verify_plan(resolution.plan, study.cluster.gpus_per_node, options, run));
      continue;
    }
    PlanVerification illegal;
    illegal.plan = spec.name;
    for (const Refusal& refusal : resolution.feasibility.refusals) {
      illegal.messages.push_back(
          fmt::format("plan '{}': {}: {}", spec.name, refusal.rule, refusal.message));
    }
    result.rows.push_back(std::move(illegal));
  }
  return result;
}

}  // namespace trireme::study
