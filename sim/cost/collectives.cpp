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

constexpr std::array<CollectiveInfo, 5> kCollectives = {{
    {"all_to_all",
     "each rank sends a chunk of its own to every other",
     "jacobs2023-ulysses",
     "all-to-all-bytes",
     "N (n - 1) / n^2",
     "M - chunk(M, n, r) with M = chunk(N, n, r)",
     all_to_all_bytes,
     least_of_all_to_all,
     time_of_all_to_all},
    {"all_gather",
     "every rank ends with the chunks of all",
     "thakur2005",
     "ring-all-gather-bytes",
     "N (n - 1) / n",
     "N - chunk(N, n, r + 1)",
     all_gather_bytes,
     least_of_gather,
     time_of_all_gather},
    {"reduce_scatter",
     "each rank ends with the sum of one chunk",
     "thakur2005",
     "ring-reduce-scatter-bytes",
     "N (n - 1) / n",
     "N - chunk(N, n, r)",
     reduce_scatter_bytes,
     least_of_gather,
     time_of_reduce_scatter},
    {"all_reduce",
     "every rank ends with the sum of the whole",
     "thakur2005",
     "ring-all-reduce-bytes",
     "2 N (n - 1) / n",
     "2 N - chunk(N, n, r) - chunk(N, n, r + 1)",
     all_reduce_bytes,
     least_of_all_reduce,
     time_of_all_reduce},
    {"send_recv",
     "each rank sends a block to another and receives one: a hop of a ring",
     "liu2023-ring-attention",
     "ring-hop-bytes",
     "N",
     "N",
     hop_to_neighbour,
     least_of_hop,
     time_of_hop},
}};

}  // namespace

std::span<const CollectiveInfo> collective_table() {
  return kCollectives;
}

}  // namespace trireme::cost
