#include "sim/study/stages.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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
  Bytes highest(-1);
  for (std::size_t i = 0; stages.size() > 1 && i < stages.size(); ++i) {
    const Bytes peak = engine::read_peak(stages[i]).allocated;
    if (peak > highest) {
      highest = peak;
      fullest.stage = i;
    }
  }
  fullest.memory = engine::read_memory(stages[fullest.stage]);
  if (stages.size() > 1) {
    fullest.memory.instant = fmt::format("stage {}, {}", fullest.stage, fullest.memory.instant);
  }
  return fullest;
}

StageNumbers read_stages(std::span<const Program> stages, std::int64_t gpus_per_node) {
  StageNumbers numbers;
  Bytes most(-1);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Program& stage = stages[i];
    const std::int64_t rank =
        stage.mesh().in_stage(engine::largest_sender(stage, gpus_per_node), stage.stage());
    const ledger::ByteLedger bytes = engine::read_bytes(stage, gpus_per_node, rank);
    if (bytes.sent > most) {
      most = bytes.sent;
      numbers.bytes = bytes;
      numbers.sender = i;
      numbers.rank = rank;
    }
    const ledger::FlopLedger flops = engine::read_flops(stage);
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

std::vector<std::string> faster_than_links(std::span<const Program> stages,
                                           const engine::Machine& machine) {
  std::vector<std::string> all;
  for (const Program& stage : stages) {
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
