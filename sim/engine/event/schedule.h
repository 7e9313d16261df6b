// A program unrolled into the tasks that one rank issues, in order, with what each waits for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.h"

namespace trireme::engine {

using TaskId = std::uint32_t;

/// A stream that a program uses, numbered from 0; 0 is the compute stream.
using StreamSlot = std::uint8_t;
inline constexpr StreamSlot kComputeSlot = 0;

/// One execution of an operation. It occupies its own stream, and a blocking one the compute stream
/// too, from start to end.
struct Task {
  program::OpId op = 0;
  StreamSlot slot = kComputeSlot;
  bool also_compute = false;
  std::uint16_t waits = 0;
  std::uint32_t first_wait = 0;  // range of Schedule::waits
  std::uint32_t wakes = 0;       // streams, bit by slot, with a task that waits for this one
  std::array<std::int32_t, program::kIndexCount> indices{};
};

/// A task of another stream that must have ended: the `ordinal`-th of its stream, from 0.
struct Wait {
  StreamSlot slot = kComputeSlot;
  std::uint32_t ordinal = 0;
};

/// Whether a rank meets its ring neighbours only, not its whole group: in a hop of a ring exchange.
[[nodiscard]] inline bool meets_neighbours(const program::Op& op) {
  return op.function == program::Function::collective && op.collective == CollectiveKind::send_recv;
}

/// Every rank of a class runs the same schedule: it is unrolled once.
class Schedule {
 public:
  /// Tasks wait for what they read to be written, and for what they write to be read by others, by
  /// instance. Order inside a stream is the order of issue.
  explicit Schedule(const program::Program& program);

  [[nodiscard]] const program::Program& program() const { return program_; }

  [[nodiscard]] std::span<const Task> tasks() const { return tasks_; }

  [[nodiscard]] const Task& task(TaskId id) const { return tasks_[id]; }

  [[nodiscard]] std::span<const Wait> waits(const Task& task) const {
    return waits(task.first_wait, task.waits);
  }

  [[nodiscard]] std::span<const Wait> waits(std::uint32_t first, std::uint32_t count) const {
    return {waits_.data() + first, count};
  }

  [[nodiscard]] StreamSlot slots() const { return static_cast<StreamSlot>(stream_of_slot_.size()); }

  [[nodiscard]] program::Stream stream(StreamSlot slot) const { return stream_of_slot_[slot]; }

  /// The group of the collectives on a stream; none for compute and host copies.
  [[nodiscard]] program::AxisMask group_of(StreamSlot slot) const { return group_of_slot_[slot]; }

  /// The tasks that occupy a stream, in order.
  [[nodiscard]] std::span<const TaskId> tasks_of(StreamSlot slot) const {
    return tasks_of_slot_[slot];
  }

 private:
  class Unroller;

  const program::Program& program_;
  std::vector<Task> tasks_;
  std::vector<Wait> waits_;
  std::vector<program::Stream> stream_of_slot_;
  std::vector<program::AxisMask> group_of_slot_;
  std::vector<std::vector<TaskId>> tasks_of_slot_;
};

}  // namespace trireme::engine
