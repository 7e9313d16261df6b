// Runs collectives message by message on a topology.
#pragma once

#include <span>
#include <vector>

#include "sim/engine/network/expansion.h"
#include "sim/engine/network/topology.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// Messages, sorted by step, of one collective that begins at `start`.
struct RunningCollective {
  std::span<const Message> messages;
  PlacedRanks ranks;
  Seconds start;
};

/// When each collective ends, all of them sharing the links of `topology`.
///
/// EQ message-time: t = s + L + the time in which its flow carries its amount, s = max over its two
///   ranks of the ends of their messages of earlier steps
///   s  when the message begins                                                    [seconds]
///   L  topology.latency: once for the message, during which it loads no link      [seconds]
///   t  when it ends                                                               [seconds]
/// Source: casanova2014-simgrid, section 4.1: latency, then a fluid flow
/// Valid:  messages that both sides have come to (rendezvous); no start-up of a collective
/// Tests:  tests/unit/engine/run_messages_test.cpp, tests/validation/simgrid_test.cpp
[[nodiscard]] std::vector<Seconds> run_messages(const Topology& topology,
                                                std::span<const RunningCollective> collectives);

/// The same of one collective, from zero.
[[nodiscard]] Seconds run_alone(const Topology& topology,
                                const Algorithm& algorithm,
                                Bytes payload,
                                PlacedRanks ranks,
                                std::int64_t pieces = 1);

}  // namespace trireme::engine
