// Collectives in which every rank sends to every other by itself. Included by expansion.cpp alone.
#pragma once

#include "sim/engine/network/expansion_parts.h"

namespace trireme::engine::expansion {

/// What `from` has for `to` of an all-to-all.
inline Bytes exchanged(Bytes payload, std::int64_t n, std::int64_t from, std::int64_t to) {
  return part(part(payload, n, from), n, to);
}

inline Bytes gathered(Bytes payload, std::int64_t n, std::int64_t from, std::int64_t /*to*/) {
  return part(payload, n, from);
}

inline Bytes scattered(Bytes payload, std::int64_t n, std::int64_t /*from*/, std::int64_t to) {
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

}  // namespace trireme::engine::expansion
