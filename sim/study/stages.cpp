#include "sim/study/stages.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/collective_payload.h"
#include "sim/engine/sizes.h"

namespace trireme::study {

using program::Program;

namespace {

std::string rank_class_of(const StageNumbers& numbers, std::size_t stages) {
  if (stages == 1) {
    return "the largest";
  }
  if (numbers.sender == numbers.fullest) {
    return fmt::format("stage {} of {}", numbers.sender, stages);
  }
  return fmt::format(
      "stage {} of {} sends most, stage {} is fullest", numbers.sender, stages, numbers.fullest);
}

}  // namespace

FullestStage fullest_stage(std::span<const Program> stages) {
  FullestStage fullest;
  if (stages.size() > 1) {
    const std::vector<engine::MemoryPeak> peaks = engine::read_peaks(stages);
    const auto highest =
        std::max_element(peaks.begin(), peaks.end(), [](const auto& a, const auto& b) {
          return a.allocated < b.allocated;
        });
    fullest.stage = static_cast<std::size_t>(highest - peaks.begin());
  }
  fullest.memory = engine::read_memory(stages[fullest.stage]);
  if (stages.size() > 1) {
    fullest.memory.instant = fmt::format("stage {}, {}", fullest.stage, fullest.memory.instant);
  }
  return fullest;
}

StageNumbers read_stages(std::span<const Program> stages, std::int64_t gpus_per_node) {
  StageNumbers numbers;
  const std::vector<engine::StageBytes> bytes = engine::read_bytes(stages, gpus_per_node);
  const auto most = std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) {
    return a.bytes.sent < b.bytes.sent;
  });
  numbers.bytes = most->bytes;
  numbers.rank = most->rank;
  numbers.sender = static_cast<std::size_t>(most - bytes.begin());
  for (const ledger::FlopLedger& flops : engine::read_flops(stages)) {
    numbers.flops.executed += 1.0 / static_cast<double>(stages.size()) * flops.executed;
    numbers.flops.model += flops.model;
    numbers.flops.model_full_attention += flops.model_full_attention;
  }
  FullestStage fullest = fullest_stage(stages);
  numbers.fullest = fullest.stage;
  numbers.memory = std::move(fullest.memory);
  numbers.rank_class = rank_class_of(numbers, stages.size());
  return numbers;
}

namespace {

/// Whether an earlier stage has the same segments, and its messages as far to go.
bool says_as_another(const Program& stage,
                     std::span<const Program> stages,
                     const engine::Machine& machine) {
  for (const Program* other = stages.data(); other != &stage; ++other) {
    const auto as_far = [&](const program::Op& op) {
      return !program::crosses_stages(op) ||
             engine::group_of(stage, op, machine.gpus_per_node).ranks_per_node ==
                 engine::group_of(*other, op, machine.gpus_per_node).ranks_per_node;
    };
    if (stage.shares_segments_with(*other) &&
        std::all_of(stage.ops().begin(), stage.ops().end(), as_far)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> faster_than_links(std::span<const Program> stages,
                                           const engine::Machine& machine) {
  std::vector<std::string> all;
  for (const Program& stage : stages) {
    if (says_as_another(stage, stages, machine)) {
      continue;
    }
    for (std::string& sentence : engine::faster_than_links(stage, machine)) {
      if (std::find(all.begin(), all.end(), sentence) == all.end()) {
        all.push_back(std::move(sentence));
      }
    }
  }
  return all;
}

std::string unknown_kernel(std::span<const Program> stages, const engine::Machine& machine) {
  for (const Program& stage : stages) {
    if (std::string unknown = engine::unknown_kernel(stage, machine); !unknown.empty()) {
      return unknown;
    }
  }
  return {};
}

}  // namespace trireme::study
