#include "sim/study/host_memory.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/sizes.h"
#include "sim/units/text.h"

namespace trireme::study {

namespace {

bool lies_on_host(const program::Tensor& tensor) {
  return tensor.place == program::Place::host;
}

bool uses_host(const program::Program& program) {
  return std::any_of(program.tensors().begin(), program.tensors().end(), lies_on_host);
}

}  // namespace

ledger::HostMemory host_memory(std::span<const program::Program> stages,
                               const config::ClusterSpec& cluster) {
  ledger::HostMemory host;
  host.capacity = cluster.host.memory;
  if (std::none_of(stages.begin(), stages.end(), uses_host)) {
    return host;
  }
  std::vector<Bytes> peaks;
  for (const program::Program& stage : stages) {
    peaks.push_back(engine::read_peak(stage, program::Place::host).allocated);
  }
  const auto fullest = std::max_element(peaks.begin(), peaks.end());
  host.per_rank = *fullest;
  ledger::MemoryLedger memory = engine::read_memory(
      stages[static_cast<std::size_t>(fullest - peaks.begin())], program::Place::host);
  host.by_item = memory.by_item;
  host.instant = std::move(memory.instant);
  const program::Mesh& mesh = stages.front().mesh();
  Bytes node;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (rank % cluster.gpus_per_node.value == 0) {
      node = Bytes(0);
    }
    node += peaks[static_cast<std::size_t>(mesh.stage_of(rank))];
    host.per_node = std::max(host.per_node, node);
  }
  return host;
}

ledger::Verdict with_host(ledger::Verdict device, const ledger::HostMemory& host) {
  return host.holds_it() ? device : ledger::Verdict::does_not_fit;
}

std::vector<std::string> remarks_on_host(const ledger::HostMemory& host,
                                         const config::StudySpec& study,
                                         const config::PlanSpec& plan) {
  std::vector<std::string> remarks;
  if (host.per_rank == Bytes(0)) {
    return remarks;
  }
  if (!host.capacity) {
    remarks.emplace_back("the cluster does not state a node's host memory, which is not checked");
  }
  const config::HostSpec& has = study.cluster.host;
  remarks.push_back(fmt::format(
      "copies between GPU and host at {}{}",
      to_text(has.link_per_gpu),
      plan.offload.optimizer ? fmt::format(", the optimizer on the host at {} of a node's memory",
                                           to_text(has.work_rate))
                             : ""));
  return remarks;
}

}  // namespace trireme::study
