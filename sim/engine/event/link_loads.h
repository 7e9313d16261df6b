// What collectives take of the links of the cluster while they are in flight.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/engine/event/meetings.h"
#include "sim/engine/event/rank_classes.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/network/near_loads.h"
#include "sim/engine/network/topology.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// The machine's links; where it has none, nodes with a port for each GPU, and fast switches.
[[nodiscard]] TopologyShape links_of_machine(const Machine& machine, std::int64_t ranks);

/// Of every rank a number: ranks with equal ones have groups that lie alike over the pods of the
/// cluster, so that their collectives load alike links.
[[nodiscard]] std::vector<std::uint32_t> alignment_to_pods(std::span<const program::Program> stages,
                                                           const TopologyShape& shape);

/// Links, as far as collectives can tell them apart: those that are loaded alike are one, and those
/// around the first rank of each class stand for the others.
///
/// EQ link-use: u = k min(1, b N / (R T))
///   b  bytes of a group over the link, for each byte of its payload, by the algorithm that NCCL
///      chooses, on the routes of the cluster                                  [1]
///   k  groups of one meeting over the link, which are in flight together       [1]
///   N  payload                                                                 [bytes]
///   R  what the collective reaches on such a link at best (its beta); of the spine the
///      capacity                                                               [bytes/second]
///   T  seconds when nothing contends                                          [seconds]
///   u  result: a link with more than 1 in sum is shared                       [1]
/// Source: derived: the link's share of the closed form's seconds
/// Valid:  a collective that loads its links evenly from its beginning to its end
/// Tests:  tests/unit/engine/event_contention_test.cpp, tests/unit/engine/event_spine_test.cpp
class LinkLoads {
 public:
  /// `alone`: seconds of every operation, by its number in the schedule. Messages between stages
  /// load nothing here: they do not contend.
  LinkLoads(const Schedule& schedule,
            const Machine& machine,
            const RankClasses& classes,
            const Meetings& meetings,
            std::span<const Seconds> alone);

  /// Of them; numbered from 0.
  [[nodiscard]] std::uint32_t links() const { return links_; }

  /// Calls `visit(link, u)` for the links that a collective of a meeting, or a hop of a class,
  /// loads.
  template <class Visit>
  void for_each_link(std::uint32_t member, std::uint32_t op, Visit visit) const {
    const Scale& scale = scale_of_op_[op];
    for (const Load& load : loads(member, op)) {
      visit(load.link, load.groups * std::min(1.0, load.bytes * scale.of[load.rate]));
    }
  }

  /// The largest part of a link that one of the meeting's groups takes.
  [[nodiscard]] double fullest(std::uint32_t member, std::uint32_t op) const;

 private:
  enum Rate : std::uint8_t { inside, nic, spine };

  struct Load {
    std::uint32_t link = 0;
    Rate rate = Rate::inside;
    double bytes = 0;   // of one group, for each of its payload's, over the link's part of `rate`
    double groups = 0;  // k
  };

  static constexpr std::uint32_t kNoWay = 0xffffffff;

  /// N / (R T) by Rate.
  struct Scale {
    std::array<double, 3> of{};
    std::uint32_t way = kNoWay;
  };

  /// One way of sending on one communicator: an algorithm, or hops of one distance.
  struct Way {
    StreamSlot slot = 0;
    const Algorithm* algorithm = nullptr;
    std::int64_t shift = 0;  // of hops

    friend bool operator==(const Way&, const Way&) = default;
  };

  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  class Finder;

  [[nodiscard]] std::span<const Load> loads(std::uint32_t member, std::uint32_t op) const {
    if (scale_of_op_[op].way == kNoWay) {
      return {};
    }
    const Range& range = ranges_[scale_of_op_[op].way * members_ + member];
    return std::span(loads_).subspan(range.first, range.count);
  }

  std::uint32_t links_ = 0;
  std::size_t members_ = 0;  // meetings, or classes if they are more
  std::vector<Scale> scale_of_op_;
  std::vector<Range> ranges_;  // by way and member
  std::vector<Load> loads_;
};

}  // namespace trireme::engine
