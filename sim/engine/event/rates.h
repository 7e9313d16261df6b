// The speed of what runs beside something else: collectives that share links, kernels and
// collectives on one GPU.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/interference.h"
#include "sim/engine/event/link_use.h"
#include "sim/engine/event/meetings.h"
#include "sim/engine/event/schedule.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// What an operation takes from others, and loses to them.
struct Demand {
  bool collective = false;
  cost::KernelBound bound = cost::KernelBound::compute;  // of a kernel
  LinkUse links;                                         // of a collective
};

/// Which effects are modelled.
struct Effects {
  bool contention = false;
  std::optional<cost::InterferenceCosts> interference;
  std::int64_t multiprocessors = 1;
};

/// Speeds of the work in flight, as fractions of what it would have alone. A class's links stand
/// for those of each of its ranks: every rank is in one group of each communicator, so that ranks
/// of a class share their links with work of the same classes.
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
        const Effects& effects);

  /// Work starts, alone for all that is known, and takes `seconds` so.
  void begin(std::uint32_t entity, TaskId task, Seconds seconds, Seconds now);

  void end(std::uint32_t entity);

  /// Events of an entity carry this number; those with an earlier one are out of date.
  [[nodiscard]] std::uint32_t version(std::uint32_t entity) const { return work_[entity].version; }

  /// Whether kernels matter to it: else only collectives begin and end here.
  [[nodiscard]] bool takes_kernels() const { return effects_.interference.has_value(); }

  [[nodiscard]] bool settled() const { return touched_.empty(); }

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
    bool crowded = false;   // its collectives ask more of a link than there is
  };

  [[nodiscard]] bool is_meeting(std::uint32_t entity) const { return entity >= streams_; }

  void touch(std::uint32_t who);
  void touch_all(std::uint32_t entity);
  void look_at(std::uint32_t who);
  void share_links();
  void set_share(std::uint32_t entity, double share);
  void list(std::uint32_t entity);
  [[nodiscard]] double speed_of(std::uint32_t entity) const;

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
  std::uint32_t crowded_ = 0;               // classes
  bool shared_ = false;                     // some collective has less than its full share
  std::vector<Rescheduled> rescheduled_;
};

}  // namespace trireme::engine
