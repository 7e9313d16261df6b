#include "sim/engine/event/event.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <queue>
#include <utility>

#include "sim/core/counter_random.h"
#include "sim/engine/event/rank_classes.h"
#include "sim/engine/time_booking.h"

namespace trireme::engine {

using program::AxisMask;
using program::Family;
using program::Op;
using program::Program;

namespace {

/// The ranks (classes) that meet in one collective at a time, on one communicator.
struct Meeting {
  std::vector<std::uint32_t> members;
  std::uint32_t arrived = 0;
};

struct Event {
  Seconds time;
  std::uint64_t number;  // in the order of scheduling: the rule for ties
  std::uint32_t who;     // a class, or a meeting
  TaskId task;
  bool meeting;
};

struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }
};

class Simulation {
 public:
  Simulation(const Schedule& schedule,
             std::vector<Seconds> duration_of_op,
             const EventOptions& options,
             const TaskObserver& observer)
      : schedule_(schedule),
        program_(schedule.program()),
        duration_of_op_(std::move(duration_of_op)),
        options_(options),
        observer_(observer),
        slots_(schedule.slots()) {
    fold();
    build_meetings();
    const std::size_t streams = classes_.first_rank.size() * slots_;
    next_.assign(streams, 0);
    busy_.assign(streams, 0);
    end_.assign(classes_.first_rank.size(), Seconds(0));
    started_.assign(streams, Seconds(0));
  }

  EventResult run() {
    for (std::uint32_t who = 0; who < classes_.first_rank.size(); ++who) {
      start_what_can(who, Seconds(0));
    }
    while (!queue_.empty()) {
      const Event event = queue_.top();
      queue_.pop();
      ++result_.events;
      if (!event.meeting) {
        finish(event.who, event.task, event.time);
        start_what_can(event.who, event.time);
        continue;
      }
      Meeting& meeting = meetings_[event.who];
      meeting.arrived = 0;
      for (const std::uint32_t member : meeting.members) {
        finish(member, event.task, event.time);
      }
      for (const std::uint32_t member : meeting.members) {
        start_what_can(member, event.time);
      }
    }
    return conclude();
  }

 private:
  void fold() {
    const auto ranks = static_cast<std::size_t>(program_.mesh().ranks());
    factor_of_rank_.assign(ranks, 1);
    for (const Straggler& straggler : options_.stragglers) {
      factor_of_rank_[static_cast<std::size_t>(straggler.rank)] = straggler.factor;
    }
    std::vector<std::uint32_t> own(ranks);
    std::map<double, std::uint32_t> kinds;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto number = static_cast<std::uint32_t>(kinds.size());
      own[rank] = options_.unfolded || options_.jitter > 0
                      ? static_cast<std::uint32_t>(rank)
                      : kinds.try_emplace(factor_of_rank_[rank], number).first->second;
    }
    classes_ = fold_ranks(program_, own);
  }

  void build_meetings() {
    const program::Mesh& mesh = program_.mesh();
    meeting_of_.assign(classes_.first_rank.size() * slots_, 0);
    for (StreamSlot slot = 0; slot < slots_; ++slot) {
      const AxisMask group = group_of(slot);
      if (group == 0) {
        continue;
      }
      const auto outside = static_cast<AxisMask>(mesh.all_axes() & ~group);
      std::vector<std::vector<std::uint32_t>> members(
          static_cast<std::size_t>(mesh.group_size(outside)));
      for (std::size_t rank = 0; rank < classes_.class_of_rank.size(); ++rank) {
        members[static_cast<std::size_t>(mesh.position(static_cast<std::int64_t>(rank), outside))]
            .push_back(classes_.class_of_rank[rank]);
      }
      std::map<std::vector<std::uint32_t>, std::uint32_t> known;
      for (std::vector<std::uint32_t>& list : members) {
        std::sort(list.begin(), list.end());
        const auto [entry, is_new] =
            known.try_emplace(list, static_cast<std::uint32_t>(meetings_.size()));
        if (is_new) {
          Meeting meeting;
          std::unique_copy(list.begin(), list.end(), std::back_inserter(meeting.members));
          meetings_.push_back(std::move(meeting));
        }
        for (const std::uint32_t who : meetings_[entry->second].members) {
          meeting_of_[stream(who, slot)] = entry->second;
        }
      }
    }
  }

  /// The group of the collectives on a stream; none for compute and host copies.
  [[nodiscard]] AxisMask group_of(StreamSlot slot) const {
    for (const TaskId task : schedule_.tasks_of(slot)) {
      const Op& op = program_.op(schedule_.task(task).op);
      if (op.function == program::Function::collective && slot != kComputeSlot) {
        return op.group;
      }
    }
    return 0;
  }

  [[nodiscard]] std::size_t stream(std::uint32_t who, StreamSlot slot) const {
    return who * slots_ + slot;
  }

  [[nodiscard]] bool heads(std::uint32_t who, StreamSlot slot, TaskId task) const {
    const auto tasks = schedule_.tasks_of(slot);
    const std::size_t s = stream(who, slot);
    return busy_[s] == 0 && next_[s] < tasks.size() && tasks[next_[s]] == task;
  }

  /// Starts every task of a rank that now can, until none can.
  void start_what_can(std::uint32_t who, Seconds now) {
    bool started = true;
    while (started) {
      started = false;
      for (StreamSlot slot = 0; slot < slots_; ++slot) {
        const auto tasks = schedule_.tasks_of(slot);
        const std::size_t s = stream(who, slot);
        if (busy_[s] != 0 || next_[s] >= tasks.size()) {
          continue;
        }
        const TaskId id = tasks[next_[s]];
        const Task& task = schedule_.task(id);
        if (task.slot != slot) {
          continue;  // a blocking task is started from its own stream
        }
        if ((!task.also_compute || heads(who, kComputeSlot, id)) && waits_are_over(who, task)) {
          start(who, id, task, now);
          started = true;
        }
      }
    }
  }

  [[nodiscard]] bool waits_are_over(std::uint32_t who, const Task& task) const {
    for (const Wait& wait : schedule_.waits(task)) {
      if (next_[stream(who, wait.slot)] <= wait.ordinal) {
        return false;
      }
    }
    return true;
  }

  void start(std::uint32_t who, TaskId id, const Task& task, Seconds now) {
    busy_[stream(who, task.slot)] = 1;
    started_[stream(who, task.slot)] = now;
    if (task.also_compute) {
      busy_[stream(who, kComputeSlot)] = 1;
    }
    const Op& op = program_.op(task.op);
    if (op.function != program::Function::collective) {
      const Seconds duration = slowness(who, id) * duration_of_op_[task.op];
      if (duration == Seconds(0)) {
        finish(who, id, now);
      } else {
        queue_.push({now + duration, number_++, who, id, false});
      }
      return;
    }
    const std::uint32_t where = meeting_of_[stream(who, task.slot)];
    Meeting& meeting = meetings_[where];
    if (++meeting.arrived == meeting.members.size()) {
      for (const std::uint32_t member : meeting.members) {
        started_[stream(member, task.slot)] = now;
      }
      queue_.push({now + duration_of_op_[task.op], number_++, where, id, true});
    }
  }

  /// How much longer a kernel takes on this rank.
  ///
  /// EQ kernel-jitter: f = s exp(g z - g^2 / 2), g^2 = ln(1 + j^2)
  ///   s  factor: of a straggler, else 1                                   [1]
  ///   j  options.jitter: the factor's standard deviation over its mean    [1]
  ///   z  standard normal number of (seed, rank, task)                     [1]
  ///   g  standard deviation of the factor's logarithm                     [1]
  ///   f  result: log-normal, s in the mean                                [1]
  /// Source: derived: mean and variance of the log-normal distribution
  /// Valid:  kernels that vary independently of each other
  /// Tests:  tests/property/event_test.cpp
  [[nodiscard]] double slowness(std::uint32_t who, TaskId task) const {
    const auto rank = static_cast<std::size_t>(classes_.first_rank[who]);
    const double factor = factor_of_rank_[rank];
    if (options_.jitter == 0) {
      return factor;
    }
    const double variance = std::log1p(options_.jitter * options_.jitter);
    const std::uint64_t bits = mixed_bits(options_.seed ^ mixed_bits(rank ^ mixed_bits(task)));
    return factor * std::exp(std::sqrt(variance) * standard_normal(bits) - variance / 2);
  }

  void finish(std::uint32_t who, TaskId id, Seconds now) {
    const Task& task = schedule_.task(id);
    const std::size_t own = stream(who, task.slot);
    if (observer_) {
      observer_({classes_.first_rank[who], id, started_[own], now});
    }
    busy_[own] = 0;
    ++next_[own];
    if (task.also_compute) {
      busy_[stream(who, kComputeSlot)] = 0;
      ++next_[stream(who, kComputeSlot)];
    }
    end_[who] = now;
  }

  EventResult conclude() {
    for (std::uint32_t who = 0; who < classes_.first_rank.size(); ++who) {
      for (StreamSlot slot = 0; slot < slots_; ++slot) {
        ensure(next_[stream(who, slot)] == schedule_.tasks_of(slot).size(),
               "event: a task never started");
      }
    }
    const auto last = std::max_element(end_.begin(), end_.end());
    const auto who = static_cast<std::uint32_t>(last - end_.begin());
    result_.rank = classes_.first_rank[who];
    result_.classes = static_cast<std::int64_t>(classes_.first_rank.size());
    result_.time.step = *last;
    Seconds compute_busy;
    for (TaskId id = 0; id < schedule_.tasks().size(); ++id) {
      const Op& op = program_.op(schedule_.task(id).op);
      const bool collective = op.function == program::Function::collective;
      const Seconds duration =
          (collective ? 1.0 : slowness(who, id)) * duration_of_op_[schedule_.task(id).op];
      book_time(result_.time, op, duration);
      if (op.stream == program::kComputeStream) {
        compute_busy += duration;
      }
    }
    result_.time.exposed_communication = result_.time.step - compute_busy;
    return result_;
  }

  const Schedule& schedule_;
  const Program& program_;
  std::vector<Seconds> duration_of_op_;
  const EventOptions& options_;
  const TaskObserver& observer_;
  StreamSlot slots_;
  RankClasses classes_;
  std::vector<double> factor_of_rank_;
  std::vector<Meeting> meetings_;
  std::vector<std::uint32_t> meeting_of_;  // by class and stream
  std::vector<std::uint32_t> next_;        // by class and stream: tasks that have ended
  std::vector<std::uint8_t> busy_;
  std::vector<Seconds> started_;
  std::vector<Seconds> end_;  // by class
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  std::uint64_t number_ = 0;
  EventResult result_;
};

}  // namespace

std::optional<EventResult> simulate(const Schedule& schedule,
                                    const Machine& machine,
                                    const EventOptions& options,
                                    const TaskObserver& observer) {
  const Program& program = schedule.program();
  std::vector<Seconds> duration_of_op;
  duration_of_op.reserve(program.ops().size());
  for (const Op& op : program.ops()) {
    const std::optional<Seconds> duration = op_time(program, op, machine);
    if (!duration) {
      return std::nullopt;
    }
    duration_of_op.push_back(*duration);
  }
  return Simulation(schedule, std::move(duration_of_op), options, observer).run();
}

}  // namespace trireme::engine
