// Flows that share links max-min fairly, over time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/units/units.h"

namespace trireme::engine {

using LinkId = std::uint32_t;
using FlowId = std::uint32_t;

/// A fluid network: each flow has a rate, and rates change only when flows start or end.
///
/// EQ max-min-rates: r = min over links C / n, again for the flows that are left, until none is:
///   a flow that crosses a link which reaches the minimum keeps r, and its links lose r of C and 1
///   of n. Then every flow crosses a saturated link on which no flow is faster.
///   C  what is left of a link's capacity      [bytes/second]
///   n  flows over it that have no rate yet    [1]
///   r  their rate                             [bytes/second]
/// Source: bertsekas1992, section 6.5.2, max-min flow control
/// Valid:  flows long against a round trip; no reordering, no loss
/// Tests:  tests/unit/engine/flow_network_test.cpp, tests/property/flow_network_test.cpp
class FlowNetwork {
 public:
  /// One direction of a link.
  LinkId add_link(BytesPerSecond capacity);

  /// Starts a flow of `amount` over `path` now. A path without links carries it at once.
  FlowId start(std::span<const LinkId> path, Bytes amount);

  [[nodiscard]] Seconds now() const { return Seconds(now_); }

  /// When the next flow ends; empty when none is under way.
  [[nodiscard]] std::optional<Seconds> next_end();

  /// Lets time pass up to `time`, which is not beyond next_end(); returns the flows that end there,
  /// in the order in which they started. They are valid until the next call.
  std::span<const FlowId> advance(Seconds time);

  /// Rate of a flow that is under way.
  [[nodiscard]] BytesPerSecond rate(FlowId flow);

  [[nodiscard]] std::size_t active() const { return active_.size(); }

 private:
  struct Flow {
    std::uint32_t first_hop = 0;
    std::uint32_t hops = 0;
    double left = 0;  // bytes
    double rate = 0;  // bytes per second
  };

  struct Link {
    double capacity = 0;
    double left = 0;
    std::uint32_t unfixed = 0;
    std::uint32_t first_flow = 0;
  };

  [[nodiscard]] std::span<const LinkId> path(const Flow& flow) const {
    return std::span(hops_).subspan(flow.first_hop, flow.hops);
  }

  void share();
  void list_flows_by_link();
  void fix(FlowId flow, double rate);

  double now_ = 0;
  bool shared_ = true;
  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<LinkId> hops_;
  std::vector<FlowId> active_;  // ascending
  std::vector<FlowId> ended_;
  std::vector<FlowId> flow_of_link_;  // active flows, link by link
  std::vector<LinkId> filling_;       // links with flows that are not fixed
  std::vector<std::uint8_t> fixed_;
};

}  // namespace trireme::engine
