#include "sim/engine/event/simulation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/engine/time_booking.h"

namespace trireme::engine {

using program::Function;
using program::Op;
using program::Program;

Simulation::Simulation(const Schedule& schedule,
                       const Machine& machine,
                       const OpTimes& times,
                       const EventOptions& options,
                       const TaskObserver& observer)
    : schedule_(schedule),
      times_(times),
      options_(options),
      observer_(observer),
      factors_(options.variation, schedule.program().mesh().ranks()),
      slot_bits_(static_cast<std::uint32_t>(std::bit_width(schedule.slots() - 1U))),
      slots_(schedule.slots()) {
  fold(machine);
  unroll(issue_time(machine));
  const std::size_t classes = classes_.first_rank.size();
  streams_.resize(classes << slot_bits_);
  one_is_there_.resize(streams_.size());
  hops_.resize(classes * who_meets_->rings().size());
  meetings_.resize(who_meets_->size());
  idle_.resize(classes);
  last_.assign(classes, kLaunch);
  end_.resize(classes);
  prepare_rates(machine);
}

void Simulation::fold(const Machine& machine) {
  classes_ = classes_of(schedule_.programs(), machine, options_);
  for (const std::int64_t rank : classes_.first_rank) {
    stage_of_.push_back(static_cast<std::size_t>(schedule_.program().mesh().stage_of(rank)));
  }
  factors_.select(classes_.first_rank);
  who_meets_.emplace(schedule_, classes_);
}

void Simulation::unroll(Seconds launch) {
  steps_.reserve(schedule_.tasks().size());
  Seconds launched;
  std::size_t stage = 0;
  std::vector<std::uint32_t> hops(who_meets_->rings().size());
  for (const Task& task : schedule_.tasks()) {
    const Op& op = schedule_.op_of(task);
    if (task.stage != stage) {  // another rank's
      stage = task.stage;
      launched = Seconds(0);
      std::fill(hops.begin(), hops.end(), 0U);
    }
    Step step;
    step.seconds = times_.slowest[task.op];
    step.uneven = !times_.by_position[task.op].empty();
    step.launched = launched;
    step.wakes = task.wakes;
    step.first_wait = task.first_wait;
    step.waits = task.waits;
    step.slot = task.slot;
    step.also_compute = task.also_compute;
    step.component = op.component;
    if (op.function == Function::collective) {
      step.kind = Step::Kind::collective;
    }
    const int stage_axis = schedule_.program().mesh().stage_axis();
    step.joins_stages = stage_axis != program::Mesh::kNoAxis && program::communicates(op) &&
                        (op.group & program::axis_bit(stage_axis)) != 0;
    if (program::crosses_stages(op)) {
      step.kind = Step::Kind::message;
      const std::int64_t peer = schedule_.program_of(task).peer_stage(op);
      step.peer_stage = static_cast<std::int16_t>(peer);
      step.at_sender = op.function == Function::stage_send ||
                       (op.function == Function::stage_sum && task.stage < peer);
      const TaskId other =
          schedule_.counterpart(static_cast<TaskId>(steps_.size()), static_cast<std::size_t>(peer));
      step.peer_slot = schedule_.task(other).slot;
    }
    if (meets_neighbours(op)) {
      step.kind = Step::Kind::hop;
      step.ring = who_meets_->ring_of(task.slot, op);
      step.hops_before = hops[step.ring]++;
    }
    if (step.seconds > Seconds(0)) {
      launched += launch;
    }
    steps_.push_back(step);
  }
}

/// Whether more than one collective may be in flight at once on some link: a communicator beside
/// another, or where nothing else is, groups of one communicator above leaf switches.
bool Simulation::links_may_be_shared(const Machine& machine) const {
  const bool beside = std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.slot != kComputeSlot && !step.also_compute;
  });
  return beside || (machine.topology && spine_is_crossed(*machine.topology));
}

void Simulation::prepare_rates(const Machine& machine) {
  Effects effects;
  if (options_.interference) {
    effects.interference = machine.costs.interference;
  }
  result_.interference = effects.interference.has_value();
  if (!links_may_be_shared(machine) || (!options_.contention && !effects.interference)) {
    return;
  }
  if (options_.contention) {
    effects.contention.emplace(schedule_, machine, classes_, *who_meets_, times_.slowest);
  }
  const std::optional<std::int64_t> multiprocessors = machine.costs.streaming_multiprocessors;
  effects.multiprocessors = multiprocessors.value_or(1);
  std::vector<Demand> demands;
  demands.reserve(steps_.size());
  for (const Task& task : schedule_.tasks()) {
    const program::Family family = program::info(schedule_.op_of(task).function).family;
    const bool computes = family == program::Family::gemm || family == program::Family::attention;
    demands.push_back({task.op,
                       family == program::Family::collective,
                       computes ? cost::KernelBound::compute : cost::KernelBound::memory});
  }
  rates_.emplace(*who_meets_,
                 classes_.first_rank.size(),
                 slots_,
                 slot_bits_,
                 std::move(demands),
                 std::move(effects));
}

EventResult Simulation::run() {
  for (std::uint32_t who = 0; who < classes_.first_rank.size(); ++who) {
    start_what_can(who, (1U << slots_) - 1U, kLaunch);
  }
  for (;;) {
    if (rates_ && !rates_->settled() && (queue_.empty() || queue_.time() > now_)) {
      settle_rates();
    }
    if (queue_.empty()) {
      return conclude();
    }
    now_ = queue_.time();
    handle(queue_.pop());
  }
}

/// Once all that happens at one instant has happened.
void Simulation::settle_rates() {
  for (const Rates::Rescheduled& moved : rates_->settle(now_)) {
    queue_.push(moved.end, {moved.entity, moved.task, rates_->version(moved.entity)});
  }
}

void Simulation::begin_work(std::uint32_t entity, TaskId task, Seconds seconds) {
  std::uint32_t version = 0;
  if (rates_ && (rates_->takes_kernels() || steps_[task].kind != Step::Kind::kernel)) {
    rates_->begin(entity, task, seconds, now_);
    version = rates_->version(entity);
  }
  queue_.push(now_ + seconds, {entity, task, version});
}

void Simulation::handle(const Event& event) {
  const auto streams = static_cast<std::uint32_t>(streams_.size());
  if (rates_ && event.entity < streams + meetings_.size()) {
    if (event.version != rates_->version(event.entity)) {
      return;  // its end has moved
    }
    if (rates_->takes_kernels() || steps_[event.task].kind != Step::Kind::kernel) {
      rates_->end(event.entity);
    }
  }
  ++result_.events;
  if (event.entity < streams) {
    const std::uint32_t who = event.entity >> slot_bits_;
    if (steps_[event.task].kind == Step::Kind::message) {
      end_message(who, event.task);
      return;
    }
    start_what_can(who, finish(who, event.task, streams_[event.entity].started), event.task);
    return;
  }
  const std::uint32_t place = event.entity - streams;
  if (place >= meetings_.size()) {
    const auto launched_on = static_cast<std::uint32_t>(place - meetings_.size());
    const std::uint32_t who = launched_on >> slot_bits_;
    start_what_can(who, 1U << (launched_on - (who << slot_bits_)), kLaunch);
    return;
  }
  Meeting& meeting = meetings_[place];
  std::uint32_t slots = 0;
  const StreamSlot slot = steps_[event.task].slot;
  for (const std::uint32_t member : who_meets_->members(place)) {
    slots |= finish(member, head(member, slot), meeting.start);
  }
  for (const std::uint32_t member : who_meets_->members(place)) {
    start_what_can(member, slots, event.task);
  }
}

/// Starts the tasks at the heads of a rank's streams that can start, and what can after them.
void Simulation::start_what_can(std::uint32_t who, std::uint32_t slots, TaskId cause) {
  while (slots != 0) {
    const auto slot = static_cast<StreamSlot>(std::countr_zero(slots));
    slots &= slots - 1;
    slots |= try_start(who, slot, cause);
  }
}

/// Returns the streams to look at again: of a task that has ended at once.
std::uint32_t Simulation::try_start(std::uint32_t who, StreamSlot slot, TaskId cause) {
  const auto tasks = tasks_of(who, slot);
  Stream& own = streams_[stream(who, slot)];
  if (own.busy || own.next >= tasks.size()) {
    return 0;
  }
  const TaskId task = tasks[own.next];
  const Step& step = steps_[task];
  if (step.slot != slot) {
    return 1U << step.slot;  // a blocking task is started from its own stream
  }
  if (step.also_compute) {
    const Stream& compute = streams_[stream(who, kComputeSlot)];
    const auto on_compute = tasks_of(who, kComputeSlot);
    if (compute.busy || on_compute[compute.next] != task) {
      return 0;
    }
  }
  if (!waits_are_over(who, step)) {
    return 0;
  }
  if (now_ < step.launched) {
    const auto launches = static_cast<std::uint32_t>(streams_.size() + meetings_.size());
    queue_.push(step.launched, {launches + stream(who, slot), task, 0});
    return 0;
  }
  if (step.also_compute || slot == kComputeSlot) {
    const Seconds idle = now_ - streams_[stream(who, kComputeSlot)].free;
    if (idle > Seconds(0)) {
      book_idle(who, cause, idle);
    }
  }
  return start(who, task, step);
}

bool Simulation::waits_are_over(std::uint32_t who, const Step& step) const {
  for (const Wait& wait : schedule_.waits(step.first_wait, step.waits)) {
    if (streams_[stream(who, wait.slot)].next <= wait.ordinal) {
      return false;
    }
  }
  return true;
}

std::uint32_t Simulation::start(std::uint32_t who, TaskId task, const Step& step) {
  Stream& own = streams_[stream(who, step.slot)];
  own.busy = true;
  own.arrived = now_;
  own.started = now_;
  if (step.also_compute) {
    streams_[stream(who, kComputeSlot)].busy = true;
  }
  switch (step.kind) {
    case Step::Kind::collective:
      meet(who, task, step);
      return 0;
    case Step::Kind::hop:
      hop(who, task, step);
      return 0;
    case Step::Kind::message:
      come_to_message(who, task, step);
      return 0;
    case Step::Kind::kernel:
      break;
  }
  const Seconds seconds = seconds_of(who, task);
  if (seconds == Seconds(0)) {
    return finish(who, task, now_);
  }
  begin_work(stream(who, step.slot), task, factors_.of(who, step.component, task) * seconds);
  return 0;
}

/// A rank comes to a collective; the last of its group starts it.
void Simulation::meet(std::uint32_t who, TaskId task, const Step& step) {
  const std::uint32_t place = who_meets_->of(who, step.slot);
  Meeting& meeting = meetings_[place];
  if (++meeting.arrived < who_meets_->members(place).size()) {
    return;
  }
  meeting.arrived = 0;
  meeting.start = now_;
  begin_work(static_cast<std::uint32_t>(streams_.size()) + place, task, step.seconds);
}

/// A rank comes to a hop of a ring. A rank's hop starts when both its neighbours are ready for it
/// too: one to send, the other to receive.
void Simulation::hop(std::uint32_t who, TaskId task, const Step& step) {
  const std::size_t rings = who_meets_->rings().size();
  for (const std::uint32_t other : who_meets_->neighbours(who, step.ring)) {
    std::uint8_t& arrived = hops_[other * rings + step.ring].arrived[step.hops_before & 1U];
    if (++arrived == who_meets_->ring_partners(other, step.ring)) {
      arrived = 0;
      streams_[stream(other, step.slot)].started = now_;
      begin_work(stream(other, step.slot), task, step.seconds);
    }
  }
}

/// A rank comes to its end of a message between stages, which travels once the other end has come
/// too.
void Simulation::come_to_message(std::uint32_t who, TaskId task, const Step& step) {
  const std::uint32_t other = stream(who_meets_->peer(who, step.peer_stage), step.peer_slot);
  const std::uint32_t own = stream(who, step.slot);
  const std::uint32_t sender = step.at_sender ? own : other;
  one_is_there_[sender] = !one_is_there_[sender];
  if (one_is_there_[sender]) {
    return;
  }
  streams_[own].started = now_;
  streams_[other].started = now_;
  begin_work(
      sender, step.at_sender ? task : head(other >> slot_bits_, step.peer_slot), step.seconds);
}

/// `who` is the sender.
void Simulation::end_message(std::uint32_t who, TaskId task) {
  const Step& step = steps_[task];
  const std::uint32_t peer = who_meets_->peer(who, step.peer_stage);
  const Seconds started = streams_[stream(who, step.slot)].started;
  const TaskId at_peer = head(peer, step.peer_slot);
  const std::uint32_t own_slots = finish(who, task, started);
  const std::uint32_t peer_slots = finish(peer, at_peer, started);
  start_what_can(who, own_slots, task);
  start_what_can(peer, peer_slots, at_peer);
}

/// Returns the streams on which a task may start now.
std::uint32_t Simulation::finish(std::uint32_t who, TaskId task, Seconds started) {
  const Step& step = steps_[task];
  Stream& own = streams_[stream(who, step.slot)];
  if (observer_) {
    observer_({classes_.first_rank[who], task, started, now_});
  }
  own.busy = false;
  ++own.next;
  own.free = now_;
  own.busy_seconds += now_ - started;
  if (step.also_compute) {
    Stream& compute = streams_[stream(who, kComputeSlot)];
    compute.busy = false;
    ++compute.next;
    compute.free = now_;
    if (step.joins_stages) {
      idle_[who].bubble += started - own.arrived;
      book_idle(who, task, now_ - started);
    } else {
      book_idle(who, task, now_ - own.arrived);
    }
  }
  end_[who] = now_;
  last_[who] = task;
  return step.wakes | (1U << step.slot) | (step.also_compute ? 1U << kComputeSlot : 0U);
}

/// Books seconds in which the compute stream stood still under what it waited for.
void Simulation::book_idle(std::uint32_t who, TaskId cause, Seconds idle) {
  Idle& account = idle_[who];
  if (cause == kLaunch) {
    account.launch += idle;
    return;
  }
  const Op& op = op_of(cause);
  if (program::communicates(op)) {
    account.collective[ledger::index(op.collective)] += idle;
  } else {
    account.host_copy += idle;
  }
}

EventResult Simulation::conclude() {
  for (std::uint32_t who = 0; who < classes_.first_rank.size(); ++who) {
    for (StreamSlot slot = 0; slot < slots_; ++slot) {
      ensure(streams_[stream(who, slot)].next == tasks_of(who, slot).size(),
             "event: a task never started");
    }
  }
  const auto last = std::max_element(end_.begin(), end_.end());
  const auto who = static_cast<std::uint32_t>(last - end_.begin());
  result_.rank = classes_.first_rank[who];
  result_.classes = static_cast<std::int64_t>(classes_.first_rank.size());
  for (StreamSlot slot = 0; slot < slots_; ++slot) {
    result_.busy_of_stream.push_back(streams_[stream(who, slot)].busy_seconds);
  }
  ledger::TimeLedger& time = result_.time;
  time.step = *last;
  const Seconds tail = time.step - streams_[stream(who, kComputeSlot)].free;
  if (tail > Seconds(0)) {
    book_idle(who, last_[who], tail);
  }
  const Schedule::Tasks own = schedule_.tasks_of_stage(stage_of_[who]);
  for (TaskId task = own.first; task < own.first + own.count; ++task) {
    const Step& step = steps_[task];
    const double factor =
        step.kind == Step::Kind::kernel ? factors_.of(who, step.component, task) : 1.0;
    book_time(time, op_of(task), factor * seconds_of(who, task));
  }
  time.compute_busy = streams_[stream(who, kComputeSlot)].busy_seconds;
  time.exposed_host_copy = idle_[who].host_copy;
  time.exposed_launch = idle_[who].launch;
  time.pipeline_bubble = idle_[who].bubble;
  time.exposed_by_collective = idle_[who].collective;
  for (const Seconds exposed : time.exposed_by_collective) {
    time.exposed_communication += exposed;
  }
  return result_;
}

}  // namespace trireme::engine
