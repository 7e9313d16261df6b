#include "sim/cost/collective_bytes.h"

#include <cstddef>

namespace trireme::cost {

namespace {

void check(Group group, std::int64_t position) {
  ensure(group.ranks >= 1, "collective: an empty group");
  ensure(group.ranks_per_node >= 1 && group.ranks % group.ranks_per_node == 0,
         "collective: nodes of different numbers of ranks");
  ensure(position >= 0 && position < group.ranks, "collective: a rank outside its group");
}

std::int64_t predecessor(Group group, std::int64_t position) {
  return (position + group.ranks - 1) % group.ranks;
}

std::int64_t successor(Group group, std::int64_t position) {
  return (position + 1) % group.ranks;
}

// EQ ring-off-node: X = chunk(W, p, r mod p), 0 when n = p
//   W  sent: elements that rank r sends to its successor                                 [elements]
//   n  group.ranks                                                                       [ranks]
//   p  group.ranks_per_node                                                              [ranks]
//   r  position                                                                          [1]
//   X  result: elements of W that leave the node                                         [elements]
// Source: derived: of each ring one rank in p has its successor on another node, and a library runs
//   several rings whose exits rotate over the node's ranks, so that 1/p of what a rank sends leaves
//   the node. The parts of p ranks that send W each sum to W exactly, what one ring takes across.
// Valid:  rings ordered by node; a rank receives what its predecessor sends.
// Tests:  tests/unit/cost/collective_bytes_test.cpp, tests/property/collectives_test.cpp
Elements ring_off_node(Elements sent, Group group, std::int64_t position) {
  if (group.ranks == group.ranks_per_node) {
    return Elements(0);
  }
  return chunk_elements(sent, group.ranks_per_node, position % group.ranks_per_node);
}

/// On a ring a rank receives what its predecessor sends: `sent_by` gives the elements of a rank.
template <class SentBy>
CollectiveBytes on_ring(ElementType type, Group group, std::int64_t position, SentBy sent_by) {
  check(group, position);
  if (group.ranks == 1) {
    return {};
  }
  const std::int64_t before = predecessor(group, position);
  const Elements sent = sent_by(position);
  const Elements received = sent_by(before);
  return {.sent = bytes_of(sent, type),
          .received = bytes_of(received, type),
          .sent_off_node = bytes_of(ring_off_node(sent, group, position), type),
          .received_off_node = bytes_of(ring_off_node(received, group, before), type)};
}

}  // namespace

// EQ ring-all-gather-bytes: W = N - E(r + 1)
//   N     gathered: the whole, as every rank holds it afterwards              [elements]
//   E(i)  chunk_elements: the chunk that rank i brings                        [elements]
//   r     position                                                            [1]
//   W     sent: every chunk but the successor's own; N (n - 1) / n when n divides N  [elements]
// Source: thakur2005, "Allgather", ring algorithm; nccl-tests, doc/PERFORMANCE.md, "AllGather"
// Valid:  one logical ring; what a library sends by another algorithm is not counted.
// Tests:  tests/unit/cost/collective_bytes_test.cpp, tests/property/collectives_test.cpp
CollectiveBytes all_gather_bytes(Elements gathered,
                                 ElementType type,
                                 Group group,
                                 std::int64_t position) {
  return on_ring(type, group, position, [&](std::int64_t rank) {
    return gathered - chunk_elements(gathered, group.ranks, successor(group, rank));
  });
}

// EQ ring-reduce-scatter-bytes: W = N - E(r)
//   N     reduced: the whole, as every rank holds it before                   [elements]
//   E(i)  chunk_elements: the chunk whose sum rank i keeps                    [elements]
//   r     position                                                            [1]
//   W     sent: every chunk but the own; N (n - 1) / n when n divides N       [elements]
// Source: thakur2005, "Reduce-scatter"; nccl-tests, doc/PERFORMANCE.md, "ReduceScatter"
// Valid:  one logical ring; what a library sends by another algorithm is not counted.
// Tests:  tests/unit/cost/collective_bytes_test.cpp, tests/property/collectives_test.cpp
CollectiveBytes reduce_scatter_bytes(Elements reduced,
                                     ElementType type,
                                     Group group,
                                     std::int64_t position) {
  return on_ring(type, group, position, [&](std::int64_t rank) {
    return reduced - chunk_elements(reduced, group.ranks, rank);
  });
}

// EQ ring-all-reduce-bytes: W = 2 N - E(r) - E(r + 1)
//   N     reduced: the whole                                                  [elements]
//   E(i)  chunk_elements: the chunk whose sum rank i holds half-way           [elements]
//   r     position                                                            [1]
//   W     sent: a reduce-scatter, then an all-gather; 2 N (n - 1) / n when n divides N  [elements]
// Source: thakur2005, "Reduce and Allreduce": a reduce-scatter, then an all-gather;
//   nccl-tests, doc/PERFORMANCE.md, "AllReduce"
// Valid:  a payload of fewer elements than ranks leaves some chunks empty: a norm of one element is
//   one chunk. An in-network reduction sends less and is not counted.
// Tests:  tests/unit/cost/collective_bytes_test.cpp, tests/property/collectives_test.cpp
CollectiveBytes all_reduce_bytes(Elements reduced,
                                 ElementType type,
                                 Group group,
                                 std::int64_t position) {
  return on_ring(type, group, position, [&](std::int64_t rank) {
    return 2 * reduced - chunk_elements(reduced, group.ranks, rank) -
           chunk_elements(reduced, group.ranks, successor(group, rank));
  });
}

// EQ all-to-all-bytes: W = M - chunk(M, n, r), X = M - sum over i on r's node of chunk(M, n, i)
//   N  exchanged: the elements of all ranks together                          [elements]
//   M  held: chunk r of N in n, what rank r holds and splits over the group   [elements]
//   n  group.ranks                                                            [ranks]
//   r  position                                                               [1]
//   W  sent; N (n - 1) / n^2 when n^2 divides N                               [elements]
//   X  sent off the node; N (n - p) / n^2 then, p ranks on a node             [elements]
// Source: jacobs2023-ulysses, section 3.2; nccl-tests, doc/PERFORMANCE.md, "AlltoAll"
// Valid:  grouped sends, no relay through other ranks' links counted.
// Tests:  tests/unit/cost/collective_bytes_test.cpp, tests/property/collectives_test.cpp
CollectiveBytes all_to_all_bytes(Elements exchanged,
                                 ElementType type,
                                 Group group,
                                 std::int64_t position) {
  check(group, position);
  const std::int64_t ranks = group.ranks;
  const auto held_by = [&](std::int64_t rank) { return chunk_elements(exchanged, ranks, rank); };
  const auto message = [&](std::int64_t from, std::int64_t to) {
    return chunk_elements(held_by(from), ranks, to);
  };
  const std::int64_t node_begin = position - position % group.ranks_per_node;
  const std::int64_t node_end = node_begin + group.ranks_per_node;
  const Elements held = held_by(position);

  // Held parts take two sizes: the first `larger` ranks hold one element more.
  const std::int64_t larger = exchanged.value() % ranks;
  const Elements from_all =
      larger * message(0, position) + (ranks - larger) * message(ranks - 1, position);
  Elements to_node;
  Elements from_node;
  for (std::int64_t peer = node_begin; peer < node_end; ++peer) {
    to_node += message(position, peer);
    from_node += message(peer, position);
  }
  return {.sent = bytes_of(held - message(position, position), type),
          .received = bytes_of(from_all - message(position, position), type),
          .sent_off_node = bytes_of(held - to_node, type),
          .received_off_node = bytes_of(from_all - from_node, type)};
}

// EQ ring-hop-bytes: W = b
//   b  block: one rank's block, such as its keys and values                   [elements]
//   W  sent, equal to received                                                [elements]
// Source: liu2023-ring-attention, section 3: a block of b per rank and hop, n - 1 of them in all
// Valid:  every rank sends a block of one size to the rank `shift` positions on
// Tests:  tests/unit/cost/collective_bytes_test.cpp, tests/property/collectives_test.cpp
CollectiveBytes ring_hop_bytes(
    Elements block, ElementType type, Group group, std::int64_t position, std::int64_t shift) {
  check(group, position);
  if (group.ranks == 1) {
    return {};
  }
  const auto node_of = [&](std::int64_t steps) {
    return (position + steps % group.ranks + group.ranks) % group.ranks / group.ranks_per_node;
  };
  const Bytes bytes = bytes_of(block, type);
  return {.sent = bytes,
          .received = bytes,
          .sent_off_node = node_of(shift) == node_of(0) ? Bytes(0) : bytes,
          .received_off_node = node_of(-shift) == node_of(0) ? Bytes(0) : bytes};
}

// EQ uneven-all-to-all-bytes: W = sum over i != r of s(i)
//   s(i)  to_peer: elements for rank i (from_peer for what is received)       [elements]
//   r     position                                                            [1]
//   W     sent                                                                [elements]
// Source: derived: the definition of an all-to-all with counts
// Valid:  grouped sends, no relay through other ranks' links counted.
// Tests:  tests/unit/cost/collective_bytes_test.cpp
CollectiveBytes uneven_all_to_all_bytes(std::span<const Elements> to_peer,
                                        std::span<const Elements> from_peer,
                                        ElementType type,
                                        Group group,
                                        std::int64_t position) {
  check(group, position);
  ensure(static_cast<std::int64_t>(to_peer.size()) == group.ranks &&
             static_cast<std::int64_t>(from_peer.size()) == group.ranks,
         "uneven all-to-all: a count for each rank is needed");
  CollectiveBytes total;
  for (std::int64_t peer = 0; peer < group.ranks; ++peer) {
    if (peer == position) {
      continue;
    }
    const Bytes sent = bytes_of(to_peer[static_cast<std::size_t>(peer)], type);
    const Bytes received = bytes_of(from_peer[static_cast<std::size_t>(peer)], type);
    total.sent += sent;
    total.received += received;
    if (peer / group.ranks_per_node != position / group.ranks_per_node) {
      total.sent_off_node += sent;
      total.received_off_node += received;
    }
  }
  return total;
}

}  // namespace trireme::cost
