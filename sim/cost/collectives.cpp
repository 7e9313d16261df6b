#include "sim/cost/collectives.h"

#include <array>

namespace trireme::cost {

namespace {

using MaybeSeconds = std::optional<Seconds>;

CollectiveBytes hop_to_neighbour(Elements block,
                                 ElementType type,
                                 Group group,
                                 std::int64_t position) {
  return ring_hop_bytes(block, type, group, position, 1);
}

Bytes least_of_gather(Bytes payload, Group group) {
  return Bytes(payload.value() / group.ranks * (group.ranks - 1));
}

/// Switches may add the values: then a rank still sends all of its own.
Bytes least_of_all_reduce(Bytes payload, Group group) {
  return group.ranks == 1 ? Bytes(0) : payload;
}

Bytes least_of_hop(Bytes block, Group group) {
  return group.ranks == 1 ? Bytes(0) : block;
}

Bytes least_of_all_to_all(Bytes payload, Group group) {
  return Bytes(payload.value() / (group.ranks * group.ranks) * (group.ranks - 1));
}

MaybeSeconds time_of_all_gather(
    Bytes payload, ElementType, Group group, BytesPerSecond nic_rate, const MachineCosts& machine) {
  return all_gather_time(payload, group, nic_rate, machine);
}

MaybeSeconds time_of_reduce_scatter(
    Bytes payload, ElementType, Group group, BytesPerSecond nic_rate, const MachineCosts& machine) {
  return reduce_scatter_time(payload, group, nic_rate, machine);
}

MaybeSeconds time_of_all_reduce(Bytes payload,
                                ElementType type,
                                Group group,
                                BytesPerSecond nic_rate,
                                const MachineCosts& machine) {
  return all_reduce_time(payload, type, group, nic_rate, machine);
}

MaybeSeconds time_of_all_to_all(
    Bytes payload, ElementType, Group group, BytesPerSecond nic_rate, const MachineCosts& machine) {
  const Bytes held(ceil_div(payload.value(), group.ranks));
  return all_to_all_time(held, group, nic_rate, machine);
}

MaybeSeconds time_of_hop(
    Bytes block, ElementType, Group group, BytesPerSecond nic_rate, const MachineCosts& machine) {
  return ring_hop_time(block, group, nic_rate, machine);
}

bool over_nodes(Group group) {
  return group.ranks > group.ranks_per_node;
}

template <class Costs>
std::optional<BytesPerSecond> link_rate(const std::optional<Costs>& costs) {
  return costs ? std::optional(costs->link_rate) : std::nullopt;
}

template <class Costs>
std::optional<BytesPerSecond> part_of_nic(const std::optional<Costs>& costs,
                                          BytesPerSecond nic_rate) {
  return costs ? std::optional(costs->nic_efficiency * nic_rate) : std::nullopt;
}

/// Of a ring over nodes, or of form C1 inside one.
LinkRates ring_rates(Group group,
                     BytesPerSecond nic_rate,
                     const std::optional<NodeCollectiveCosts>& inside,
                     const MachineCosts& machine) {
  if (!over_nodes(group)) {
    return {link_rate(inside), std::nullopt};
  }
  const std::optional<MultiNodeRingCosts>& ring = machine.multi_node.ring;
  return {ring ? std::optional(ring->nvlink_rate) : std::nullopt, part_of_nic(ring, nic_rate)};
}

LinkRates rates_of_all_gather(ElementType,
                              Group group,
                              BytesPerSecond nic_rate,
                              const MachineCosts& machine) {
  return ring_rates(group, nic_rate, machine.collectives.all_gather, machine);
}

LinkRates rates_of_reduce_scatter(ElementType,
                                  Group group,
                                  BytesPerSecond nic_rate,
                                  const MachineCosts& machine) {
  return ring_rates(group, nic_rate, machine.collectives.reduce_scatter, machine);
}

/// In the switches a rank sends the whole buffer and, once more, the sum of its own part.
LinkRates rates_of_all_reduce(ElementType type,
                              Group group,
                              BytesPerSecond nic_rate,
                              const MachineCosts& machine) {
  if (reduces_in_switches(type, group, machine)) {
    const double sent = 1 + 1 / static_cast<double>(group.ranks);
    return {sent * machine.collectives.all_reduce_nvls->rate, std::nullopt};
  }
  return ring_rates(group, nic_rate, machine.collectives.all_reduce, machine);
}

LinkRates rates_of_all_to_all(ElementType,
                              Group group,
                              BytesPerSecond nic_rate,
                              const MachineCosts& machine) {
  return {link_rate(machine.collectives.all_to_all),
          over_nodes(group) ? part_of_nic(machine.multi_node.all_to_all, nic_rate) : std::nullopt};
}

LinkRates rates_of_hop(ElementType,
                       Group group,
                       BytesPerSecond nic_rate,
                       const MachineCosts& machine) {
  return {link_rate(machine.collectives.send_recv),
          over_nodes(group) ? part_of_nic(machine.multi_node.send_recv, nic_rate) : std::nullopt};
}

constexpr std::array<CollectiveInfo, 5> kCollectives = {{
    {"all_to_all",
     "each rank sends a chunk of its own to every other",
     "jacobs2023-ulysses",
     "all-to-all-bytes",
     "N (n - 1) / n^2",
     "M - chunk(M, n, r) with M = chunk(N, n, r)",
     all_to_all_bytes,
     least_of_all_to_all,
     time_of_all_to_all,
     rates_of_all_to_all},
    {"all_gather",
     "every rank ends with the chunks of all",
     "thakur2005",
     "ring-all-gather-bytes",
     "N (n - 1) / n",
     "N - chunk(N, n, r + 1)",
     all_gather_bytes,
     least_of_gather,
     time_of_all_gather,
     rates_of_all_gather},
    {"reduce_scatter",
     "each rank ends with the sum of one chunk",
     "thakur2005",
     "ring-reduce-scatter-bytes",
     "N (n - 1) / n",
     "N - chunk(N, n, r)",
     reduce_scatter_bytes,
     least_of_gather,
     time_of_reduce_scatter,
     rates_of_reduce_scatter},
    {"all_reduce",
     "every rank ends with the sum of the whole",
     "thakur2005",
     "ring-all-reduce-bytes",
     "2 N (n - 1) / n",
     "2 N - chunk(N, n, r) - chunk(N, n, r + 1)",
     all_reduce_bytes,
     least_of_all_reduce,
     time_of_all_reduce,
     rates_of_all_reduce},
    {"send_recv",
     "each rank sends a block to another and receives one: a hop of a ring",
     "liu2023-ring-attention",
     "ring-hop-bytes",
     "N",
     "N",
     hop_to_neighbour,
     least_of_hop,
     time_of_hop,
     rates_of_hop},
}};

}  // namespace

std::span<const CollectiveInfo> collective_table() {
  return kCollectives;
}

}  // namespace trireme::cost
