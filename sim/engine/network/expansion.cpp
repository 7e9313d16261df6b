#include "sim/engine/network/expansion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <unordered_map>

namespace trireme::engine {

namespace {

using Messages = std::vector<Message>;

std::int64_t count(PlacedRanks ranks) {
  return static_cast<std::int64_t>(ranks.size());
}

std::int32_t place(std::int64_t rank) {
  return static_cast<std::int32_t>(rank);
}

/// Part `index` of `total` cut into `parts`, to whole bytes: the first ones hold one more.
Bytes part(Bytes total, std::int64_t parts, std::int64_t index) {
  return Bytes(total.value() / parts + (index < total.value() % parts ? 1 : 0));
}

void add(Messages& messages, std::int64_t from, std::int64_t to, std::int64_t step, Bytes amount) {
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

Nodes nodes_of(PlacedRanks ranks, const Topology& topology) {
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

bool always(PlacedRanks /*ranks*/, const Topology& /*topology*/) {
  return true;
}

bool powers_of_two(PlacedRanks ranks, const Topology& /*topology*/) {
  return std::has_single_bit(ranks.size());
}

bool even_nodes(PlacedRanks ranks, const Topology& topology) {
  return nodes_of(ranks, topology).ranks_per_node > 0;
}

bool even_switched_nodes(PlacedRanks ranks, const Topology& topology) {
  return topology.shape().inside == NodeLinks::nvswitch && even_nodes(ranks, topology);
}

bool one_switched_node(PlacedRanks ranks, const Topology& topology) {
  return even_switched_nodes(ranks, topology) && nodes_of(ranks, topology).nodes == 1;
}

// Rings.

/// Rings over the same ranks; each carries its part of every rank's chunk.
using Rings = std::vector<std::vector<std::int64_t>>;

Rings one_ring(PlacedRanks ranks, const Topology& /*topology*/) {
  std::vector<std::int64_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  return {std::move(order)};
}

/// A ring for each rank of a node: ring k enters a node at its k-th rank and goes once around the
/// node, so that each rank's NIC is the way in of one ring.
Rings ring_for_each_nic(PlacedRanks ranks, const Topology& topology) {
  const Nodes nodes = nodes_of(ranks, topology);
  if (nodes.nodes <= 1) {
    return one_ring(ranks, topology);
  }
  Rings rings;
  for (std::int64_t ring = 0; ring < nodes.ranks_per_node; ++ring) {
    std::vector<std::int64_t>& order = rings.emplace_back();
    for (std::int64_t node = 0; node < nodes.nodes; ++node) {
      for (std::int64_t i = 0; i < nodes.ranks_per_node; ++i) {
        order.push_back(node * nodes.ranks_per_node + (ring + i) % nodes.ranks_per_node);
      }
    }
  }
  return rings;
}

/// What ring `ring` of `rings` carries of the chunk of `rank`.
Bytes ring_part(
    Bytes payload, std::int64_t n, std::int64_t rank, std::size_t rings, std::size_t ring) {
  return part(
      part(payload, n, rank), static_cast<std::int64_t>(rings), static_cast<std::int64_t>(ring));
}

enum class Turn : std::uint8_t { gather, scatter, both };

template <Rings (*kRings)(PlacedRanks, const Topology&), Turn kTurn>
Messages ring(Bytes payload, PlacedRanks ranks, const Topology& topology, std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  const Rings rings = kRings(ranks, topology);
  const std::int64_t steps = kTurn == Turn::both ? 2 * (n - 1) : n - 1;
  for (std::int64_t step = 0; step < steps; ++step) {
    // Gathering, a rank begins with its own chunk; scattering, with that of the rank before it, so
    // that it ends with the sum of its own.
    const std::int64_t back = kTurn == Turn::gather ? step : step + 1;
    for (std::size_t k = 0; k < rings.size(); ++k) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = [&](std::int64_t i_of) { return rings[k][static_cast<std::size_t>(i_of)]; };
        const std::int64_t chunk = at((i - back % n + n) % n);
        add(messages, at(i), at((i + 1) % n), step, ring_part(payload, n, chunk, rings.size(), k));
      }
    }
  }
  return messages;
}

template <Rings (*kRings)(PlacedRanks, const Topology&), Turn kTurn>
Messages ring_in_all(Bytes payload, PlacedRanks ranks, const Topology& topology) {
  const std::int64_t n = count(ranks);
  Messages messages;
  if (n == 1) {
    return messages;
  }
  const Rings rings = kRings(ranks, topology);
  for (std::size_t k = 0; k < rings.size(); ++k) {
    const auto chunk = [&](std::int64_t rank) {
      return ring_part(payload, n, rank, rings.size(), k);
    };
    Bytes all;
    for (std::int64_t rank = 0; rank < n; ++rank) {
      all += chunk(rank);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t from = rings[k][static_cast<std::size_t>(i)];
      const std::int64_t to = rings[k][static_cast<std::size_t>((i + 1) % n)];
      // A turn sends all chunks but one: the receiver's when gathering, the sender's when
      // scattering.
      const Bytes gathering = all - chunk(to);
      const Bytes scattering = all - chunk(from);
      const Bytes sent = kTurn == Turn::gather    ? gathering
                         : kTurn == Turn::scatter ? scattering
                                                  : gathering + scattering;
      add(messages, from, to, 0, sent);
    }
  }
  return messages;
}

Messages ring_exchange(Bytes payload,
                       PlacedRanks ranks,
                       const Topology& /*topology*/,
                       std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  for (std::int64_t step = 0; step < n - 1; ++step) {
    for (std::int64_t i = 0; i < n; ++i) {
      add(messages, i, (i + 1) % n, step, part(payload, n, 0));
    }
  }
  return messages;
}

Messages ring_exchange_in_all(Bytes payload, PlacedRanks ranks, const Topology& /*topology*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  for (std::int64_t i = 0; n > 1 && i < n; ++i) {
    add(messages, i, (i + 1) % n, 0, (n - 1) * part(payload, n, 0));
  }
  return messages;
}

// Every pair by itself.

/// What `from` has for `to` of an all-to-all.
Bytes exchanged(Bytes payload, std::int64_t n, std::int64_t from, std::int64_t to) {
  return part(part(payload, n, from), n, to);
}

Bytes gathered(Bytes payload, std::int64_t n, std::int64_t from, std::int64_t /*to*/) {
  return part(payload, n, from);
}

Bytes scattered(Bytes payload, std::int64_t n, std::int64_t /*from*/, std::int64_t to) {
  return part(payload, n, to);
}

/// All at once, in one step.
template <Bytes (*kAmount)(Bytes, std::int64_t, std::int64_t, std::int64_t)>
Messages direct(Bytes payload,
                PlacedRanks ranks,
                const Topology& /*topology*/,
                std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  messages.reserve(static_cast<std::size_t>(n * (n - 1)));
  for (std::int64_t shift = 1; shift < n; ++shift) {
    for (std::int64_t from = 0; from < n; ++from) {
      const std::int64_t to = (from + shift) % n;
      add(messages, from, to, 0, kAmount(payload, n, from, to));
    }
  }
  return messages;
}

/// In step s with the rank at the exclusive or of s + 1.
template <Bytes (*kAmount)(Bytes, std::int64_t, std::int64_t, std::int64_t)>
Messages pairwise(Bytes payload,
                  PlacedRanks ranks,
                  const Topology& /*topology*/,
                  std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  for (std::int64_t step = 1; step < n; ++step) {
    for (std::int64_t from = 0; from < n; ++from) {
      add(messages, from, from ^ step, step - 1, kAmount(payload, n, from, from ^ step));
    }
  }
  return messages;
}

/// In step s to the rank s + 1 further.
template <Bytes (*kAmount)(Bytes, std::int64_t, std::int64_t, std::int64_t)>
Messages shifted(Bytes payload,
                 PlacedRanks ranks,
                 const Topology& /*topology*/,
                 std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  for (std::int64_t shift = 1; shift < n; ++shift) {
    for (std::int64_t from = 0; from < n; ++from) {
      const std::int64_t to = (from + shift) % n;
      add(messages, from, to, shift - 1, kAmount(payload, n, from, to));
    }
  }
  return messages;
}

// In as many steps as the logarithm of the ranks.

Messages doubling_all_gather(Bytes payload,
                             PlacedRanks ranks,
                             const Topology& /*topology*/,
                             std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  std::int64_t step = 0;
  for (std::int64_t distance = 1; distance < n; distance *= 2, ++step) {
    for (std::int64_t from = 0; from < n; ++from) {
      Bytes held;
      const std::int64_t first = from / distance * distance;
      for (std::int64_t chunk = first; chunk < first + distance; ++chunk) {
        held += part(payload, n, chunk);
      }
      add(messages, from, from ^ distance, step, held);
    }
  }
  return messages;
}

Messages halving_reduce_scatter(Bytes payload,
                                PlacedRanks ranks,
                                const Topology& /*topology*/,
                                std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  std::int64_t step = 0;
  for (std::int64_t distance = n / 2; distance >= 1; distance /= 2, ++step) {
    for (std::int64_t from = 0; from < n; ++from) {
      Bytes given;
      const std::int64_t first = (from ^ distance) / distance * distance;
      for (std::int64_t chunk = first; chunk < first + distance; ++chunk) {
        given += part(payload, n, chunk);
      }
      add(messages, from, from ^ distance, step, given);
    }
  }
  return messages;
}

Messages doubling_all_reduce(Bytes payload,
                             PlacedRanks ranks,
                             const Topology& /*topology*/,
                             std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  std::int64_t step = 0;
  for (std::int64_t distance = 1; distance < n; distance *= 2, ++step) {
    for (std::int64_t from = 0; from < n; ++from) {
      add(messages, from, from ^ distance, step, payload);
    }
  }
  return messages;
}

Messages bruck_all_gather(Bytes payload,
                          PlacedRanks ranks,
                          const Topology& /*topology*/,
                          std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  std::int64_t step = 0;
  for (std::int64_t distance = 1; distance < n; distance *= 2, ++step) {
    const std::int64_t blocks = std::min(distance, n - distance);
    for (std::int64_t from = 0; from < n; ++from) {
      Bytes held;
      for (std::int64_t block = 0; block < blocks; ++block) {
        held += part(payload, n, (from + block) % n);
      }
      add(messages, from, (from - distance + n) % n, step, held);
    }
  }
  return messages;
}

Messages bruck_all_to_all(Bytes payload,
                          PlacedRanks ranks,
                          const Topology& /*topology*/,
                          std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  std::int64_t step = 0;
  for (std::int64_t distance = 1; distance < n; distance *= 2, ++step) {
    for (std::int64_t from = 0; from < n; ++from) {
      // A block that has to go `way` ranks further travels in the steps of its binary digits, the
      // lowest first.
      Bytes held;
      for (std::int64_t way = 1; way < n; ++way) {
        if ((way & distance) != 0) {
          const std::int64_t origin = (from - way % distance + n) % n;
          held += exchanged(payload, n, origin, (origin + way) % n);
        }
      }
      add(messages, from, (from + distance) % n, step, held);
    }
  }
  return messages;
}

/// First inside the nodes to the rank at the place of the receiver, with the data for that place on
/// all nodes, then between equal places of the nodes.
Messages hierarchical_all_to_all(Bytes payload,
                                 PlacedRanks ranks,
                                 const Topology& topology,
                                 std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  const auto [nodes, p] = nodes_of(ranks, topology);
  Messages messages;
  for (std::int64_t from = 0; from < n; ++from) {
    const std::int64_t first = from / p * p;
    for (std::int64_t shift = 1; shift < p; ++shift) {
      const std::int64_t relay = first + (from + shift) % p;
      Bytes given;
      for (std::int64_t to = relay % p; to < n; to += p) {
        given += exchanged(payload, n, from, to);
      }
      add(messages, from, relay, 0, given);
    }
  }
  for (std::int64_t relay = 0; relay < n; ++relay) {
    const std::int64_t first = relay / p * p;
    for (std::int64_t shift = 1; shift < nodes; ++shift) {
      const std::int64_t to = (relay + shift * p) % n;
      Bytes given;
      for (std::int64_t from = first; from < first + p; ++from) {
        given += exchanged(payload, n, from, to);
      }
      add(messages, relay, to, 1, given);
    }
  }
  return messages;
}

/// One after the other into the first rank.
Messages linear_gather(Bytes payload,
                       PlacedRanks ranks,
                       const Topology& /*topology*/,
                       std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  for (std::int64_t from = 1; from < n; ++from) {
    add(messages, from, 0, from - 1, part(payload, n, from));
  }
  return messages;
}

// Trees.

/// For each member its parent; of the root itself.
using Parents = std::vector<std::int64_t>;

/// A binary tree over 0 ... members - 1 in which every odd member is a leaf.
Parents binary_tree(std::int64_t members) {
  Parents parents(static_cast<std::size_t>(members), 0);
  for (std::int64_t member = 1; member < members; ++member) {
    const std::int64_t bit = member & -member;  // the lowest
    const std::int64_t up = (member ^ bit) | (bit << 1);
    parents[static_cast<std::size_t>(member)] = up < members ? up : member ^ bit;
  }
  return parents;
}

/// A second tree whose inner members are leaves of the first: mirrored, or where members are odd
/// moved on by one.
Parents complementary_tree(std::int64_t members) {
  const Parents first = binary_tree(members);
  Parents parents(first.size());
  for (std::int64_t member = 0; member < members; ++member) {
    const std::int64_t from =
        members % 2 == 0 ? members - 1 - member : (member - 1 + members) % members;
    const std::int64_t up = first[static_cast<std::size_t>(from)];
    parents[static_cast<std::size_t>(member)] =
        members % 2 == 0 ? members - 1 - up : (up + 1) % members;
  }
  return parents;
}

/// Longest way down, and way up, of each member.
struct Levels {
  std::vector<std::int64_t> height;
  std::vector<std::int64_t> depth;
  std::int64_t root_height = 0;
};

Levels levels_of(const Parents& parents) {
  Levels levels;
  levels.height.assign(parents.size(), 0);
  levels.depth.assign(parents.size(), 0);
  for (std::size_t member = 0; member < parents.size(); ++member) {
    std::int64_t up = 0;
    for (auto at = member; parents[at] != static_cast<std::int64_t>(at);) {
      at = static_cast<std::size_t>(parents[at]);
      levels.height[at] = std::max(levels.height[at], ++up);
    }
    levels.depth[member] = up;
  }
  levels.root_height = *std::max_element(levels.height.begin(), levels.height.end());
  return levels;
}

/// Sums up a tree over `members` (ranks) and the result down again, piece by piece: a piece moves
/// one level a step, and the next one follows in the next step.
void add_tree(Messages& messages,
              const Parents& parents,
              const std::vector<std::int64_t>& members,
              std::int64_t first_step,
              Bytes payload,
              std::int64_t pieces) {
  const Levels levels = levels_of(parents);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const Bytes amount = part(payload, pieces, piece);
    for (std::size_t i = 0; i < parents.size(); ++i) {
      const auto parent = static_cast<std::size_t>(parents[i]);
      if (parent == i) {
        continue;
      }
      const std::int64_t start = first_step + piece;
      add(messages, members[i], members[parent], start + levels.height[i], amount);
      add(messages,
          members[parent],
          members[i],
          start + levels.root_height + levels.depth[parent],
          amount);
    }
  }
}

void sort_by_step(Messages& messages) {
  std::stable_sort(messages.begin(), messages.end(), [](const Message& a, const Message& b) {
    return a.step < b.step;
  });
}

/// Two trees over the nodes, each with half of the payload, and chains inside the nodes; one such
/// pair for each rank of a node, in which that rank is the way in and out.
Messages double_binary_tree(Bytes payload,
                            PlacedRanks ranks,
                            const Topology& topology,
                            std::int64_t pieces) {
  const auto [nodes, p] = nodes_of(ranks, topology);
  const std::array trees{binary_tree(nodes), complementary_tree(nodes)};
  std::vector<std::int64_t> members(ranks.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i] = static_cast<std::int64_t>(i);
  }
  Messages messages;
  const std::int64_t ways = nodes > 1 ? p : 1;  // inside one node a chain is as good as the next
  for (std::int64_t way = 0; way < ways; ++way) {
    for (std::size_t tree = 0; tree < trees.size(); ++tree) {
      Parents parents(ranks.size());
      for (std::int64_t node = 0; node < nodes; ++node) {
        for (std::int64_t i = 0; i < p; ++i) {
          const std::int64_t here = node * p + (way + i) % p;
          parents[static_cast<std::size_t>(here)] =
              i > 0 ? node * p + (way + i - 1) % p
                    : trees[tree][static_cast<std::size_t>(node)] * p + way;
        }
      }
      const Bytes share = part(part(payload, ways, way), 2, static_cast<std::int64_t>(tree));
      add_tree(messages, parents, members, 0, share, pieces);
    }
  }
  sort_by_step(messages);
  return messages;
}

void add_in_switch(
    Messages& messages, std::int64_t rank, Delivery delivery, std::int64_t step, Bytes amount) {
  if (amount > Bytes(0)) {
    messages.push_back({.from = place(rank),
                        .to = place(rank),
                        .step = place(step),
                        .delivery = delivery,
                        .amount = amount});
  }
}

/// Each rank of a node owns a slice: the switches add it up for its owner, owners at equal places
/// of the nodes sum over two trees, and the switches copy the result to all.
Messages switch_all_reduce(Bytes payload,
                           PlacedRanks ranks,
                           const Topology& topology,
                           std::int64_t pieces) {
  const auto [nodes, p] = nodes_of(ranks, topology);
  const std::array trees{binary_tree(nodes), complementary_tree(nodes)};
  const bool has_peers = p > 1;
  Messages messages;
  for (std::int64_t local = 0; local < p; ++local) {
    std::vector<std::int64_t> owners;
    for (std::int64_t node = 0; node < nodes; ++node) {
      owners.push_back(node * p + local);
    }
    for (std::size_t tree = 0; tree < trees.size(); ++tree) {
      const Bytes slice = part(part(payload, p, local), 2, static_cast<std::int64_t>(tree));
      add_tree(messages, trees[tree], owners, 1, slice, pieces);
      const Levels levels = levels_of(trees[tree]);
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        for (std::size_t node = 0; has_peers && node < owners.size(); ++node) {
          const Bytes amount = part(slice, pieces, piece);
          add_in_switch(messages, owners[node], Delivery::switch_adds, piece, amount);
          const std::int64_t copied = 1 + piece + levels.root_height + levels.depth[node];
          add_in_switch(messages, owners[node], Delivery::switch_copies, copied, amount);
        }
      }
    }
  }
  sort_by_step(messages);
  return messages;
}

template <Delivery kDelivery>
Messages switch_once(Bytes payload,
                     PlacedRanks ranks,
                     const Topology& /*topology*/,
                     std::int64_t /*pieces*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  for (std::int64_t rank = 0; n > 1 && rank < n; ++rank) {
    add_in_switch(messages, rank, kDelivery, 0, part(payload, n, rank));
  }
  return messages;
}

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
     in_one_piece<pairwise<gathered>>},
    {"shifted",
     "all_gather",
     "one further in each step",
     "thakur2005",
     always,
     shifted<gathered>,
     in_one_piece<shifted<gathered>>},
    {"direct",
     "all_gather",
     "to all at once",
     "thakur2005",
     always,
     direct<gathered>,
     in_one_piece<direct<gathered>>},
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
     in_one_piece<shifted<scattered>>},
    {"direct",
     "reduce_scatter",
     "to all at once",
     "thakur2005",
     always,
     direct<scattered>,
     in_one_piece<direct<scattered>>},
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
     in_one_piece<double_binary_tree>},
    {"nvls",
     "all_reduce",
     "the switches add and copy, trees between nodes",
     "nccl",
     even_switched_nodes,
     switch_all_reduce,
     in_one_piece<switch_all_reduce>},

    {"direct",
     "all_to_all",
     "all pairs at once",
     "nccl",
     always,
     direct<exchanged>,
     in_one_piece<direct<exchanged>>},
    {"pairwise",
     "all_to_all",
     "one partner after the other",
     "thakur2005",
     powers_of_two,
     pairwise<exchanged>,
     in_one_piece<pairwise<exchanged>>},
    {"shifted",
     "all_to_all",
     "one further in each step",
     "thakur2005",
     always,
     shifted<exchanged>,
     in_one_piece<shifted<exchanged>>},
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
