#include "sim/study/device_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/cost/device_memory.h"
#include "sim/engine/communicators.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/host_memory.h"
#include "sim/study/stages.h"

namespace trireme::study {

using ledger::DeviceMemory;
using ledger::OutsideItem;
using ledger::Verdict;

DeviceMemory device_memory(const program::Program& program,
                           const ledger::MemoryLedger& memory,
                           const config::StudySpec& study,
                           const config::PlanSpec& plan) {
  const config::MemorySpec& table = study.memory;
  const cost::ReserveShare& reserve =
      config::reserve_row(table, plan.framework, plan.allocator).share;
  const auto reserved = [&](double share) {
    return cost::reserved_memory(memory.allocated, memory.resident, reserve.base, share);
  };
  DeviceMemory device;
  device.reserved = reserved(reserve.share);
  device.reserved_low = reserved(reserve.low);
  device.reserved_high = reserved(reserve.high);
  const auto item = [&](OutsideItem which) -> Bytes& {
    return device.outside[ledger::index(which)];
  };
  item(OutsideItem::cuda_context) = table.cuda_context;
  if (plan.transformer_impl != config::TransformerImpl::transformer_engine) {
    item(OutsideItem::library_workspaces) = table.library_workspaces;  // else in the program
  }
  for (const engine::Communicator& communicator :
       engine::communicators(program, study.cluster.gpus_per_node)) {
    const cost::Group& group = communicator.placed;
    if (communicator.rings) {
      item(OutsideItem::nccl_rings) += cost::nccl_ring_buffers(group.ranks, table.nccl);
    }
    if (communicator.all_peers || communicator.neighbours) {
      constexpr std::int64_t kNextAndPrevious = 2;
      const std::int64_t peers = communicator.all_peers
                                     ? group.ranks_per_node
                                     : std::min(group.ranks_per_node, kNextAndPrevious);
      const std::int64_t ranks = group.ranks > group.ranks_per_node ? group.ranks : peers;
      item(OutsideItem::nccl_peers) += cost::nccl_peer_buffers(ranks, peers, table.nccl);
    }
  }
  return device;
}

Verdict memory_verdict(Bytes allocated, const DeviceMemory& device, Bytes capacity) {
  if (device.total_high() <= capacity) {
    return Verdict::fits;
  }
  return allocated + device.outside_allocator() > capacity ? Verdict::does_not_fit : Verdict::tight;
}

std::optional<PlanMemory> plan_memory(const config::StudySpec& study,
                                      const config::PlanSpec& plan) {
  const plan::Resolution resolution = plan::resolve(study, plan);
  if (!resolution.feasibility.legal()) {
    return std::nullopt;
  }
  const std::vector<program::Program> stages = plan::lower_stages(resolution.plan);
  FullestStage fullest = fullest_stage(stages);
  PlanMemory found;
  found.memory = std::move(fullest.memory);
  found.device = device_memory(stages[fullest.stage], found.memory, study, plan);
  found.host = host_memory(stages, study.cluster);
  found.verdict = with_host(
      memory_verdict(found.memory.allocated, found.device, study.cluster.gpu.memory_visible),
      found.host);
  return found;
}

}  // namespace trireme::study
