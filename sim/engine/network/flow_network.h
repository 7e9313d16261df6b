// Flows that share links max-min fairly, over time.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "sim/units/units.h"

namespace trireme::engine {

using LinkId = std::uint32_t;
using FlowId = std::uint32_t;

/// What a job sends over one direction of a link, from its beginning to its end.
struct LinkLoad {
  LinkId link = 0;
  Bytes amount;

  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

/// No cap on a flow's rate.
inline constexpr BytesPerSecond kUncapped{std::numeric_limits<double>::infinity()};

/// A fluid network: each flow has a rate, and rates change only when flows start or end, and only
/// among flows that share links with those, directly or through others. What an ended flow held is
/// used again, its id too.
///
/// EQ max-min-rates: r(f) = min(cap(f), s(f) x), with one x for all flows that have no rate yet: it
///   rises until a flow reaches its cap or a link is full, which fixes that flow, or the flows over
///   that link; then again for the flows that are left. Of a link: sum of w r <= C
///   r  rate of a flow                                         [bytes/second]
///   C  capacity of a link                                     [bytes/second]
///   w  load: bytes on a link for each byte (second) of a flow (job); 1 of a flow    [1]
///   s  share: 1 of a flow; of a job 1 / w on the link that it fills most, so that x is what it
///      takes of that link's capacity                          [1]
/// Source: bertsekas1992, section 6.5.2, max-min flow control; ghodsi2011-drf for jobs, which load
///   several links unequally
/// Valid:  flows long against a round trip; no reordering, no loss
/// Tests:  tests/unit/engine/flow_network_test.cpp, tests/property/flow_network_test.cpp
class FlowNetwork {
 public:
  /// One direction of a link.
  LinkId add_link(BytesPerSecond capacity);

  /// Starts a flow of `amount` over `path` now. A path without links carries it at `cap`.
  FlowId start(std::span<const LinkId> path, Bytes amount, BytesPerSecond cap = kUncapped);

  /// Starts a job now: something that takes the time `alone` when nothing contends, a whole
  /// collective for instance, and loads its links evenly over that time. It is never faster, and
  /// slower where the links that it loads are full. Each link is named once. While no link of a job
  /// is full it ends exactly `alone` after its start; a job that by itself asks more of a link than
  /// there is counts as filling it.
  FlowId start_job(std::span<const LinkLoad> loads, Seconds alone);

  /// Starts jobs that are alike and in step, as one: `loads` are those of all together, which may
  /// ask for more than there is, and one of them fills the part `fullest` of a link.
  FlowId start_jobs(std::span<const LinkLoad> loads, Seconds alone, double fullest);

  [[nodiscard]] Seconds now() const { return Seconds(now_); }

  /// When the next flow ends; empty when none is under way.
  [[nodiscard]] std::optional<Seconds> next_end();

  /// Lets time pass up to `time`, which is not beyond next_end(); returns the flows that end there,
  /// in the order in which they started. The list is valid until the next call.
  std::span<const FlowId> advance(Seconds time);

  /// Rate of a flow that is under way.
  [[nodiscard]] BytesPerSecond rate(FlowId flow);

  /// Speed of a job that is under way, as a fraction of its speed alone.
  [[nodiscard]] double speed(FlowId job);

  /// Flows and jobs that are under way.
  [[nodiscard]] std::size_t active() const { return active_; }

 private:
  struct Hop {
    LinkId link = 0;
    std::uint32_t place = 0;  // in the link's list
    double load = 1;          // w
  };

  /// Amounts are bytes of a flow, seconds of a job; rates are those per second.
  struct Flow {
    std::uint32_t first_hop = 0;
    std::uint32_t hops = 0;
    std::uint32_t component = 0;
    bool fixed = false;
    std::uint64_t order = 0;  // of starting
    std::uint64_t seen = 0;
    double left = 0;   // at `since`
    double since = 0;  // when the rate changed last
    double rate = 0;
    double next_rate = 0;
    double cap = 0;
    double share = 1;  // s
    double end = 0;
  };

  struct Use {
    FlowId flow = 0;
    std::uint32_t hop = 0;
  };

  struct Link {
    double capacity = 0;
    std::vector<Use> flows;  // under way over it
    std::uint64_t seen = 0;
    bool changed = false;
    // While rates are shared out:
    double left = 0;    // capacity
    double weight = 0;  // sum of w s over flows without a rate
    double summed = 0;  // the weight when it was last summed rather than subtracted from
    std::uint32_t unfixed = 0;
  };

  /// Flows that share links, directly or through others.
  struct Component {
    std::vector<FlowId> flows;
    double soonest = 0;
    std::uint32_t version = 0;  // grows when the component is gone
  };

  struct End {
    double time = 0;
    std::uint32_t component = 0;
    std::uint32_t version = 0;
  };

  struct Filling {
    double level = 0;
    std::uint32_t id = 0;  // a link or a flow
  };

  FlowId new_flow(std::size_t hops, double amount, double cap);
  FlowId new_job(std::span<const LinkLoad> loads, Seconds alone);
  void enter_links(FlowId id);
  void leave_links(FlowId id);
  void share();
  std::uint32_t new_component();
  void drop_component(std::uint32_t id);
  void collect(LinkId seed, Component& component);
  void fill(const Component& component);
  void fix(FlowId id, double rate);
  double level(LinkId id);
  void refresh_least();
  void apply_rates(std::uint32_t id);
  void queue_end(std::uint32_t id);
  void end_flows_of(std::uint32_t id);
  [[nodiscard]] std::optional<Seconds> next_end_shared();

  [[nodiscard]] bool is_gone(const End& end) const {
    return components_[end.component].version != end.version;
  }

  double now_ = 0;
  std::size_t active_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t epoch_ = 0;
  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<FlowId> free_flows_;
  std::vector<Hop> hops_;
  std::vector<std::vector<std::uint32_t>> free_hops_;  // by their number
  std::vector<Component> components_;
  std::vector<std::uint32_t> free_components_;
  std::vector<End> ends_;  // a heap: the soonest on top, also of components that are gone
  std::vector<LinkId> changed_links_;
  std::vector<FlowId> ended_;
  // While rates are shared out:
  std::vector<LinkId> component_links_;
  std::vector<Filling> filling_;  // a heap: the least level on top
  std::vector<Filling> capped_;   // ascending
  std::vector<LinkId> bottlenecks_;
};

}  // namespace trireme::engine
