#include "sim/study/memory_over_step.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/memory_over_step.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/device_memory.h"
#include "sim/study/host_memory.h"
#include "sim/study/stages.h"

namespace trireme::study {

ledger::MemoryOverStep memory_over_step(const config::StudySpec& study,
                                        const config::PlanSpec& plan) {
  ledger::MemoryOverStep found;
  found.study = study.name;
  found.plan = plan.name;
  found.capacity = study.cluster.gpu.memory_visible;
  const plan::Resolution resolution = plan::resolve(study, plan);
  for (const Refusal& refusal : resolution.feasibility.refusals) {
    found.refusals.push_back(fmt::format("{}: {}", refusal.rule, refusal.message));
  }
  if (!resolution.feasibility.legal()) {
    return found;
  }
  const std::vector<program::Program> stages = plan::lower_stages(resolution.plan);
  FullestStage fullest = fullest_stage(stages);
  const program::Program& program = stages[fullest.stage];
  found.peak = std::move(fullest.memory);
  found.device = device_memory(program, found.peak, study, plan);
  found.host = host_memory(stages, study.cluster);
  found.verdict =
      with_host(memory_verdict(found.peak.allocated, found.device, found.capacity), found.host);
  found.instants = engine::memory_over_step(program);
  found.at_peak = engine::memory_entries(program);
  return found;
}

}  // namespace trireme::study
