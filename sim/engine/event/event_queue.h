// The pending events of a simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/units/units.h"

namespace trireme::engine {

/// Events by time; simultaneous ones in the order in which they were pushed.
///
/// Events that are pushed in a row for one instant are one entry of the heap: ranks that behave
/// alike end their tasks together, and then an event costs no search.
template <class Event>
class EventQueue {
 public:
  void push(Seconds time, const Event& event) {
    const std::uint32_t id = new_link(event);
    if (newest_ != kNone && time == newest_time_) {
      links_[newest_].next = id;
    } else {
      add({time, pushed_++, id});
    }
    newest_ = id;
    newest_time_ = time;
  }

  [[nodiscard]] bool empty() const { return current_ == kNone && heap_.empty(); }

  /// When the next event happens. Not of an empty queue.
  [[nodiscard]] Seconds time() const {
    return current_ != kNone ? current_time_ : heap_.front().time;
  }

  /// Removes and returns the next event. Not of an empty queue.
  Event pop() {
    if (current_ == kNone) {
      current_ = heap_.front().first;
      current_time_ = heap_.front().time;
      remove_front();
    }
    const std::uint32_t id = current_;
    current_ = links_[id].next;
    if (newest_ == id) {
      newest_ = kNone;
    }
    links_[id].next = free_;
    free_ = id;
    return links_[id].event;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kChildren = 4;  // half the levels of a binary heap

  /// Events of one instant that were pushed in a row.
  struct Instant {
    Seconds time;
    std::uint64_t number;
    std::uint32_t first;
  };

  struct Link {
    Event event;
    std::uint32_t next;
  };

  static bool sooner(const Instant& a, const Instant& b) {
    return a.time < b.time || (a.time == b.time && a.number < b.number);
  }

  std::uint32_t new_link(const Event& event) {
    if (free_ == kNone) {
      links_.push_back({event, kNone});
      return static_cast<std::uint32_t>(links_.size() - 1);
    }
    const std::uint32_t id = free_;
    free_ = links_[id].next;
    links_[id] = {event, kNone};
    return id;
  }

  void add(const Instant& instant) {
    std::size_t place = heap_.size();
    heap_.push_back(instant);
    while (place > 0) {
      const std::size_t parent = (place - 1) / kChildren;
      if (!sooner(instant, heap_[parent])) {
        break;
      }
      heap_[place] = heap_[parent];
      place = parent;
    }
    heap_[place] = instant;
  }

  void remove_front() {
    const Instant last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == 0) {
      return;
    }
    std::size_t place = 0;
    for (;;) {
      const std::size_t first = place * kChildren + 1;
      if (first >= size) {
        break;
      }
      std::size_t soonest = first;
      const std::size_t end = first + kChildren < size ? first + kChildren : size;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (sooner(heap_[child], heap_[soonest])) {
          soonest = child;
        }
      }
      if (!sooner(heap_[soonest], last)) {
        break;
      }
      heap_[place] = heap_[soonest];
      place = soonest;
    }
    heap_[place] = last;
  }

  std::vector<Instant> heap_;
  std::vector<Link> links_;
  std::uint64_t pushed_ = 0;
  std::uint32_t free_ = kNone;
  std::uint32_t newest_ = kNone;   // the event pushed last, while it is pending
  std::uint32_t current_ = kNone;  // the next of the instant that is being popped
  Seconds newest_time_;
  Seconds current_time_;
};

}  // namespace trireme::engine
