#include "sim/study/memory_over_step.h"

#include <fmt/format.h>

#include "sim/engine/memory_over_step.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/device_memory.h"

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
  const program::Program program = plan::lower(resolution.plan);
  found.peak = engine::read_memory(program);
  found.device = device_memory(program, found.peak, study, plan);
  found.verdict = memory_verdict(found.peak.allocated, found.device, found.capacity);
  found.instants = engine::memory_over_step(program);
  found.at_peak = engine::memory_entries(program);
  return found;
}

}  // namespace trireme::study
