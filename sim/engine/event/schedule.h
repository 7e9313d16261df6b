// Programs unrolled into the tasks that a rank of each stage issues, in order, with what each waits
// for.
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
  std::uint32_t op = 0;  // among those of all programs; an OpId where there is one program
  std::uint16_t stage = 0;
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

/// Every rank of a class runs the same schedule: it is unrolled once for each stage of a pipeline.
/// Tasks of all stages are numbered in one row, and streams have the same slot in each.
class Schedule {
 public:
  /// Tasks wait for what they read to be written, and for what they write to be read by others, by
  /// instance. Order inside a stream is the order of issue.
  explicit Schedule(const program::Program& program) : Schedule(std::span(&program, 1)) {}

  /// The stages of a pipeline. The programs outlive the schedule.
  explicit Schedule(std::span<const program::Program> stages);

  [[nodiscard]] std::span<const program::Program> programs() const { return programs_; }

  /// The first stage's, whose mesh is that of all.
  [[nodiscard]] const program::Program& program() const { return programs_.front(); }

  [[nodiscard]] const program::Program& program_of(const Task& task) const {
    return programs_[task.stage];
  }

  [[nodiscard]] const program::Op& op_of(const Task& task) const {
    return programs_[task.stage].op(task.op - first_op_[task.stage]);
  }

  /// Operations of all programs.
  [[nodiscard]] std::uint32_t ops() const { return first_op_.back(); }

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

  /// The slot of a stream; of one that no program uses, as many as there are.
  [[nodiscard]] StreamSlot slot_of(program::Stream stream) const;

  /// The tasks that occupy a stream of a stage, in order.
  [[nodiscard]] std::span<const TaskId> tasks_of(StreamSlot slot, std::size_t stage = 0) const {
    return tasks_of_slot_[stage][slot];
  }

  /// The tasks of a stage: from `first`, `count` of them.
  struct Tasks {
    TaskId first = 0;
    TaskId count = 0;
  };

  [[nodiscard]] Tasks tasks_of_stage(std::size_t stage) const { return tasks_of_stage_[stage]; }

  /// What a stage does in a collective or a message that a task of another one is in.
  [[nodiscard]] TaskId counterpart(TaskId task, std::size_t stage) const;

 private:
  class Unroller;

  std::span<const program::Program> programs_;
  std::vector<std::uint32_t> first_op_{0};  // of each program, and the end
  std::vector<Task> tasks_;
  std::vector<Wait> waits_;
  std::vector<program::Stream> stream_of_slot_;
  std::vector<program::AxisMask> group_of_slot_;
  std::vector<std::vector<std::vector<TaskId>>> tasks_of_slot_;  // by stage
  std::vector<Tasks> tasks_of_stage_;
  std::vector<std::uint32_t> ordinals_;  // of each task on its own stream
};

}  // namespace trireme::engine
