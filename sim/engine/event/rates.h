// The speed of what runs beside something else: collectives that share links, kernels and
// collectives on one GPU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/cost/interference.h"
#include "sim/engine/event/link_loads.h"
#include "sim/engine/event/meetings.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/network/flow_network.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// What an operation takes from others, and loses to them.
struct Demand {
  program::OpId op = 0;
  bool collective = false;
  cost::KernelBound bound = cost::KernelBound::compute;  // of a kernel
};

/// Which effects are modelled.
struct Effects {
  std::optional<LinkLoads> contention;
  std::optional<cost::InterferenceCosts> interference;
  std::int64_t multiprocessors = 1;
};

/// Speeds of the work in flight, as fractions of what it would have alone.
///
/// Work is named by the stream of its class, or by its meeting beyond those.
class Rates {
 public:
  struct Rescheduled {
    std::uint32_t entity = 0;
    TaskId task = 0;
    Seconds end;
  };

  Rates(const Meetings& meetings,
        std::size_t classes,
        std::uint32_t slots,
        std::uint32_t slot_bits,
        std::vector<Demand> demand_of_task,
        Effects effects);

  /// Work starts, alone for all that is known, and takes `seconds` so.
  void begin(std::uint32_t entity, TaskId task, Seconds seconds, Seconds now);

  void end(std::uint32_t entity);

  /// Events of an entity carry this number; those with an earlier one are out of date.
  [[nodiscard]] std::uint32_t version(std::uint32_t entity) const { return work_[entity].version; }

  /// Whether kernels matter to it: else only collectives begin and end here.
  [[nodiscard]] bool takes_kernels() const { return effects_.interference.has_value(); }

  [[nodiscard]] bool settled() const { return touched_.empty() && !links_changed_; }

  /// Brings the speeds up to date after all that began and ended at one instant, and returns the
  /// work whose end has moved. Valid until the next call.
  std::span<const Rescheduled> settle(Seconds now);

 private:
  struct Work {
    double left = 0;  // seconds at full speed, at `since`
    double speed = 1;
    Seconds since;
    TaskId task = 0;
    std::uint32_t version = 0;
    bool in_flight = false;
    bool listed = false;
    std::uint32_t place = 0;   // in collectives_
    std::uint32_t beside = 0;  // of a collective: members on which a kernel runs
    double share = 1;          // of a collective: what the links let it have
  };

  /// One class of ranks.
  struct Gpu {
    bool touched = false;
    bool computes = false;  // a kernel runs
  };

  /// One link of LinkLoads.
  struct Link {
    double asked = 0;  // parts of it, by what is in flight
    std::uint32_t users = 0;
    LinkId in_network = 0;
    std::uint64_t numbered = 0;  // the sharing in which that is its number

    /// Sums that are more than there is by rounding only are not.
    [[nodiscard]] bool crowded() const { return asked > 1 + 1e-9; }
  };

  [[nodiscard]] bool is_meeting(std::uint32_t entity) const { return entity >= streams_; }

  void touch(std::uint32_t who);
  void look_at(std::uint32_t who);
  void load_links(std::uint32_t entity, bool begins);
  void share_links();
  void set_share(std::uint32_t entity, double share);
  void list(std::uint32_t entity);
  [[nodiscard]] double speed_of(std::uint32_t entity) const;

  /// What LinkLoads knows work by.
  [[nodiscard]] std::uint32_t member(std::uint32_t entity) const {
    return is_meeting(entity) ? entity - streams_ : entity >> slot_bits_;
  }

  template <class Visit>
  void for_each_member(std::uint32_t entity, Visit visit) const;
  /// Calls `visit(entity)` for the collectives that a class has in flight.
  template <class Visit>
  void for_each_collective(std::uint32_t who, Visit visit) const;

  const Meetings& meetings_;
  std::uint32_t slots_;
  std::uint32_t slot_bits_;
  std::uint32_t streams_;
  std::vector<Demand> demand_of_task_;
  Effects effects_;
  std::vector<Work> work_;
  std::vector<Gpu> gpus_;
  std::vector<std::uint32_t> collectives_;  // in flight
  std::vector<std::uint32_t> touched_;      // classes
  std::vector<std::uint32_t> listed_;       // entities whose speed may change
  std::vector<Link> links_;
  std::uint32_t crowded_ = 0;    // of them
  bool links_changed_ = false;   // collectives began or ended where links are crowded, or were
  std::uint64_t sharing_ = 0;    // how often links were shared
  std::vector<LinkLoad> loads_;  // while they are
  std::vector<std::pair<std::uint32_t, FlowId>> jobs_;
  std::vector<Rescheduled> rescheduled_;
};

}  // namespace trireme::engine
