// Collectives in which ranks pass on what they were given: in as many steps as the logarithm of the
// ranks, or by way of a rank of the node. Included by expansion.cpp alone.
#pragma once

#include <algorithm>

#include "sim/engine/network/expansion_pairs.h"
#include "sim/engine/network/expansion_parts.h"

namespace trireme::engine::expansion {

inline Messages doubling_all_gather(Bytes payload,
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

inline Messages halving_reduce_scatter(Bytes payload,
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

inline Messages doubling_all_reduce(Bytes payload,
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

inline Messages bruck_all_gather(Bytes payload,
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

inline Messages bruck_all_to_all(Bytes payload,
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
inline Messages hierarchical_all_to_all(Bytes payload,
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
inline Messages linear_gather(Bytes payload,
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

}  // namespace trireme::engine::expansion
