// Collectives as messages: which rank sends how much to which other, in which order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/engine/network/topology.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// The GPUs of a collective's ranks, in the group's order.
using PlacedRanks = std::span<const std::int64_t>;

enum class Delivery : std::uint8_t {
  one_to_one,
  // In the switches of a node, between one rank and all of the group's on the node, itself included
  switch_copies,  // `from` sends once, each receives all of it
  switch_adds     // each sends all of it, `to` receives once
};

/// One message. Ranks are places in the group. It begins when both of its ranks are through with
/// all of their messages of earlier steps.
struct Message {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t step = 0;
  Delivery delivery = Delivery::one_to_one;
  Bytes amount;

  friend bool operator==(const Message&, const Message&) = default;
};

/// One way to do a collective.
struct Algorithm {
  std::string_view name;
  std::string_view collective;  // as in kCollectiveNames, or a gather to the first rank
  std::string_view description;
  std::string_view bibliography_key;
  /// Whether the ranks are such that it can be done this way.
  bool (*applies)(PlacedRanks ranks, const Topology& topology);
  /// `payload` as cost/collectives.h counts it: gathered, reduced, exchanged over all ranks.
  /// Algorithms that stream cut it into `pieces`, others do not. Messages that carry nothing are
  /// left out.
  std::vector<Message> (*expand)(Bytes payload,
                                 PlacedRanks ranks,
                                 const Topology& topology,
                                 std::int64_t pieces);
  /// The same added up over steps: what each pair exchanges in all. In no particular order.
  std::vector<Message> (*add_up)(Bytes payload, PlacedRanks ranks, const Topology& topology);
  /// Where every rank sends to every other by itself: what `from` has for `to`, of `n` ranks.
  Bytes (*of_pair)(Bytes payload, std::int64_t n, std::int64_t from, std::int64_t to) = nullptr;
};

[[nodiscard]] std::span<const Algorithm> algorithm_table();

/// Throws std::logic_error when there is none.
[[nodiscard]] const Algorithm& find_algorithm(std::string_view collective, std::string_view name);

/// How communication libraries do a collective where nothing is known of their choice: rings, one
/// for each rank of a node, all-to-all directly, all-reduce in the switches where `in_switches`.
///
/// Source: nccl, src/graph/connect.cc (rings), src/enqueue.cc (grouped sends and receives)
[[nodiscard]] const Algorithm& usual_algorithm(CollectiveKind kind, bool in_switches);

/// The links that a message loads, in place of what `links` held.
void links_of(const Message& message,
              PlacedRanks ranks,
              const Topology& topology,
              std::vector<LinkId>& links);

/// What a collective sends over each link in all, by link; links that it does not load are left
/// out.
[[nodiscard]] std::vector<LinkLoad> link_loads(const Algorithm& algorithm,
                                               Bytes payload,
                                               PlacedRanks ranks,
                                               const Topology& topology);

}  // namespace trireme::engine
