#include "sim/engine/network/expansion.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_map>

#include "sim/engine/network/expansion_pairs.h"
#include "sim/engine/network/expansion_rings.h"
#include "sim/engine/network/expansion_steps.h"
#include "sim/engine/network/expansion_trees.h"

namespace trireme::engine {

namespace {

using namespace expansion;  // NOLINT(google-build-using-namespace): its parts, for the table

/// For algorithms that are not much smaller without their steps.
template <Messages (*kExpand)(Bytes, PlacedRanks, const Topology&, std::int64_t)>
Messages in_one_piece(Bytes payload, PlacedRanks ranks, const Topology& topology) {
  return kExpand(payload, ranks, topology, 1);
}

template <class Visit>
void for_each_link(const Message& message,
                   PlacedRanks ranks,
                   const Topology& topology,
                   const Visit& visit) {
  const std::int64_t from = ranks[static_cast<std::size_t>(message.from)];
  const std::int64_t to = ranks[static_cast<std::size_t>(message.to)];
  if (message.delivery == Delivery::one_to_one) {
    const Route route = topology.route(from, to);
    for (const LinkId link : route.links()) {
      visit(link);
    }
    return;
  }
  const bool copies = message.delivery == Delivery::switch_copies;
  visit(copies ? topology.port_out(from) : topology.port_in(to));
  for (const std::int64_t gpu : ranks) {
    if (topology.same_node(gpu, from)) {
      visit(copies ? topology.port_in(gpu) : topology.port_out(gpu));
    }
  }
}

constexpr std::array<Algorithm, 26> kAlgorithms = {{
    {"ring",
     "all_gather",
     "one ring in the group's order",
     "thakur2005",
     always,
     ring<one_ring, Turn::gather>,
     ring_in_all<one_ring, Turn::gather>},
    {"rings",
     "all_gather",
     "a ring for each NIC",
     "nccl",
     always,
     ring<ring_for_each_nic, Turn::gather>,
     ring_in_all<ring_for_each_nic, Turn::gather>},
    {"recursive_doubling",
     "all_gather",
     "twice as much with a partner twice as far",
     "thakur2005",
     powers_of_two,
     doubling_all_gather,
     in_one_piece<doubling_all_gather>},
    {"bruck",
     "all_gather",
     "twice as much to a rank twice as far",
     "thakur2005",
     always,
     bruck_all_gather,
     in_one_piece<bruck_all_gather>},
    {"pairwise",
     "all_gather",
     "one partner after the other",
     "thakur2005",
     powers_of_two,
     pairwise<gathered>,
     in_one_piece<pairwise<gathered>>,
     gathered},
    {"shifted",
     "all_gather",
     "one further in each step",
     "thakur2005",
     always,
     shifted<gathered>,
     in_one_piece<shifted<gathered>>,
     gathered},
    {"direct",
     "all_gather",
     "to all at once",
     "thakur2005",
     always,
     direct<gathered>,
     in_one_piece<direct<gathered>>,
     gathered},
    {"nvls",
     "all_gather",
     "the switches copy",
     "nccl",
     one_switched_node,
     switch_once<Delivery::switch_copies>,
     in_one_piece<switch_once<Delivery::switch_copies>>},

    {"ring",
     "reduce_scatter",
     "one ring in the group's order",
     "thakur2005",
     always,
     ring<one_ring, Turn::scatter>,
     ring_in_all<one_ring, Turn::scatter>},
    {"rings",
     "reduce_scatter",
     "a ring for each NIC",
     "nccl",
     always,
     ring<ring_for_each_nic, Turn::scatter>,
     ring_in_all<ring_for_each_nic, Turn::scatter>},
    {"recursive_halving",
     "reduce_scatter",
     "half as much with a partner half as far",
     "thakur2005",
     powers_of_two,
     halving_reduce_scatter,
     in_one_piece<halving_reduce_scatter>},
    {"shifted",
     "reduce_scatter",
     "one further in each step",
     "thakur2005",
     always,
     shifted<scattered>,
     in_one_piece<shifted<scattered>>,
     scattered},
    {"direct",
     "reduce_scatter",
     "to all at once",
     "thakur2005",
     always,
     direct<scattered>,
     in_one_piece<direct<scattered>>,
     scattered},
    {"nvls",
     "reduce_scatter",
     "the switches add",
     "nccl",
     one_switched_node,
     switch_once<Delivery::switch_adds>,
     in_one_piece<switch_once<Delivery::switch_adds>>},

    {"ring",
     "all_reduce",
     "reduce-scatter and all-gather on one ring",
     "thakur2005",
     always,
     ring<one_ring, Turn::both>,
     ring_in_all<one_ring, Turn::both>},
    {"rings",
     "all_reduce",
     "a ring for each NIC",
     "nccl",
     always,
     ring<ring_for_each_nic, Turn::both>,
     ring_in_all<ring_for_each_nic, Turn::both>},
    {"recursive_doubling",
     "all_reduce",
     "all of it with a partner twice as far",
     "thakur2005",
     powers_of_two,
     doubling_all_reduce,
     in_one_piece<doubling_all_reduce>},
    {"double_binary_tree",
     "all_reduce",
     "two trees of nodes, chains in the nodes",
     "sanders2009",
     even_nodes,
     double_binary_tree,
     in_one_piece<tree_messages>},
    {"nvls",
     "all_reduce",
     "the switches add and copy, trees between nodes",
     "nccl",
     even_switched_nodes,
     switch_all_reduce,
     in_one_piece<switch_messages>},

    {"direct",
     "all_to_all",
     "all pairs at once",
     "nccl",
     always,
     direct<exchanged>,
     in_one_piece<direct<exchanged>>,
     exchanged},
    {"pairwise",
     "all_to_all",
     "one partner after the other",
     "thakur2005",
     powers_of_two,
     pairwise<exchanged>,
     in_one_piece<pairwise<exchanged>>,
     exchanged},
    {"shifted",
     "all_to_all",
     "one further in each step",
     "thakur2005",
     always,
     shifted<exchanged>,
     in_one_piece<shifted<exchanged>>,
     exchanged},
    {"bruck",
     "all_to_all",
     "half of it in each of log2 n steps",
     "thakur2005",
     always,
     bruck_all_to_all,
     in_one_piece<bruck_all_to_all>},
    {"hierarchical",
     "all_to_all",
     "inside the nodes, then between equal places",
     "hwang2023-tutel",
     even_nodes,
     hierarchical_all_to_all,
     in_one_piece<hierarchical_all_to_all>},

    {"ring",
     "send_recv",
     "blocks go around the ring",
     "liu2023-ring-attention",
     always,
     ring_exchange,
     ring_exchange_in_all},

    {"linear",
     "gather",
     "one after the other into the first rank",
     "thakur2005",
     always,
     linear_gather,
     in_one_piece<linear_gather>},
}};

}  // namespace

std::span<const Algorithm> algorithm_table() {
  return kAlgorithms;
}

const Algorithm& find_algorithm(std::string_view collective, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == collective && algorithm.name == name) {
      return algorithm;
    }
  }
  throw std::logic_error("find_algorithm: no such algorithm");
}

const Algorithm& usual_algorithm(CollectiveKind kind, bool in_switches) {
  switch (kind) {
    case CollectiveKind::all_to_all:
      return find_algorithm(name(kind), "direct");
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return find_algorithm(name(kind), "rings");
    case CollectiveKind::all_reduce:
      return find_algorithm(name(kind), in_switches ? "nvls" : "rings");
    case CollectiveKind::send_recv:
      return find_algorithm(name(kind), "ring");
  }
  throw std::logic_error("usual_algorithm: no such collective");
}

void links_of(const Message& message,
              PlacedRanks ranks,
              const Topology& topology,
              std::vector<LinkId>& links) {
  links.clear();
  for_each_link(message, ranks, topology, [&](LinkId link) { links.push_back(link); });
}

std::vector<LinkLoad> link_loads(const Algorithm& algorithm,
                                 Bytes payload,
                                 PlacedRanks ranks,
                                 const Topology& topology) {
  std::unordered_map<LinkId, Bytes> sums;
  for (const Message& message : algorithm.add_up(payload, ranks, topology)) {
    for_each_link(message, ranks, topology, [&](LinkId link) { sums[link] += message.amount; });
  }
  std::vector<LinkLoad> loads;
  loads.reserve(sums.size());
  for (const auto& [link, amount] : sums) {
    loads.push_back({link, amount});
  }
  std::sort(loads.begin(), loads.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.link < b.link;
  });
  return loads;
}

}  // namespace trireme::engine
