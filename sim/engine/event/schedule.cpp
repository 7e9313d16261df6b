#include "sim/engine/event/schedule.h"

#include <algorithm>

namespace trireme::engine {

using program::Access;
using program::Node;
using program::Op;
using program::Operand;
using program::OpId;
using program::Program;
using program::Segment;
using program::Tensor;
using program::TensorId;

/// Walks a program with its loop indices bound and remembers who touched which memory last.
class Schedule::Unroller {
 public:
  Unroller(Schedule& schedule, std::size_t stage)
      : schedule_(schedule), stage_(stage), program_(schedule.programs_[stage]) {
    slot_of_stream_.fill(kNoSlot);
    for (std::size_t slot = 0; slot < schedule.stream_of_slot_.size(); ++slot) {
      slot_of_stream_[schedule.stream_of_slot_[slot]] = static_cast<StreamSlot>(slot);
    }
    schedule.tasks_of_slot_.emplace_back(schedule.stream_of_slot_.size());
    slot_of(program::kComputeStream);
    number_instances();
  }

  void run() {
    const auto first = static_cast<TaskId>(schedule_.tasks_.size());
    walk(0, static_cast<std::uint32_t>(program_.nodes().size()));
    const auto end = static_cast<TaskId>(schedule_.tasks_.size());
    schedule_.tasks_of_stage_.push_back({first, end - first});
  }

 private:
  static constexpr StreamSlot kNoSlot = 0xff;
  static constexpr TaskId kNoTask = 0xffffffff;
  static constexpr std::uint32_t kNoReader = 0xffffffff;
  /// By how much offsets reach beyond the extents.
  static constexpr std::size_t kMargin = 1;

  /// A task that read an instance since it was last written; a list per instance.
  struct Reader {
    TaskId task;
    std::uint32_t next;
  };

  struct LastTouch {
    TaskId writer = kNoTask;
    std::uint32_t readers = kNoReader;
  };

  /// Gives every instance of every piece of memory a number.
  void number_instances() {
    first_instance_.resize(program_.tensors().size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < program_.tensors().size(); ++i) {
      const Tensor& tensor = program_.tensor(static_cast<TensorId>(i));
      first_instance_[i] = next;
      std::size_t instances = tensor.storage == program::Storage::own ? 1 : 0;
      for (std::size_t index = 0; index < program::kIndexCount; ++index) {
        if ((tensor.varies & (1U << index)) != 0) {
          instances *= values_of(index);
        }
      }
      next += instances * static_cast<std::size_t>(tensor.blocks);
    }
    touched_.resize(next);
  }

  [[nodiscard]] std::size_t values_of(std::size_t index) const {
    return static_cast<std::size_t>(program_.extent(static_cast<program::Index>(index))) +
           2 * kMargin;
  }

  StreamSlot slot_of(program::Stream stream) {
    StreamSlot& slot = slot_of_stream_[stream];
    if (slot == kNoSlot) {
      slot = static_cast<StreamSlot>(schedule_.stream_of_slot_.size());
      schedule_.stream_of_slot_.push_back(stream);
      schedule_.group_of_slot_.push_back(0);
      own_tasks().emplace_back();
    }
    return slot;
  }

  /// The stage's tasks by slot.
  [[nodiscard]] std::vector<std::vector<TaskId>>& own_tasks() {
    return schedule_.tasks_of_slot_[stage_];
  }

  void walk(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        const Segment& segment = program_.segments()[node.segment];
        for (OpId op = segment.first_op; op < segment.first_op + segment.ops; ++op) {
          if (program_.op(op).function != program::Function::keep) {
            add_task(op, node);
          }
        }
        ++i;
        continue;
      }
      for (std::int32_t k = 0; k < node.count; ++k) {
        bound_[static_cast<std::size_t>(node.index)] = node.first + k * node.step;
        walk(i + 1, node.end);
      }
      bound_[static_cast<std::size_t>(node.index)] = 0;
      i = node.end;
    }
  }

  void add_task(OpId id, const Node& run) {
    const Op& op = program_.op(id);
    const auto task_id = static_cast<TaskId>(schedule_.tasks_.size());
    Task task;
    task.op = schedule_.first_op_[stage_] + id;
    task.stage = static_cast<std::uint16_t>(stage_);
    task.slot = slot_of(op.stream);
    task.also_compute = op.blocking && task.slot != kComputeSlot;
    task.indices = bound_;
    task.first_wait = static_cast<std::uint32_t>(schedule_.waits_.size());
    for (const Operand& operand : program_.operands(op)) {
      for (const LastTouch& last : touched(operand, run)) {
        wait_for(task, last.writer);
        if (operand.access != Access::read) {
          for (std::uint32_t r = last.readers; r != kNoReader; r = readers_[r].next) {
            wait_for(task, readers_[r].task);
          }
        }
      }
    }
    task.waits = static_cast<std::uint16_t>(schedule_.waits_.size() - task.first_wait);
    for (std::size_t i = task.first_wait; i < schedule_.waits_.size(); ++i) {
      const Wait& wait = schedule_.waits_[i];
      schedule_.tasks_[own_tasks()[wait.slot][wait.ordinal]].wakes |= 1U << task.slot;
    }
    if (op.function == program::Function::collective && task.slot != kComputeSlot) {
      schedule_.group_of_slot_[task.slot] = op.group;
    }
    for (const Operand& operand : program_.operands(op)) {
      for (LastTouch& last : touched(operand, run)) {
        if (operand.access == Access::read) {
          readers_.push_back({task_id, last.readers});
          last.readers = static_cast<std::uint32_t>(readers_.size() - 1);
        } else {
          last.writer = task_id;
          last.readers = kNoReader;
        }
      }
    }
    schedule_.tasks_.push_back(task);
    std::vector<TaskId>& own = own_tasks()[task.slot];
    schedule_.ordinals_.push_back(static_cast<std::uint32_t>(own.size()));
    own.push_back(task_id);
    if (task.also_compute) {
      own_tasks()[kComputeSlot].push_back(task_id);
    }
  }

  /// Streams run in order, so that only tasks of other streams have to be waited for.
  void wait_for(const Task& task, TaskId earlier_id) {
    if (earlier_id == kNoTask) {
      return;
    }
    const Task& earlier = schedule_.tasks_[earlier_id];
    const bool both_compute = occupies_compute(task) && occupies_compute(earlier);
    if (earlier.slot == task.slot || both_compute) {
      return;
    }
    const Wait wait{earlier.slot, schedule_.ordinals_[earlier_id]};
    for (std::size_t i = task.first_wait; i < schedule_.waits_.size(); ++i) {
      if (schedule_.waits_[i].slot == wait.slot) {
        schedule_.waits_[i].ordinal = std::max(schedule_.waits_[i].ordinal, wait.ordinal);
        return;
      }
    }
    schedule_.waits_.push_back(wait);
  }

  static bool occupies_compute(const Task& task) {
    return task.slot == kComputeSlot || task.also_compute;
  }

  /// The blocks of memory that an operand's instance is.
  [[nodiscard]] std::span<LastTouch> touched(const Operand& operand, const Node& run) {
    const TensorId id = operand.ref.tensor;
    const TensorId owner = program_.tensor(id).root;
    const Program::Blocks blocks = program_.blocks(id);
    const std::size_t first =
        first_instance_[owner] +
        instance(operand, run) * static_cast<std::size_t>(program_.tensor(owner).blocks) +
        static_cast<std::size_t>(blocks.first);
    return std::span(touched_).subspan(first, static_cast<std::size_t>(blocks.count));
  }

  /// The number of an operand's instance among those of its owner.
  [[nodiscard]] std::size_t instance(const Operand& operand, const Node& run) const {
    const TensorId owner = program_.tensor(operand.ref.tensor).root;
    std::size_t number = 0;
    for (std::size_t index = 0; index < program::kIndexCount; ++index) {
      if ((program_.tensor(owner).varies & (1U << index)) != 0) {
        const auto value =
            static_cast<std::size_t>(bound_[index] + run.shift[index] + operand.ref.offset[index] +
                                     static_cast<std::int32_t>(kMargin));
        ensure(value < values_of(index), "schedule: an instance beyond the extents");
        number = number * values_of(index) + value;
      }
    }
    return number;
  }

  Schedule& schedule_;
  std::size_t stage_;
  const Program& program_;
  std::array<StreamSlot, 256> slot_of_stream_{};
  std::array<std::int32_t, program::kIndexCount> bound_{};
  std::vector<std::size_t> first_instance_;
  std::vector<LastTouch> touched_;
  std::vector<Reader> readers_;
};

Schedule::Schedule(std::span<const Program> stages) : programs_(stages) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    Unroller(*this, stage).run();
    first_op_.push_back(first_op_.back() + static_cast<std::uint32_t>(stages[stage].ops().size()));
  }
  for (std::vector<std::vector<TaskId>>& by_slot : tasks_of_slot_) {
    by_slot.resize(stream_of_slot_.size());
  }
}

StreamSlot Schedule::slot_of(program::Stream stream) const {
  const auto found = std::find(stream_of_slot_.begin(), stream_of_slot_.end(), stream);
  return static_cast<StreamSlot>(found - stream_of_slot_.begin());
}

TaskId Schedule::counterpart(TaskId id, std::size_t stage) const {
  const Task& own = tasks_[id];
  if (own.stage == stage) {
    return id;
  }
  StreamSlot slot = own.slot;
  switch (stream(own.slot)) {
    case program::kSendForwardStream:
      slot = slot_of(program::kReceiveForwardStream);
      break;
    case program::kSendBackwardStream:
      slot = slot_of(program::kReceiveBackwardStream);
      break;
    case program::kReceiveForwardStream:
      slot = slot_of(program::kSendForwardStream);
      break;
    case program::kReceiveBackwardStream:
      slot = slot_of(program::kSendBackwardStream);
      break;
    default:
      break;
  }
  return tasks_of(slot, stage)[ordinals_[id]];
}

}  // namespace trireme::engine
