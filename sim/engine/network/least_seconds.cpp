#include "sim/engine/network/least_seconds.h"

#include <algorithm>

namespace trireme::engine {

namespace {

/// V of the equation: bytes that must cross the border of a set of `inside` of `ranks` ranks.
double crossing(CollectiveKind kind, double payload, double inside, double ranks) {
  const double outside = ranks - inside;
  switch (kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return payload * std::max(inside, outside) / ranks;
    case CollectiveKind::all_reduce:
    case CollectiveKind::send_recv:
      return payload;
    case CollectiveKind::all_to_all:
      return payload * inside * outside / (ranks * ranks);
  }
  return 0;
}

/// Ranks of the group of rank 0 that are below `limit`, over the axes up to the one at `place`.
std::int64_t members_below(const program::Mesh& mesh,
                           program::AxisMask group,
                           int place,
                           std::int64_t limit) {
  if (place < 0 || limit <= 0) {
    return limit > 0 ? 1 : 0;
  }
  std::int64_t inner = 1;  // members of one step along the axis
  std::int64_t stride = 1;
  for (int i = 0; i < place; ++i) {
    const int inner_axis = mesh.axis_at(i);
    inner *= (group & program::axis_bit(inner_axis)) != 0 ? mesh.size(inner_axis) : 1;
    stride *= mesh.size(inner_axis);
  }
  const int axis = mesh.axis_at(place);
  const bool varies = (group & program::axis_bit(axis)) != 0;
  const std::int64_t steps = varies ? mesh.size(axis) : 1;
  const std::int64_t whole = std::min(steps, limit / stride);
  const std::int64_t rest =
      whole < steps ? members_below(mesh, group, place - 1, limit - whole * stride) : 0;
  return whole * inner + rest;
}

}  // namespace

SharedLinks shared_links(const program::Mesh& mesh,
                         program::AxisMask group,
                         const TopologyShape& shape) {
  const auto within = [&](std::int64_t gpus) {
    return members_below(mesh, group, mesh.axes() - 1, gpus);
  };
  SharedLinks shared;
  shared.ranks = mesh.group_size(group);
  shared.per_nic = within(shape.gpus_per_nic());
  shared.per_node = within(shape.gpus_per_node);
  shared.per_pod = within(shape.gpus_per_node * shape.nodes_per_leaf);
  return shared;
}

LeastTime least_seconds(CollectiveKind kind,
                        Bytes payload,
                        const SharedLinks& shared,
                        const TopologyShape& shape) {
  LeastTime least;
  if (shared.ranks == 1) {
    return least;
  }
  const auto ranks = static_cast<double>(shared.ranks);
  const auto consider = [&](std::int64_t inside, double capacity, std::string_view where) {
    const double bytes =
        crossing(kind, static_cast<double>(payload.value()), static_cast<double>(inside), ranks);
    const Seconds seconds(bytes / capacity);
    if (seconds > least.seconds) {
      least = {seconds, where, bytes, BytesPerSecond(capacity)};
    }
  };

  const bool spans_nodes = shared.ranks > shared.per_node;
  const bool only_pcie = shape.inside == NodeLinks::pcie;
  double inside = shared.per_node > 1 || only_pcie ? shape.link_per_gpu.value() : 0;
  if (shape.inside == NodeLinks::nvlink_mesh && shared.per_node > 1) {
    inside *=
        static_cast<double>(shared.per_node - 1) / static_cast<double>(shape.gpus_per_node - 1);
  }
  const double nic = spans_nodes ? shape.nic.value() : 0;
  const double of_rank = !only_pcie ? inside + nic : inside;  // over PCIe the NIC's share as well
  consider(1, of_rank, only_pcie ? "a GPU's PCIe" : inside > 0 ? "a GPU's NVLink" : "a GPU's NIC");
  if (!spans_nodes) {
    return least;
  }

  const std::int64_t nics = ceil_div(shared.per_node, shared.per_nic);
  consider(shared.per_node, static_cast<double>(nics) * nic, "the NICs of a node");

  const bool spans_pods = shared.ranks > shared.per_pod;
  if (shape.fabric != Fabric::flat && spans_pods) {
    const std::int64_t used = shape.fabric == Fabric::rail_optimised ? nics : shape.nics_per_node;
    consider(shared.per_pod,
             static_cast<double>(used * shape.nodes_per_leaf) * nic / shape.oversubscription,
             "the spine above a leaf switch");
  }
  return least;
}

}  // namespace trireme::engine
