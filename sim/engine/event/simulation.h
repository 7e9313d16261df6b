// One run of the event reader (event.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/event/event.h"
#include "sim/engine/event/event_queue.h"
#include "sim/engine/event/meetings.h"
#include "sim/engine/event/rank_classes.h"
#include "sim/engine/event/rates.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/event/variation.h"

namespace trireme::engine {

class Simulation {
 public:
  /// All arguments must outlive the simulation.
  Simulation(const Schedule& schedule,
             const Machine& machine,
             const OpTimes& times,
             const EventOptions& options,
             const TaskObserver& observer);

  [[nodiscard]] EventResult run();

 private:
  /// What a task is to the clock.
  struct Step {
    enum class Kind : std::uint8_t { kernel, collective, hop, message };

    Seconds seconds;   // of the slowest rank
    Seconds launched;  // when the host has issued it
    std::uint32_t wakes = 0;
    std::uint32_t first_wait = 0;
    std::uint16_t waits = 0;
    StreamSlot slot = kComputeSlot;
    bool also_compute = false;
    bool uneven = false;        // ranks have seconds of their own
    bool joins_stages = false;  // a message, or a collective over several stages
    Kind kind = Kind::kernel;
    Component component = Component::attention;
    std::int16_t peer_stage = 0;          // of a message between stages
    bool at_sender = false;               // of a message: else at its receiver
    StreamSlot peer_slot = kComputeSlot;  // of a message: its stream there
    std::uint32_t ring = 0;               // of a hop
    std::uint32_t hops_before = 0;        // around its ring
  };

  /// One stream of one class of ranks.
  struct Stream {
    std::uint32_t next = 0;  // tasks that have ended
    bool busy = false;
    Seconds arrived;  // when the rank came to the task under way
    Seconds started;  // when that started: a collective waits for its partners
    Seconds free;     // when the last task ended
    Seconds busy_seconds;
  };

  struct Meeting {
    std::uint32_t arrived = 0;
    Seconds start;
  };

  /// Arrivals of a class and its neighbours at its hop around a ring and at the next one, by
  /// parity: a neighbour may be one hop ahead, not more.
  struct Hop {
    std::array<std::uint8_t, 2> arrived{};
  };

  /// Why the compute stream of one class stood still.
  struct Idle {
    ledger::PerCollective<Seconds> collective{};
    Seconds host_copy;
    Seconds launch;
    Seconds bubble;
  };

  struct Event {
    std::uint32_t entity = 0;  // a stream, a meeting, or a stream that the host launches on
    TaskId task = 0;
    std::uint32_t version = 0;  // of the entity's speed
  };

  /// The op of a cause that is the host's launch.
  static constexpr TaskId kLaunch = 0xffffffff;

  void fold(const Machine& machine);
  /// Prepares for work that runs beside other work, when there is such in the schedule.
  [[nodiscard]] bool links_may_be_shared(const Machine& machine) const;
  void prepare_rates(const Machine& machine);
  void unroll(Seconds launch);

  [[nodiscard]] std::uint32_t stream(std::uint32_t who, StreamSlot slot) const {
    return (who << slot_bits_) | slot;
  }

  [[nodiscard]] const program::Op& op_of(TaskId task) const {
    return schedule_.op_of(schedule_.task(task));
  }

  [[nodiscard]] std::span<const TaskId> tasks_of(std::uint32_t who, StreamSlot slot) const {
    return schedule_.tasks_of(slot, stage_of_[who]);
  }

  /// The task at the head of a stream.
  [[nodiscard]] TaskId head(std::uint32_t who, StreamSlot slot) const {
    return tasks_of(who, slot)[streams_[stream(who, slot)].next];
  }

  /// Seconds of a task on a class, its factors not included.
  [[nodiscard]] Seconds seconds_of(std::uint32_t who, TaskId task) const {
    return steps_[task].uneven
               ? times_.on(
                     schedule_.program().mesh(), classes_.first_rank[who], schedule_.task(task).op)
               : steps_[task].seconds;
  }

  void settle_rates();
  void handle(const Event& event);
  void begin_work(std::uint32_t entity, TaskId task, Seconds seconds);
  void start_what_can(std::uint32_t who, std::uint32_t slots, TaskId cause);
  std::uint32_t try_start(std::uint32_t who, StreamSlot slot, TaskId cause);
  std::uint32_t start(std::uint32_t who, TaskId task, const Step& step);
  void meet(std::uint32_t who, TaskId task, const Step& step);
  void hop(std::uint32_t who, TaskId task, const Step& step);
  void come_to_message(std::uint32_t who, TaskId task, const Step& step);
  void end_message(std::uint32_t who, TaskId task);
  std::uint32_t finish(std::uint32_t who, TaskId task, Seconds started);
  void book_idle(std::uint32_t who, TaskId cause, Seconds idle);
  [[nodiscard]] bool waits_are_over(std::uint32_t who, const Step& step) const;
  EventResult conclude();

  const Schedule& schedule_;
  const OpTimes& times_;
  const EventOptions& options_;
  const TaskObserver& observer_;
  KernelFactors factors_;
  RankClasses classes_;
  std::optional<Meetings> who_meets_;
  std::uint32_t slot_bits_ = 0;
  std::uint32_t slots_ = 0;
  std::vector<Step> steps_;            // by TaskId
  std::vector<Stream> streams_;        // by class and slot
  std::vector<Meeting> meetings_;      // by number in who_meets_
  std::vector<Hop> hops_;              // by class and ring
  std::vector<bool> one_is_there_;     // by stream of the sender: an end of its next message
  std::vector<std::size_t> stage_of_;  // by class
  std::vector<Idle> idle_;             // by class
  std::vector<TaskId> last_;           // by class: the task that ended last
  std::vector<Seconds> end_;           // by class
  std::optional<Rates> rates_;
  EventQueue<Event> queue_;
  Seconds now_;
  EventResult result_;
};

}  // namespace trireme::engine
