// What the algorithms of expansion.cpp have in common. Included by its families alone.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "sim/engine/network/expansion.h"

namespace trireme::engine::expansion {

using Messages = std::vector<Message>;

inline std::int64_t count(PlacedRanks ranks) {
  return static_cast<std::int64_t>(ranks.size());
}

inline std::int32_t place(std::int64_t rank) {
  return static_cast<std::int32_t>(rank);
}

/// Part `index` of `total` cut into `parts`, to whole bytes: the first ones hold one more.
inline Bytes part(Bytes total, std::int64_t parts, std::int64_t index) {
  return Bytes(total.value() / parts + (index < total.value() % parts ? 1 : 0));
}

inline void add(
    Messages& messages, std::int64_t from, std::int64_t to, std::int64_t step, Bytes amount) {
  if (amount > Bytes(0)) {
    messages.push_back({.from = place(from),
                        .to = place(to),
                        .step = place(step),
                        .delivery = Delivery::one_to_one,
                        .amount = amount});
  }
}

/// Ranks by node. Where every node has as many, those of a node are neighbours in the group.
struct Nodes {
  std::int64_t nodes = 1;
  std::int64_t ranks_per_node = 1;  // 0 when nodes differ
};

inline Nodes nodes_of(PlacedRanks ranks, const Topology& topology) {
  const std::int64_t n = count(ranks);
  std::int64_t on_first = 0;
  while (on_first < n && topology.same_node(ranks[0], ranks[static_cast<std::size_t>(on_first)])) {
    ++on_first;
  }
  if (n % on_first != 0) {
    return {.nodes = 0, .ranks_per_node = 0};
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto here = static_cast<std::size_t>(i);
    const bool starts = i % on_first == 0;
    if (i > 0 && topology.same_node(ranks[here - 1], ranks[here]) == starts) {
      return {.nodes = 0, .ranks_per_node = 0};
    }
  }
  return {.nodes = n / on_first, .ranks_per_node = on_first};
}

inline bool always(PlacedRanks /*ranks*/, const Topology& /*topology*/) {
  return true;
}

inline bool powers_of_two(PlacedRanks ranks, const Topology& /*topology*/) {
  return std::has_single_bit(ranks.size());
}

inline bool even_nodes(PlacedRanks ranks, const Topology& topology) {
  return nodes_of(ranks, topology).ranks_per_node > 0;
}

inline bool even_switched_nodes(PlacedRanks ranks, const Topology& topology) {
  return topology.shape().inside == NodeLinks::nvswitch && even_nodes(ranks, topology);
}

inline bool one_switched_node(PlacedRanks ranks, const Topology& topology) {
  return even_switched_nodes(ranks, topology) && nodes_of(ranks, topology).nodes == 1;
}

}  // namespace trireme::engine::expansion
