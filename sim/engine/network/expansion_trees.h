// Collectives over trees of ranks, and in the switches of nodes. Included by expansion.cpp alone.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "sim/engine/network/expansion_parts.h"

namespace trireme::engine::expansion {

/// For each member its parent; of the root itself.
using Parents = std::vector<std::int64_t>;

/// A binary tree over 0 ... members - 1 in which every odd member is a leaf.
inline Parents binary_tree(std::int64_t members) {
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
inline Parents complementary_tree(std::int64_t members) {
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

inline Levels levels_of(const Parents& parents) {
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
inline void add_tree(Messages& messages,
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

inline void sort_by_step(Messages& messages) {
  std::stable_sort(messages.begin(), messages.end(), [](const Message& a, const Message& b) {
    return a.step < b.step;
  });
}

/// Two trees over the nodes, each with half of the payload, and chains inside the nodes; one such
/// pair for each rank of a node, in which that rank is the way in and out. In no order of steps.
inline Messages tree_messages(Bytes payload,
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
  return messages;
}

inline Messages double_binary_tree(Bytes payload,
                                   PlacedRanks ranks,
                                   const Topology& topology,
                                   std::int64_t pieces) {
  Messages messages = tree_messages(payload, ranks, topology, pieces);
  sort_by_step(messages);
  return messages;
}

inline void add_in_switch(
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
/// of the nodes sum over two trees, and the switches copy the result to all. In no order of steps.
inline Messages switch_messages(Bytes payload,
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
  return messages;
}

inline Messages switch_all_reduce(Bytes payload,
                                  PlacedRanks ranks,
                                  const Topology& topology,
                                  std::int64_t pieces) {
  Messages messages = switch_messages(payload, ranks, topology, pieces);
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

}  // namespace trireme::engine::expansion
