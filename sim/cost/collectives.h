// Seconds of each collective on a machine: picks the form by where the group's ranks sit.
//
// All functions: zero for one rank; empty when the profile does not know the collective where the
// group's ranks sit; `group` as in collective_bytes.h; `nic_rate` is the line rate of one GPU's
// NIC, one direction, and is read only when the group spans nodes.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/cost/collective_bytes.h"
#include "sim/cost/machine_costs.h"
#include "sim/cost/multi_node.h"
#include "sim/cost/node_collectives.h"
#include "sim/cost/residuals.h"
#include "sim/cost/send_recv.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// The closed form's seconds, corrected where the group shape was measured.
[[nodiscard]] inline std::optional<Seconds> with_residual(std::optional<Seconds> closed_form,
                                                          const std::vector<GroupResiduals>& tables,
                                                          Group group,
                                                          Bytes payload) {
  if (!closed_form) {
    return std::nullopt;
  }
  return residual_factor(tables, group, payload) * *closed_form;
}

/// Seconds of a ring over nodes, or of form C1 inside one, over a buffer `whole`.
[[nodiscard]] inline std::optional<Seconds> ring_collective_time(
    Bytes whole,
    int passes,
    Group group,
    BytesPerSecond nic_rate,
    const std::optional<NodeCollectiveCosts>& inside,
    std::optional<Seconds> MultiNodeRingCosts::*step,
    const MachineCosts& machine) {
  if (group.ranks == 1) {
    return Seconds(0);
  }
  if (group.ranks > group.ranks_per_node) {
    const std::optional<MultiNodeRingCosts>& ring = machine.multi_node.ring;
    if (!ring || !(*ring.*step)) {
      return std::nullopt;
    }
    return multi_node_ring_time(
        whole, passes, group.ranks, group.ranks_per_node, nic_rate, *(*ring.*step), *ring);
  }
  if (!inside) {
    return std::nullopt;
  }
  return node_collective_time(whole, passes, group.ranks, group.ranks, *inside);
}

/// All-gather of a result of `gathered` bytes.
[[nodiscard]] inline std::optional<Seconds> all_gather_time(Bytes gathered,
                                                            Group group,
                                                            BytesPerSecond nic_rate,
                                                            const MachineCosts& machine) {
  return with_residual(ring_collective_time(gathered,
                                            1,
                                            group,
                                            nic_rate,
                                            machine.collectives.all_gather,
                                            &MultiNodeRingCosts::all_gather_step,
                                            machine),
                       machine.residuals.all_gather,
                       group,
                       gathered);
}

/// Reduce-scatter of a buffer of `reduced` bytes.
[[nodiscard]] inline std::optional<Seconds> reduce_scatter_time(Bytes reduced,
                                                                Group group,
                                                                BytesPerSecond nic_rate,
                                                                const MachineCosts& machine) {
  return with_residual(ring_collective_time(reduced,
                                            1,
                                            group,
                                            nic_rate,
                                            machine.collectives.reduce_scatter,
                                            &MultiNodeRingCosts::reduce_scatter_step,
                                            machine),
                       machine.residuals.reduce_scatter,
                       group,
                       reduced);
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
/// else on a ring. The residuals are those of types that switches add.
[[nodiscard]] inline std::optional<Seconds> all_reduce_time(Bytes reduced,
                                                            ElementType type,
                                                            Group group,
                                                            BytesPerSecond nic_rate,
                                                            const MachineCosts& machine) {
  const std::optional<Seconds> closed_form =
      reduces_in_switches(type, group, machine)
          ? switch_all_reduce_time(reduced, *machine.collectives.all_reduce_nvls)
          : ring_collective_time(reduced,
                                 2,
                                 group,
                                 nic_rate,
                                 machine.collectives.all_reduce,
                                 &MultiNodeRingCosts::all_reduce_step,
                                 machine);
  return switch_reduces(type)
             ? with_residual(closed_form, machine.residuals.all_reduce, group, reduced)
             : closed_form;
}

/// All-to-all in which each rank holds `held` bytes, the chunk that it keeps included. Over nodes
/// with several ranks each it needs the coefficients inside a node too.
[[nodiscard]] inline std::optional<Seconds> all_to_all_time(Bytes held,
                                                            Group group,
                                                            BytesPerSecond nic_rate,
                                                            const MachineCosts& machine) {
  std::optional<Seconds> closed_form;
  const std::optional<NodeCollectiveCosts>& inside = machine.collectives.all_to_all;
  const std::optional<MultiNodeAllToAllCosts>& outside = machine.multi_node.all_to_all;
  if (group.ranks == 1) {
    closed_form = Seconds(0);
  } else if (group.ranks == group.ranks_per_node) {
    if (inside) {
      closed_form = node_collective_time(held, 1, group.ranks, group.ranks, *inside);
    }
  } else if (outside && (inside || group.ranks_per_node == 1)) {
    closed_form = multi_node_all_to_all_time(held,
                                             group.ranks,
                                             group.ranks_per_node,
                                             nic_rate,
                                             *outside,
                                             inside.value_or(NodeCollectiveCosts{}));
  }
  return with_residual(closed_form, machine.residuals.all_to_all, group, held);
}

/// One hop of a ring exchange: each rank sends a block to its successor, and the slowest hop
/// counts.
[[nodiscard]] inline std::optional<Seconds> ring_hop_time(Bytes block,
                                                          Group group,
                                                          BytesPerSecond nic_rate,
                                                          const MachineCosts& machine) {
  std::optional<Seconds> closed_form;
  if (group.ranks == 1) {
    closed_form = Seconds(0);
  } else if (group.ranks > group.ranks_per_node) {
    if (const auto& outside = machine.multi_node.send_recv) {
      closed_form = send_recv_off_node_time(block, group.ranks, nic_rate, *outside);
    }
  } else if (const auto& inside = machine.collectives.send_recv) {
    closed_form = send_recv_time(block, group.ranks, *inside);
  }
  return with_residual(closed_form, machine.residuals.send_recv, group, block);
}

/// What a collective reaches at best, in the bytes that a rank sends over its links: to GPUs of its
/// node, and through its NIC. Absent where it has no coefficient for that.
struct LinkRates {
  std::optional<BytesPerSecond> inside;
  std::optional<BytesPerSecond> nic;
};

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
  /// The coefficients of `time` that bound it where the payload is large.
  LinkRates (*link_rates)(ElementType type,
                          Group group,
                          BytesPerSecond nic_rate,
                          const MachineCosts& machine);
};

/// In the order of CollectiveKind.
[[nodiscard]] std::span<const CollectiveInfo> collective_table();

}  // namespace trireme::cost
