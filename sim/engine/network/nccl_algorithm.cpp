#include "sim/engine/network/nccl_algorithm.h"

#include <algorithm>

namespace trireme::engine {

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

}  // namespace

cost::NcclCommunicator nccl_communicator(cost::Group group, const TopologyShape& shape) {
  cost::NcclCommunicator communicator;
  communicator.ranks = group.ranks;
  communicator.nodes = group.ranks / group.ranks_per_node;
  communicator.nvswitch = shape.inside == NodeLinks::nvswitch;
  communicator.pcie = shape.link_per_gpu;
  communicator.nics_per_node = std::min(group.ranks_per_node, shape.nics_per_node);
  communicator.nic = shape.nic;
  return communicator;
}

std::optional<cost::NcclChoice> nccl_choice_of(CollectiveKind kind,
                                               Bytes payload,
                                               cost::Group group,
                                               const TopologyShape& shape,
                                               const cost::NcclTuning& tuning) {
  const auto collective = collective_of(kind);
  if (!collective || group.ranks == 1) {
    return std::nullopt;
  }
  return cost::nccl_choice(*collective, payload, nccl_communicator(group, shape), tuning);
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

const Algorithm& sending_algorithm(CollectiveKind kind,
                                   Bytes payload,
                                   cost::Group group,
                                   bool in_switches,
                                   const TopologyShape& shape,
                                   const std::optional<cost::NcclTuning>& tuning) {
  const auto choice = tuning ? nccl_choice_of(kind, payload, group, shape, *tuning) : std::nullopt;
  const std::string_view chosen = choice ? expansion_of(choice->algorithm) : std::string_view();
  for (const Algorithm& algorithm : algorithm_table()) {
    if (algorithm.collective == name(kind) && algorithm.name == chosen) {
      return algorithm;
    }
  }
  return usual_algorithm(kind, in_switches);
}

}  // namespace trireme::engine
