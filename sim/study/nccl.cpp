#include "sim/study/nccl.h"

#include <algorithm>

#include "sim/config/nccl_tuning.h"

namespace trireme::study {

namespace {

std::optional<cost::NcclCollective> collective_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return cost::NcclCollective::all_gather;
    case CollectiveKind::reduce_scatter:
      return cost::NcclCollective::reduce_scatter;
    case CollectiveKind::all_reduce:
      return cost::NcclCollective::all_reduce;
    case CollectiveKind::all_to_all:
    case CollectiveKind::send_recv:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string_view expansion_of(cost::NcclAlgorithm algorithm) {
  switch (algorithm) {
    case cost::NcclAlgorithm::ring:
      return "rings";
    case cost::NcclAlgorithm::tree:
      return "double_binary_tree";
    case cost::NcclAlgorithm::nvls:
    case cost::NcclAlgorithm::nvls_tree:
      return "nvls";
    case cost::NcclAlgorithm::pat:
      return {};
  }
  return {};
}

}  // namespace

std::optional<NcclPick> nccl_pick(const config::ClusterSpec& cluster,
                                  CollectiveKind kind,
                                  Bytes payload,
                                  cost::Group group) {
  const auto collective = collective_of(kind);
  if (!collective || group.ranks == 1) {
    return std::nullopt;
  }
  const auto spec = config::nccl_tuning(cluster.profile.nccl, cluster.gpu.name);
  if (!spec) {
    return std::nullopt;
  }
  cost::NcclCommunicator communicator;
  communicator.ranks = group.ranks;
  communicator.nodes = group.ranks / group.ranks_per_node;
  communicator.nvswitch = cluster.intra == config::IntraLinks::nvswitch;
  communicator.pcie = cluster.pcie_per_gpu.value_or(cluster.gpu.nvlink_one_direction);
  communicator.nics_per_node = std::min(group.ranks_per_node, cluster.nics_per_node);
  const std::int64_t gpus_per_nic = cluster.gpus_per_node.value / cluster.nics_per_node;
  communicator.nic = static_cast<double>(gpus_per_nic) * cluster.nic_per_gpu;
  const cost::NcclChoice choice =
      cost::nccl_choice(*collective, payload, communicator, spec->tuning);
  return NcclPick{spec->release, spec->source, choice, expansion_of(choice.algorithm)};
}

}  // namespace trireme::study
