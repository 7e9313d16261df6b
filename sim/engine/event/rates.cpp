#include "sim/engine/event/rates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/engine/network/flow_network.h"

namespace trireme::engine {

namespace {

/// The unit in which links are shared: a link has this much a second, a collective takes its part.
constexpr double kWholeLink = 1e15;

}  // namespace

Rates::Rates(const Meetings& meetings,
             std::size_t classes,
             std::uint32_t slots,
             std::uint32_t slot_bits,
             std::vector<Demand> demand_of_task,
             Effects effects)
    : meetings_(meetings),
      slots_(slots),
      slot_bits_(slot_bits),
      streams_(static_cast<std::uint32_t>(classes << slot_bits)),
      demand_of_task_(std::move(demand_of_task)),
      effects_(std::move(effects)),
      work_(streams_ + meetings.size()),
      gpus_(classes),
      links_(effects_.contention ? effects_.contention->links() : 0) {}

template <class Visit>
void Rates::for_each_member(std::uint32_t entity, Visit visit) const {
  if (!is_meeting(entity)) {
    visit(entity >> slot_bits_);
    return;
  }
  for (const std::uint32_t member : meetings_.members(entity - streams_)) {
    visit(member);
  }
}

template <class Visit>
void Rates::for_each_collective(std::uint32_t who, Visit visit) const {
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    const std::uint32_t meeting = meetings_.of(who, static_cast<StreamSlot>(slot));
    const auto visit_collective = [&](std::uint32_t entity) {
      if (work_[entity].in_flight && demand_of_task_[work_[entity].task].collective) {
        visit(entity);
      }
    };
    if (meeting != kNoMeeting) {
      visit_collective(streams_ + meeting);
    }
    visit_collective((who << slot_bits_) | slot);  // a hop, or a message that it sends
  }
}

void Rates::touch(std::uint32_t who) {
  if (!gpus_[who].touched) {
    gpus_[who].touched = true;
    touched_.push_back(who);
  }
}

void Rates::list(std::uint32_t entity) {
  if (!work_[entity].listed) {
    work_[entity].listed = true;
    listed_.push_back(entity);
  }
}

void Rates::begin(std::uint32_t entity, TaskId task, Seconds seconds, Seconds now) {
  Work& work = work_[entity];
  work.left = seconds.value();
  work.speed = 1;
  work.share = 1;
  work.since = now;
  work.task = task;
  work.in_flight = true;
  if (demand_of_task_[task].collective) {
    work.place = static_cast<std::uint32_t>(collectives_.size());
    collectives_.push_back(entity);
    work.beside = 0;
    for_each_member(entity, [&](std::uint32_t who) { work.beside += gpus_[who].computes ? 1 : 0; });
    load_links(entity, true);
  }
  for_each_member(entity, [&](std::uint32_t who) { touch(who); });
}

void Rates::end(std::uint32_t entity) {
  Work& work = work_[entity];
  work.in_flight = false;
  ++work.version;
  if (demand_of_task_[work.task].collective) {
    const std::uint32_t last = collectives_.back();
    collectives_[work.place] = last;
    work_[last].place = work.place;
    collectives_.pop_back();
    load_links(entity, false);
  }
  for_each_member(entity, [&](std::uint32_t who) { touch(who); });
}

/// A collective takes its part of the links that it loads, or gives it back.
void Rates::load_links(std::uint32_t entity, bool begins) {
  if (!effects_.contention) {
    return;
  }
  const program::OpId op = demand_of_task_[work_[entity].task].op;
  effects_.contention->for_each_link(member(entity), op, [&](std::uint32_t id, double use) {
    Link& link = links_[id];
    const bool was_crowded = link.crowded();
    link.users += begins ? 1U : -1U;
    link.asked += begins ? use : -use;
    if (link.users == 0) {
      link.asked = 0;  // what sums have lost by rounding
    }
    const bool is_crowded = link.crowded();
    crowded_ += static_cast<std::uint32_t>(is_crowded) - static_cast<std::uint32_t>(was_crowded);
    links_changed_ = links_changed_ || was_crowded || is_crowded;
  });
}

/// Lists the work of a class whose speed may have changed.
void Rates::look_at(std::uint32_t who) {
  Gpu& gpu = gpus_[who];
  if (!effects_.interference) {
    return;
  }
  bool computes = false;
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    const std::uint32_t entity = (who << slot_bits_) | slot;
    if (work_[entity].in_flight && !demand_of_task_[work_[entity].task].collective) {
      computes = true;
      list(entity);
    }
  }
  const bool changed = computes != gpu.computes;
  gpu.computes = computes;
  for_each_collective(who, [&](std::uint32_t entity) {
    if (changed) {
      std::uint32_t& beside = work_[entity].beside;
      beside = computes ? beside + 1 : beside - 1;
    }
    list(entity);
  });
}

/// Collectives on crowded links share them max-min fairly; the others have what they ask for.
void Rates::share_links() {
  FlowNetwork network;
  ++sharing_;
  jobs_.clear();
  for (const std::uint32_t entity : collectives_) {
    const program::OpId op = demand_of_task_[work_[entity].task].op;
    loads_.clear();
    effects_.contention->for_each_link(member(entity), op, [&](std::uint32_t id, double use) {
      Link& link = links_[id];
      if (use > 0 && link.crowded()) {
        if (link.numbered != sharing_) {
          link.numbered = sharing_;
          link.in_network = network.add_link(BytesPerSecond(kWholeLink));
        }
        loads_.push_back({link.in_network, Bytes(std::llround(use * kWholeLink))});
      }
    });
    if (loads_.empty()) {
      set_share(entity, 1);
    } else {
      const double fullest = effects_.contention->fullest(member(entity), op);
      jobs_.emplace_back(entity, network.start_jobs(loads_, Seconds(1), fullest));
    }
  }
  for (const auto& [entity, job] : jobs_) {
    set_share(entity, network.speed(job));
  }
}

void Rates::set_share(std::uint32_t entity, double share) {
  if (work_[entity].share != share) {
    work_[entity].share = share;
    list(entity);
  }
}

double Rates::speed_of(std::uint32_t entity) const {
  const Work& work = work_[entity];
  const Demand& demand = demand_of_task_[work.task];
  if (!effects_.interference) {
    return work.share;
  }
  if (demand.collective) {
    return work.beside == 0
               ? work.share
               : work.share * cost::collective_speed_beside_kernel(*effects_.interference);
  }
  int collectives = 0;
  for_each_collective(entity >> slot_bits_, [&](std::uint32_t) { ++collectives; });
  return cost::kernel_speed_beside(
      collectives, demand.bound, effects_.multiprocessors, *effects_.interference);
}

std::span<const Rates::Rescheduled> Rates::settle(Seconds now) {
  rescheduled_.clear();
  for (const std::uint32_t who : touched_) {
    look_at(who);
  }
  for (const std::uint32_t who : touched_) {
    gpus_[who].touched = false;
  }
  touched_.clear();
  if (links_changed_) {
    share_links();
    links_changed_ = false;
  }
  for (const std::uint32_t entity : listed_) {
    Work& work = work_[entity];
    work.listed = false;
    const double speed = work.in_flight ? speed_of(entity) : work.speed;
    if (speed != work.speed) {
      work.left = std::max(0.0, work.left - work.speed * (now - work.since).value());
      work.since = now;
      work.speed = speed;
      ++work.version;
      rescheduled_.push_back({entity, work.task, now + Seconds(work.left / speed)});
    }
  }
  listed_.clear();
  return rescheduled_;
}

}  // namespace trireme::engine
