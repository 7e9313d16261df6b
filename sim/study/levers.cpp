#include "sim/study/levers.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "sim/config/words.h"

namespace trireme::study {

using config::LossKind;
using config::PlanSpec;
using config::Recompute;
using config::StudySpec;

namespace {

std::string growing_segments(PlanSpec& plan, StudySpec& /*study*/) {
  if (plan.allocator != config::Allocator::native) {
    return {};
  }
  plan.allocator = config::Allocator::expandable_segments;
  return "allocator: expandable_segments";
}

template <LossKind kKind>
std::string loss(PlanSpec& plan, StudySpec& study) {
  if (study.model.vocabulary.value == 0 || plan.loss == kKind) {
    return {};
  }
  plan.loss = kKind;
  return fmt::format("loss: {}", config::word_for(config::kLossWords, kKind));
}

template <Recompute kHow>
std::string recompute(PlanSpec& plan, StudySpec& /*study*/) {
  if (plan.recompute.granularity >= kHow) {
    return {};
  }
  plan.recompute = {};
  plan.recompute.granularity = kHow;
  plan.recompute.modules.core_attention = kHow == Recompute::selective;
  return fmt::format("recompute: {}", config::word_for(config::kRecomputeWords, kHow));
}

std::string offload(PlanSpec& plan, StudySpec& /*study*/) {
  if (plan.recompute.offload_to_host) {
    return {};
  }
  plan.recompute = {};
  plan.recompute.granularity = Recompute::full;
  plan.recompute.offload_to_host = true;
  return "recompute: {offload: host}";
}

std::string offload_optimizer(PlanSpec& plan, StudySpec& /*study*/) {
  if (plan.offload.optimizer) {
    return {};
  }
  plan.offload.optimizer = true;
  return "offload.optimizer: true";
}

std::string offload_parameters(PlanSpec& plan, StudySpec& /*study*/) {
  if (plan.zero.stage.value != 3 || !plan.offload.optimizer || plan.offload.parameters) {
    return {};
  }
  plan.offload.parameters = true;
  return "offload.parameters: true";
}

/// Half of it, twice as often: without a global batch the step would be another one.
std::string smaller_micro_batch(PlanSpec& /*plan*/, StudySpec& study) {
  std::int64_t& sequences = study.workload.micro_batch.value;
  if (sequences % 2 != 0 || !study.workload.global_batch) {
    return {};
  }
  sequences /= 2;
  return fmt::format("micro_batch: {}", sequences);
}

std::string next_zero_stage(PlanSpec& plan, StudySpec& /*study*/) {
  if (plan.zero.stage.value == 3) {
    return {};
  }
  ++plan.zero.stage.value;
  return fmt::format("zero.stage: {}", plan.zero.stage.value);
}

std::string reshard(PlanSpec& plan, StudySpec& /*study*/) {
  if (plan.zero.stage.value != 3 || plan.zero.reshard != config::Reshard::keep) {
    return {};
  }
  plan.zero.reshard = config::Reshard::after_forward;
  return "zero.reshard_after_forward: true";
}

/// Twice the degree of what splits sequences or features, by ranks that held other data. Where the
/// plan states no degree of data parallelism, legality says whether enough are left.
std::string twice_the_degree(PlanSpec& plan, StudySpec& /*study*/) {
  struct Degree {
    std::string_view key;
    std::int64_t* value;
  };

  const std::array degrees = {Degree{"ulysses", &plan.ulysses.value},
                              Degree{"ring", &plan.ring.value},
                              Degree{"sequence_gather", &plan.sequence_gather.value},
                              Degree{"tensor_parallel", &plan.tensor_parallel.value}};
  const auto split = std::find_if(
      degrees.begin(), degrees.end(), [](const Degree& degree) { return *degree.value > 1; });
  if (split == degrees.end()) {
    return {};
  }
  if (plan.data_parallel) {
    if (plan.data_parallel->value % 2 != 0) {
      return {};
    }
    plan.data_parallel->value /= 2;
  }
  const std::int64_t before = *split->value;
  *split->value *= 2;
  if (plan.mlp_tensor_parallel.value == before) {
    plan.mlp_tensor_parallel.value *= 2;
  }
  return fmt::format("{}: {}", split->key, *split->value);
}

constexpr std::array kLevers = {
    LeverRow{"allocator", growing_segments},
    LeverRow{"loss", loss<LossKind::vocabulary_parallel>},
    LeverRow{"loss", loss<LossKind::chunked>},
    LeverRow{"loss", loss<LossKind::fused>},
    LeverRow{"micro batch", smaller_micro_batch},
    LeverRow{"zero", next_zero_stage},
    LeverRow{"reshard", reshard},
    LeverRow{"recompute", recompute<Recompute::selective>},
    LeverRow{"recompute", recompute<Recompute::full>},
    LeverRow{"offload", offload},
    LeverRow{"offload", offload_optimizer},
    LeverRow{"offload", offload_parameters},
    LeverRow{"degree", twice_the_degree},
};

}  // namespace

std::span<const LeverRow> lever_table() {
  return kLevers;
}

std::vector<ChangedPlan> levers(const StudySpec& study,
                                const PlanSpec& plan,
                                const ledger::DeviceMemory& now) {
  std::vector<ChangedPlan> found;
  StudySpec base = study;
  base.sweep.clear();
  base.plans.clear();
  for (const LeverRow& row : kLevers) {
    ChangedPlan changed{{}, base, plan};
    changed.lever.change = row.apply(changed.plan, changed.study);
    if (changed.lever.change.empty()) {
      continue;
    }
    const std::optional<PlanMemory> memory = plan_memory(changed.study, changed.plan);
    if (!memory || memory->device.total() >= now.total()) {
      continue;
    }
    changed.lever.saves = now.total() - memory->device.total();
    changed.lever.verdict = memory->verdict;
    found.push_back(std::move(changed));
  }
  return found;
}

std::optional<ChangedPlan> next_lever(const StudySpec& study,
                                      const PlanSpec& plan,
                                      const ledger::DeviceMemory& now) {
  std::vector<ChangedPlan> all = levers(study, plan, now);
  if (all.empty()) {
    return std::nullopt;
  }
  const auto fits = std::find_if(all.begin(), all.end(), [](const ChangedPlan& changed) {
    return changed.lever.verdict == ledger::Verdict::fits;
  });
  if (fits != all.end()) {
    return std::move(*fits);
  }
  return std::move(*std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.lever.saves < b.lever.saves;
  }));
}

}  // namespace trireme::study
