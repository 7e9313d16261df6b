#include "sim/validation/quantities.h"

#include <algorithm>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/device_memory.h"
#include "sim/study/evaluate.h"
#include "sim/study/stages.h"

namespace trireme::validation {

using ledger::Dimension;
using ledger::Topic;

namespace {

template <class T>
bool selected(const std::vector<T>& wanted, T value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

std::optional<double> sent_bytes(const PlanLedgers& plan, const Selection& selection) {
  Bytes sum;
  for (const ledger::ByteEntry& entry : plan.bytes) {
    if (selected(selection.phases, entry.account.phase) &&
        selected(selection.traffic, entry.account.traffic) &&
        selected(selection.components, entry.account.component)) {
      sum += entry.sent;
    }
  }
  return static_cast<double>(sum.value());
}

std::optional<double> peak_memory(const PlanLedgers& plan, const Selection& selection) {
  Bytes sum;
  for (std::size_t item = 0; item < kMemoryItemNames.size(); ++item) {
    if (selected(selection.items, static_cast<MemoryItem>(item))) {
      sum += plan.result.numbers->memory.by_item[item];
    }
  }
  return static_cast<double>(sum.value());
}

std::optional<double> reserved_memory(const PlanLedgers& plan, const Selection&) {
  return static_cast<double>(plan.result.numbers->device.reserved.value());
}

/// What a rank takes of its GPU at least: a plan of which it is above 1 does not fit.
std::optional<double> least_device_share(const PlanLedgers& plan, const Selection&) {
  const ledger::PlanNumbers& numbers = *plan.result.numbers;
  return ratio(numbers.memory.allocated + numbers.device.outside_allocator(), plan.result.capacity);
}

/// What it may take: a plan of which it is at most 1 fits.
std::optional<double> most_device_share(const PlanLedgers& plan, const Selection&) {
  return ratio(plan.result.numbers->device.total_high(), plan.result.capacity);
}

std::optional<double> host_share(const PlanLedgers& plan, const Selection&) {
  const ledger::HostMemory& host = plan.result.numbers->host;
  return host.capacity ? std::optional(ratio(host.per_node, *host.capacity)) : std::nullopt;
}

std::optional<double> step_time(const PlanLedgers& plan, const Selection&) {
  const auto& step = plan.result.numbers->step;
  return step ? std::optional(step->time.step.value()) : std::nullopt;
}

std::optional<double> attention_time(const PlanLedgers& plan, const Selection&) {
  const auto& step = plan.result.numbers->step;
  return step ? std::optional(step->time.attention.value()) : std::nullopt;
}

/// FLOPs that the attention kernels execute (backward 2.5 times forward) over their seconds.
std::optional<double> attention_rate(const PlanLedgers& plan, const Selection& selection) {
  const std::optional<double> seconds = attention_time(plan, selection);
  Flops work;
  for (const ledger::TimeEntry& entry : plan.time) {
    if (entry.function.starts_with("attention")) {
      work += entry.flops;
    }
  }
  return seconds ? std::optional(work.value() / *seconds) : std::nullopt;
}

std::optional<double> model_flops(const PlanLedgers& plan, const Selection&) {
  return plan.result.numbers->flops.model.value();
}

std::optional<double> executed_flops(const PlanLedgers& plan, const Selection&) {
  return plan.result.numbers->flops.executed.value();
}

std::optional<double> mfu(const PlanLedgers& plan, const Selection&) {
  const auto& step = plan.result.numbers->step;
  return step ? std::optional(step->mfu) : std::nullopt;
}

std::optional<double> tokens_per_second(const PlanLedgers& plan, const Selection&) {
  const auto& step = plan.result.numbers->step;
  return step ? std::optional(step->tokens_per_second_per_gpu) : std::nullopt;
}

/// Of a rank of the first stage: what rank 0 reports.
std::optional<double> reserved_on_rank_0(const config::StudySpec& study,
                                         const config::PlanSpec& spec) {
  const plan::Resolution resolution = plan::resolve(study, spec);
  if (!resolution.feasibility.legal()) {
    return std::nullopt;
  }
  const program::Program program = plan::lower_stage(resolution.plan, 0);
  const ledger::MemoryLedger memory = engine::read_memory(program);
  return static_cast<double>(study::device_memory(program, memory, study, spec).reserved.value());
}

// What memory_verdict is as a number.
constexpr double kRefused = 0;  // by a rule: it does not start
constexpr double kFits = 1;
constexpr double kTight = 2;
constexpr double kDoesNotFit = 3;

std::optional<double> memory_verdict(const config::StudySpec& study, const config::PlanSpec& plan) {
  const std::optional<study::PlanMemory> memory = study::plan_memory(study, plan);
  if (!memory) {
    return kRefused;
  }
  switch (memory->verdict) {
    case ledger::Verdict::fits:
      return kFits;
    case ledger::Verdict::tight:
      return kTight;
    case ledger::Verdict::does_not_fit:
      return kDoesNotFit;
    case ledger::Verdict::illegal:
      break;
  }
  return kRefused;
}

using Runs = std::span<const ledger::ValidationRow* const>;
using RunList = std::vector<const ledger::ValidationRow*>;

/// Those that time a step.
RunList timed(Runs runs) {
  RunList found;
  for (const ledger::ValidationRow* run : runs) {
    if (run->slower_than_predicted) {
      found.push_back(run);
    }
  }
  return found;
}

/// Those that state a verdict, of `outcome`; refused ones are left out.
RunList judged_to_fit(Runs runs, double outcome) {
  RunList found;
  for (const ledger::ValidationRow* run : runs) {
    if (run->stated.quantity == "memory_verdict" && run->stated.expected.value == outcome &&
        run->predicted && *run->predicted != kRefused) {
      found.push_back(run);
    }
  }
  return found;
}

std::optional<double> share_at_least(const RunList& runs, double verdict) {
  double called = 0;
  for (const ledger::ValidationRow* run : runs) {
    called += *run->predicted >= verdict ? 1 : 0;
  }
  return runs.empty() ? std::nullopt : std::optional(called / static_cast<double>(runs.size()));
}

std::optional<double> failures_foreseen(Runs runs) {
  return share_at_least(judged_to_fit(runs, kDoesNotFit), kTight);
}

std::optional<double> false_alarms(Runs runs) {
  return share_at_least(judged_to_fit(runs, kFits), kDoesNotFit);
}

/// Failed runs that a rule of the framework refuses, of all that failed.
std::optional<double> failures_refused(Runs runs) {
  double failed = 0;
  double refused = 0;
  for (const ledger::ValidationRow* run : runs) {
    if (run->stated.quantity == "memory_verdict" && run->stated.expected.value == kDoesNotFit &&
        run->predicted) {
      ++failed;
      refused += *run->predicted == kRefused ? 1 : 0;
    }
  }
  return failed == 0 ? std::nullopt : std::optional(refused / failed);
}

/// Runs that worked and that a rule of the framework refuses, of all that worked.
std::optional<double> successes_refused(Runs runs) {
  double worked = 0;
  double refused = 0;
  for (const ledger::ValidationRow* run : runs) {
    if (run->stated.quantity == "memory_verdict" && run->stated.expected.value == kFits &&
        run->predicted) {
      ++worked;
      refused += *run->predicted == kRefused ? 1 : 0;
    }
  }
  return worked == 0 ? std::nullopt : std::optional(refused / worked);
}

double size_of_error(const ledger::ValidationRow& row) {
  return std::abs(1 / *row.slower_than_predicted - 1);
}

/// The lower of the two middle ones.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<double> median_memory_error(Runs runs) {
  std::vector<double> errors;
  for (const ledger::ValidationRow* run : runs) {
    if (run->stated.topic == Topic::peak_memory && run->stated.dimension == Dimension::bytes &&
        run->predicted) {
      errors.push_back(std::abs(run->error));
    }
  }
  return errors.empty() ? std::nullopt : std::optional(median(std::move(errors)));
}

std::optional<double> mean_error(Runs all) {
  const RunList runs = timed(all);
  double sum = 0;
  for (const ledger::ValidationRow* run : runs) {
    sum += size_of_error(*run);
  }
  return runs.empty() ? std::nullopt : std::optional(sum / static_cast<double>(runs.size()));
}

std::optional<double> median_error(Runs runs) {
  std::vector<double> errors;
  for (const ledger::ValidationRow* run : timed(runs)) {
    errors.push_back(size_of_error(*run));
  }
  return errors.empty() ? std::nullopt : std::optional(median(std::move(errors)));
}

/// Measured and predicted seconds of a run, up to a factor that its group shares.
struct TimedRun {
  double measured = 0;
  double predicted = 0;
};

std::map<std::string, std::vector<TimedRun>> groups_of(Runs runs) {
  std::map<std::string, std::vector<TimedRun>> groups;
  for (const ledger::ValidationRow* run : timed(runs)) {
    const ledger::StatedFact& stated = run->stated;
    if (stated.group.empty()) {
      continue;
    }
    const bool seconds = stated.dimension == Dimension::seconds;
    const double measured = seconds ? stated.expected.value : 1 / stated.expected.value;
    groups[stated.group].push_back({measured, measured / *run->slower_than_predicted});
  }
  return groups;
}

/// Pairs in the measured order, of all that were measured to differ.
std::optional<double> ordered_pairs(Runs runs) {
  double pairs = 0;
  double right = 0;
  for (const auto& [name, group] : groups_of(runs)) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        if (group[i].measured != group[j].measured) {
          ++pairs;
          right +=
              (group[i].measured < group[j].measured) == (group[i].predicted < group[j].predicted)
                  ? 1
                  : 0;
        }
      }
    }
  }
  return pairs == 0 ? std::nullopt : std::optional(right / pairs);
}

/// How much longer the run that is predicted to be the fastest takes than the fastest one: the
/// median over the groups.
std::optional<double> pick_regret(Runs runs) {
  std::vector<double> regrets;
  for (const auto& [name, group] : groups_of(runs)) {
    if (group.size() < 2) {
      continue;
    }
    const auto picked =
        std::min_element(group.begin(), group.end(), [](const auto& a, const auto& b) {
          return a.predicted < b.predicted;
        });
    const auto best =
        std::min_element(group.begin(), group.end(), [](const auto& a, const auto& b) {
          return a.measured < b.measured;
        });
    regrets.push_back(picked->measured / best->measured - 1);
  }
  return regrets.empty() ? std::nullopt : std::optional(median(std::move(regrets)));
}

constexpr Quantity set_quantity(std::string_view name,
                                std::string_view description,
                                std::optional<double> (*of_set)(Runs)) {
  return {name, description, Dimension::number, Topic::set_of_runs, nullptr, false, false, of_set};
}

constexpr Quantity memory_quantity(std::string_view name,
                                   std::string_view description,
                                   Dimension dimension,
                                   std::optional<double> (*of_memory)(const config::StudySpec&,
                                                                      const config::PlanSpec&)) {
  return {
      name, description, dimension, Topic::peak_memory, nullptr, false, false, nullptr, of_memory};
}

constexpr std::array kQuantities = {
    Quantity{"sent_bytes",
             "bytes that the rank which sends most sends in a step",
             Dimension::bytes,
             Topic::bytes_sent,
             sent_bytes,
             true,
             false},
    Quantity{"peak_memory",
             "bytes allocated on a rank at the worst instant of a step",
             Dimension::bytes,
             Topic::peak_memory,
             peak_memory,
             false,
             true},
    Quantity{"reserved_memory",
             "bytes that the allocator reserves on a rank",
             Dimension::bytes,
             Topic::peak_memory,
             reserved_memory,
             false,
             false},
    memory_quantity("reserved_on_rank_0",
                    "bytes that the allocator reserves on a rank of the first stage",
                    Dimension::bytes,
                    reserved_on_rank_0),
    memory_quantity("memory_verdict",
                    "3 does not fit, 2 tight, 1 fits, 0 refused by a rule",
                    Dimension::number,
                    memory_verdict),
    Quantity{"least_device_share",
             "what a rank's tensors and what lies outside the allocator take of the GPU",
             Dimension::number,
             Topic::memory_walls,
             least_device_share,
             false,
             false},
    Quantity{"most_device_share",
             "the upper end of what a rank reserves, and what lies outside it, of the GPU",
             Dimension::number,
             Topic::memory_walls,
             most_device_share,
             false,
             false},
    Quantity{"host_share",
             "what the ranks of a node hold on the host, of its memory",
             Dimension::number,
             Topic::memory_walls,
             host_share,
             false,
             false},
    Quantity{"model_flops",
             "operations that the model requires over all ranks in a step",
             Dimension::number,
             Topic::operations,
             model_flops,
             false,
             false},
    Quantity{"executed_flops",
             "operations that a rank's kernels execute in a step",
             Dimension::number,
             Topic::operations,
             executed_flops,
             false,
             false},
    Quantity{"step_time",
             "seconds of a step",
             Dimension::seconds,
             Topic::step_time,
             step_time,
             false,
             false},
    Quantity{"attention_time",
             "seconds of a step in which a rank's attention kernels run",
             Dimension::seconds,
             Topic::step_time,
             attention_time,
             false,
             false},
    Quantity{"attention_rate",
             "operations that the attention kernels execute, over their seconds",
             Dimension::flops_per_second,
             Topic::step_time,
             attention_rate,
             false,
             false},
    Quantity{"mfu",
             "model FLOPs utilisation, causal attention counted as half",
             Dimension::number,
             Topic::step_time,
             mfu,
             false,
             false},
    Quantity{"tokens_per_second_per_gpu",
             "tokens of a step over its seconds and GPUs",
             Dimension::number,
             Topic::step_time,
             tokens_per_second,
             false,
             false},
    Quantity{"crossover",
             "sequence length at which the order of two plans' step times changes",
             Dimension::tokens,
             Topic::step_time,
             nullptr,
             false,
             false},
    set_quantity("mean_error", "mean size of the errors of the file's step times", mean_error),
    set_quantity(
        "median_error", "median size of the errors of the file's step times", median_error),
    set_quantity("median_memory_error",
                 "median size of the errors of the file's bytes of memory",
                 median_memory_error),
    set_quantity("failures_foreseen",
                 "part of the failed runs that no rule refuses which is called tight or too large",
                 failures_foreseen),
    set_quantity("failures_refused",
                 "part of the failed runs that a rule of their framework refuses",
                 failures_refused),
    set_quantity(
        "false_alarms", "part of the runs that worked which is called too large", false_alarms),
    set_quantity("successes_refused",
                 "part of the runs that worked which a rule of their framework refuses",
                 successes_refused),
    set_quantity("ordered_pairs",
                 "part of the pairs of a group whose steps are predicted in the measured order",
                 ordered_pairs),
    set_quantity("pick_regret",
                 "how much longer the step of the best pick of a group is than the shortest",
                 pick_regret),
};

}  // namespace

PlanLedgers read_ledgers(const config::StudySpec& study, const config::PlanSpec& plan) {
  PlanLedgers ledgers;
  ledgers.result = study::evaluate(study, plan);
  if (!ledgers.result.numbers) {
    return ledgers;
  }
  const engine::Machine machine = study::machine_of(study.cluster, plan.framework);
  const std::vector<program::Program> stages = plan::lower_stages(plan::resolve(study, plan).plan);
  const study::StageNumbers numbers = study::read_stages(stages, machine.gpus_per_node);
  const program::Program& program = stages[numbers.sender];
  ledgers.bytes = engine::byte_entries(program, machine.gpus_per_node, numbers.rank);
  ledgers.time = engine::time_entries(program, machine);
  return ledgers;
}

std::span<const Quantity> quantity_table() {
  return kQuantities;
}

}  // namespace trireme::validation
