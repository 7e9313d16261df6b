#include "sim/study/step_timing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "sim/engine/event/monte_carlo.h"
#include "sim/engine/execute/executor.h"

namespace trireme::study {

namespace {

using engine::Executor;
using engine::Transport;

constexpr double kSecondsForAll = 2;
constexpr std::int64_t kFewestSteps = 3;
constexpr std::int64_t kMostSteps = 15;

/// Place by place the largest of all ranks' numbers, on every rank: a barrier as well.
double largest_of_ranks(Transport& transport, double own) {
  std::array<double, 1> value = {own};
  if (transport.rank() != 0) {
    transport.send(0, value);
    transport.receive(0, value);
    return value[0];
  }
  double most = own;
  for (std::int64_t rank = 1; rank < transport.ranks(); ++rank) {
    transport.receive(rank, value);
    most = std::max(most, value[0]);
  }
  value[0] = most;
  for (std::int64_t rank = 1; rank < transport.ranks(); ++rank) {
    transport.send(rank, value);
  }
  return most;
}

/// Seconds of one step on the slowest rank.
double timed_step(Executor& executor,
                  const engine::ExecutionConstants& constants,
                  Transport& transport) {
  static_cast<void>(largest_of_ranks(transport, 0));
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(executor.run_step(constants));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return largest_of_ranks(transport, took.count());
}

}  // namespace

void time_steps(std::span<const program::Program> stages,
                const Reference& reference,
                std::int64_t gpus_per_node,
                const RunRanks& run,
                ledger::PlanVerification& result) {
  std::vector<Seconds> seconds;  // where rank 0 is
  const std::string failure =
      run(stages.front().mesh().ranks(), [&](std::int64_t rank, Transport& transport) {
        const program::Program& program =
            stages[static_cast<std::size_t>(stages.front().mesh().stage_of(rank))];
        Executor executor(
            program,
            transport,
            gpus_per_node,
            [&](const engine::InstanceIndex& instance, engine::LocalTensor& local) {
              reference.fill(
                  program.mesh(), rank, 0, in_model(program, *local.tensor, instance), local);
            });
        const double first = timed_step(executor, reference.constants(), transport);
        const auto steps =
            std::clamp(static_cast<std::int64_t>(kSecondsForAll / first), kFewestSteps, kMostSteps);
        for (std::int64_t step = 0; step < steps; ++step) {
          const double one = timed_step(executor, reference.constants(), transport);
          if (rank == 0) {
            seconds.push_back(Seconds(one));
          }
        }
      });
  if (!failure.empty()) {
    result.messages.push_back(failure);
  }
  if (failure.empty() && !seconds.empty()) {
    std::sort(seconds.begin(), seconds.end());
    result.step_time = ledger::StepTiming{.median = engine::sample_quantile(seconds, 0.5),
                                          .lower_quartile = engine::sample_quantile(seconds, 0.25),
                                          .upper_quartile = engine::sample_quantile(seconds, 0.75),
                                          .steps = static_cast<std::int64_t>(seconds.size())};
  }
}

}  // namespace trireme::study
