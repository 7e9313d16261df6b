// Collectives around rings. Included by expansion.cpp alone.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "sim/engine/network/expansion_parts.h"

namespace trireme::engine::expansion {

/// Rings over the same ranks; each carries its part of every rank's chunk.
using Rings = std::vector<std::vector<std::int64_t>>;

inline Rings one_ring(PlacedRanks ranks, const Topology& /*topology*/) {
  std::vector<std::int64_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  return {std::move(order)};
}

/// A ring for each rank of a node: ring k enters a node at its k-th rank and goes once around the
/// node, so that each rank's NIC is the way in of one ring.
inline Rings ring_for_each_nic(PlacedRanks ranks, const Topology& topology) {
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
inline Bytes ring_part(
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

inline Messages ring_exchange(Bytes payload,
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

inline Messages ring_exchange_in_all(Bytes payload,
                                     PlacedRanks ranks,
                                     const Topology& /*topology*/) {
  const std::int64_t n = count(ranks);
  Messages messages;
  for (std::int64_t i = 0; n > 1 && i < n; ++i) {
    add(messages, i, (i + 1) % n, 0, (n - 1) * part(payload, n, 0));
  }
  return messages;
}

}  // namespace trireme::engine::expansion
