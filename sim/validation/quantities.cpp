#include "sim/validation/quantities.h"

#include <algorithm>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
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
};

}  // namespace

PlanLedgers read_ledgers(const config::StudySpec& study, const config::PlanSpec& plan) {
  PlanLedgers ledgers;
  ledgers.result = study::evaluate(study, plan);
  if (!ledgers.result.numbers) {
    return ledgers;
  }
  const engine::Machine machine = study::machine_of(study.cluster);
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
