// Seconds of each collective on a machine: picks the form by where the group's ranks sit.
//
// All functions: zero for one rank; `group` as in collective_bytes.h; `nic_rate` is the line rate
// of one GPU's NIC, one direction, and is read only when the group spans nodes.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sim/cost/collective_bytes.h"
#include "sim/cost/machine_costs.h"
#include "sim/cost/multi_node.h"
#include "sim/cost/node_collectives.h"
#include "sim/cost/send_recv.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// All-gather of a result of `gathered` bytes.
[[nodiscard]] inline Seconds all_gather_time(Bytes gathered,
                                             Group group,
                                             BytesPerSecond nic_rate,
                                             const MachineCosts& machine) {
  if (group.ranks > group.ranks_per_node) {
    const MultiNodeRingCosts& ring = machine.multi_node.ring;
    return multi_node_ring_time(
        gathered, 1, group.ranks, group.ranks_per_node, nic_rate, ring.all_gather_step, ring);
  }
  return node_collective_time(
      gathered, 1, group.ranks, group.ranks, machine.collectives.all_gather);
}

/// Reduce-scatter of a buffer of `reduced` bytes.
[[nodiscard]] inline Seconds reduce_scatter_time(Bytes reduced,
                                                 Group group,
                                                 BytesPerSecond nic_rate,
                                                 const MachineCosts& machine) {
  if (group.ranks > group.ranks_per_node) {
    const MultiNodeRingCosts& ring = machine.multi_node.ring;
    return multi_node_ring_time(
        reduced, 1, group.ranks, group.ranks_per_node, nic_rate, ring.reduce_scatter_step, ring);
  }
  return node_collective_time(
      reduced, 1, group.ranks, group.ranks, machine.collectives.reduce_scatter);
}

/// Whether an all-reduce of elements of `type` is computed by the node's switches.
[[nodiscard]] inline bool reduces_in_switches(ElementType type,
                                              Group group,
                                              const MachineCosts& machine) {
  const auto& switches = machine.collectives.all_reduce_nvls;
  return group.ranks == group.ranks_per_node && switches && group.ranks >= switches->least_ranks &&
         group.ranks <= switches->most_ranks && switch_reduces(type);
}

/// All-reduce of a buffer of `reduced` bytes of elements of `type`: in the switches where they can,
/// else on a ring.
[[nodiscard]] inline Seconds all_reduce_time(Bytes reduced,
                                             ElementType type,
                                             Group group,
                                             BytesPerSecond nic_rate,
                                             const MachineCosts& machine) {
  if (group.ranks > group.ranks_per_node) {
    const MultiNodeRingCosts& ring = machine.multi_node.ring;
    return multi_node_ring_time(
        reduced, 2, group.ranks, group.ranks_per_node, nic_rate, ring.all_reduce_step, ring);
  }
  if (reduces_in_switches(type, group, machine)) {
    return switch_all_reduce_time(reduced, *machine.collectives.all_reduce_nvls);
  }
  return node_collective_time(reduced, 2, group.ranks, group.ranks, machine.collectives.all_reduce);
}

/// All-to-all in which each rank holds `held` bytes, the chunk that it keeps included.
[[nodiscard]] inline Seconds all_to_all_time(Bytes held,
                                             Group group,
                                             BytesPerSecond nic_rate,
                                             const MachineCosts& machine) {
  if (group.ranks > group.ranks_per_node) {
    return multi_node_all_to_all_time(held,
                                      group.ranks,
                                      group.ranks_per_node,
                                      nic_rate,
                                      machine.multi_node.all_to_all,
                                      machine.collectives.all_to_all);
  }
  return node_collective_time(held, 1, group.ranks, group.ranks, machine.collectives.all_to_all);
}

/// One hop of a ring exchange: each rank sends a block to its successor, and the slowest hop
/// counts. Empty when the profile does not know point-to-point inside a node and the hop stays in
/// one.
[[nodiscard]] inline std::optional<Seconds> ring_hop_time(Bytes block,
                                                          Group group,
                                                          BytesPerSecond nic_rate,
                                                          const MachineCosts& machine) {
  if (group.ranks > group.ranks_per_node) {
    return send_recv_off_node_time(block, group.ranks, nic_rate, machine.multi_node.send_recv);
  }
  if (group.ranks == 1) {
    return Seconds(0);
  }
  if (!machine.collectives.send_recv) {
    return std::nullopt;
  }
  return send_recv_time(block, group.ranks, *machine.collectives.send_recv);
}

/// One collective, for tables and for the contracts that every one of them keeps. The payload is
/// the whole of it: gathered, reduced, exchanged over all ranks; of a ring exchange all blocks.
struct CollectiveInfo {
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  /// Of the bytes sent, as `explain` prints it: the id in docs/equations.md, and the formula in N
  /// (the payload) and n (the ranks) where chunks are equal, and in chunks where they are not.
  std::string_view bytes_equation;
  std::string_view bytes_formula;
  std::string_view uneven_bytes_formula;
  CollectiveBytes (*bytes)(Elements payload, ElementType type, Group group, std::int64_t position);
  /// What a rank's link must carry at least in one direction, however the collective is done.
  Bytes (*least_sent)(Bytes payload, Group group);
  /// Seconds of the whole collective; empty when the machine's profile does not know them.
  std::optional<Seconds> (*time)(Bytes payload,
                                 ElementType type,
                                 Group group,
                                 BytesPerSecond nic_rate,
                                 const MachineCosts& machine);
};

[[nodiscard]] std::span<const CollectiveInfo> collective_table();

}  // namespace trireme::cost
