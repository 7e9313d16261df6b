#include "sim/engine/segment_times.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/collective_payload.h"
#include "sim/engine/time_booking.h"

namespace trireme::engine {

using program::Access;
using program::Family;
using program::Op;
using program::OpId;
using program::Program;
using program::Segment;

namespace {

/// The streams' clocks inside one segment.
class SegmentClock {
 public:
  SegmentClock(const Program& program, Seconds launch) : program_(program), launch_(launch) {}

  void start(std::span<const Op> ops) {
    for (const program::Stream used : used_) {
      stream_[used] = Seconds(0);
    }
    used_.clear();
    stream_[program::kComputeStream] = Seconds(0);
    compute_busy_ = Seconds(0);
    launched_ = Seconds(0);
    launch_idle_ = Seconds(0);
    host_idle_ = Seconds(0);
    host_ends_.clear();
    length_ = Seconds(0);
    ++segment_;
    overlaps_ = std::any_of(ops.begin(), ops.end(), [](const Op& op) { return !op.blocking; });
    if (overlaps_) {
      if (first_block_.empty()) {
        number_blocks();
      }
    }
  }

  void run(const Op& op, Seconds duration) {
    Seconds begin = stream_[op.stream];
    if (op.blocking) {
      begin = std::max(begin, stream_[program::kComputeStream]);
    }
    if (overlaps_) {  // else every operation waits for all before it
      begin = std::max(begin, operands_ready(op));
    }
    if ((op.blocking || op.stream == program::kComputeStream) && ends_on_host(begin)) {
      host_idle_ += begin - stream_[program::kComputeStream];
    }
    if (begin < launched_) {
      if (op.blocking || op.stream == program::kComputeStream) {
        launch_idle_ += launched_ - std::max(begin, stream_[program::kComputeStream]);
      }
      begin = launched_;
    }
    if (duration > Seconds(0)) {
      launched_ += launch_;
    }
    const Seconds end = begin + duration;
    if (op.stream != program::kComputeStream) {
      used_.push_back(op.stream);
    }
    if (work_of(op) == ledger::Work::host_copy) {
      host_ends_.push_back(end);
      if (op.blocking) {
        host_idle_ += duration;
      }
    }
    stream_[op.stream] = end;
    length_ = std::max(length_, end);
    if (op.blocking) {
      stream_[program::kComputeStream] = end;
    }
    if (op.stream == program::kComputeStream) {
      compute_busy_ += duration;
    }
    if (overlaps_) {
      use_operands_until(op, end);
    }
  }

  /// Until all streams have done their work, and the host has issued all of it.
  [[nodiscard]] Seconds length() const { return std::max(length_, launched_); }

  [[nodiscard]] Seconds compute_busy() const { return compute_busy_; }

  /// Time in which the compute stream stands still until the host has issued its work.
  [[nodiscard]] Seconds exposed_launch() const { return launch_idle_ + (length() - length_); }

  /// Time in which it stands still until the host, or a copy to or from it, is done.
  [[nodiscard]] Seconds exposed_host() const {
    const Seconds tail = length_ - stream_[program::kComputeStream];
    return ends_on_host(length_) ? host_idle_ + tail : host_idle_;
  }

  /// Time in which the compute stream stands still for another reason.
  [[nodiscard]] Seconds exposed_communication() const {
    return length() - compute_busy_ - exposed_launch() - exposed_host();
  }

 private:
  /// When a tensor's memory was last written and last read, in one segment.
  struct Accesses {
    std::uint32_t segment = 0;
    Seconds written;
    Seconds read;
  };

  /// Whether what the compute stream waits for until `instant` is the host's, or a copy.
  [[nodiscard]] bool ends_on_host(Seconds instant) const {
    return instant > stream_[program::kComputeStream] &&
           std::find(host_ends_.begin(), host_ends_.end(), instant) != host_ends_.end();
  }

  /// When what it reads is written, and what it writes is not read any more.
  Seconds operands_ready(const Op& op) {
    Seconds ready;
    for (const program::Operand& operand : program_.operands(op)) {
      for_each_block(operand, [&](const Accesses& before) {
        ready = std::max(ready, before.written);
        if (operand.access != Access::read) {
          ready = std::max(ready, before.read);
        }
      });
    }
    return ready;
  }

  void use_operands_until(const Op& op, Seconds end) {
    for (const program::Operand& operand : program_.operands(op)) {
      for_each_block(operand, [&](Accesses& now) {
        Seconds& until = operand.access == Access::read ? now.read : now.written;
        until = std::max(until, end);
      });
    }
  }

  /// Gives every block of every piece of memory a number.
  void number_blocks() {
    std::size_t blocks = 0;
    first_block_.reserve(program_.tensors().size());
    for (const program::Tensor& tensor : program_.tensors()) {
      first_block_.push_back(blocks);
      blocks += static_cast<std::size_t>(tensor.blocks);
    }
    accesses_.resize(blocks);
  }

  /// Calls `visit` with the accesses to each block of memory that the operand is.
  template <class Visit>
  void for_each_block(const program::Operand& operand, Visit visit) {
    const program::TensorId id = operand.ref.tensor;
    const Program::Blocks blocks = program_.blocks(id);
    const std::size_t first =
        first_block_[program_.tensor(id).root] + static_cast<std::size_t>(blocks.first);
    for (std::size_t i = first; i < first + static_cast<std::size_t>(blocks.count); ++i) {
      Accesses& known = accesses_[i];
      if (known.segment != segment_) {
        known = {segment_, Seconds(0), Seconds(0)};
      }
      visit(known);
    }
  }

  const Program& program_;
  Seconds launch_;  // host time of one launch
  std::uint32_t segment_ = 0;
  bool overlaps_ = false;  // in this segment, operations may run beside each other
  std::array<Seconds, program::kStreams + 1> stream_{};
  std::vector<program::Stream> used_;  // of this segment, beside the compute stream
  Seconds compute_busy_;
  Seconds launched_;  // when the host has issued what came before
  Seconds launch_idle_;
  Seconds host_idle_;
  std::vector<Seconds> host_ends_;  // of copies to and from the host, and of what it computes
  Seconds length_;
  std::vector<std::size_t> first_block_;  // by tensor that owns memory
  std::vector<Accesses> accesses_;
};

/// As op_time. Collectives of a kind over the same group and payload take the same time, which is
/// computed once.
class OperationTimes {
 public:
  OperationTimes(const Program& program, const Machine& machine)
      : program_(program), machine_(machine) {
    known_.reserve(kExpected);
  }

  /// Returns whether the machine's profile knows the operation, and then sets its seconds. (An
  /// optional that is handed on is copied through memory: a third of this reader.)
  bool find(const Op& op, Seconds& seconds) {
    if (op.function == program::Function::collective) {
      return find_collective(op, seconds);
    }
    const std::optional<Seconds> found = op_time(program_, op, machine_);
    if (found) {
      seconds = *found;
    }
    return found.has_value();
  }

 private:
  static constexpr std::size_t kExpected = 16;

  struct Known {
    CollectiveKind kind;
    program::AxisMask group;
    ElementType type;
    Bytes payload;
    Seconds seconds;
  };

  bool find_collective(const Op& op, Seconds& seconds) {
    const ElementType type = program_.tensor(program_.operands(op)[0].ref.tensor).type;
    const Bytes payload = payload_bytes(program_, op);
    for (const Known& known : known_) {
      if (known.payload == payload && known.kind == op.collective && known.group == op.group &&
          known.type == type) {
        seconds = known.seconds;
        return true;
      }
    }
    const std::optional<Seconds> found = op_time(program_, op, machine_);
    if (found) {
      seconds = *found;
      known_.push_back({op.collective, op.group, type, payload, seconds});
    }
    return found.has_value();
  }

  const Program& program_;
  const Machine& machine_;
  std::vector<Known> known_;
};

}  // namespace

std::optional<SegmentTimes> segment_times(const Program& program, const Machine& machine) {
  SegmentTimes times;
  times.segment.reserve(program.segments().size());
  times.op.resize(program.ops().size());
  SegmentClock clock(program, issue_time(machine));
  OperationTimes times_of_operations(program, machine);
  for (const Segment& segment : program.segments()) {
    clock.start(program.ops().subspan(segment.first_op, segment.ops));
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program.op(id);
      if (program::info(op.function).family == Family::bookkeeping || program::crosses_stages(op)) {
        continue;
      }
      Seconds duration;
      if (!times_of_operations.find(op, duration)) {
        return std::nullopt;
      }
      times.op[id] = duration;
      clock.run(op, duration);
    }
    times.segment.push_back({clock.length(),
                             clock.compute_busy(),
                             clock.exposed_launch(),
                             clock.exposed_host(),
                             clock.exposed_communication()});
  }
  return times;
}

ledger::TimeLedger sum_of_segments(const Program& program,
                                   const SegmentTimes& times,
                                   const Machine& machine) {
  ledger::TimeLedger sum;
  const std::vector<std::int64_t> executions = program::executions(program);
  for (std::size_t i = 0; i < executions.size(); ++i) {
    const auto often = static_cast<double>(executions[i]);
    const SegmentTime& time = times.segment[i];
    sum.step += often * time.length;
    sum.exposed_communication += often * time.exposed_communication;
    sum.exposed_host_copy += often * time.exposed_host;
    sum.exposed_launch += often * time.exposed_launch;
    sum.compute_busy += often * time.compute_busy;
    const Segment& segment = program.segments()[i];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program.op(id);
      const Seconds each = program::crosses_stages(op)
                               ? op_time(program, op, machine).value_or(Seconds(0))
                               : times.op[id];
      book_time(sum, op, often * each);
    }
  }
  return sum;
}

}  // namespace trireme::engine
