#include "sim/engine/analytic.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "sim/cost/attention.h"
#include "sim/cost/collectives.h"
#include "sim/cost/gemm.h"
#include "sim/cost/pointwise.h"
#include "sim/engine/collective_payload.h"
#include "sim/engine/network/least_seconds.h"
#include "sim/engine/placement.h"
#include "sim/engine/time_booking.h"
#include "sim/engine/work.h"

namespace trireme::engine {

using program::Access;
using program::Family;
using program::Function;
using program::Op;
using program::OpId;
using program::Program;
using program::Segment;

namespace {

constexpr double kMicrosecondsPerSecond = 1e6;

cost::PointwiseClass pointwise_class(Function function) {
  switch (function) {
    case Function::norm_forward:
      return cost::PointwiseClass::norm_forward;
    case Function::norm_backward:
      return cost::PointwiseClass::norm_backward;
    case Function::copy:
    case Function::zero:
      return cost::PointwiseClass::copy;
    case Function::adam:
      return cost::PointwiseClass::adam;
    case Function::logits_max:
    case Function::softmax_statistics:
    case Function::shard_statistics:
    case Function::cross_entropy:
    case Function::cross_entropy_backward:
    case Function::cross_entropy_in_place:
    case Function::parallel_cross_entropy:
    case Function::parallel_cross_entropy_backward:
      return cost::PointwiseClass::cross_entropy;
    default:
      return cost::PointwiseClass::pointwise;
  }
}

std::optional<Seconds> gemm_op_time(const Program& program, const Op& op, const Machine& machine) {
  if (!machine.costs.gemm) {
    return std::nullopt;
  }
  const GemmExtents extents = gemm_extents(program, op, Extents::local);
  return cost::gemm_time(extents.m,
                         extents.n,
                         extents.k,
                         program.tensor(program.operands(op)[0].ref.tensor).type,
                         accumulates_in_fp32(program, op),
                         *machine.costs.gemm,
                         extents.groups);
}

/// On the slowest rank of a ring.
std::optional<Seconds> attention_op_time(const Program& program,
                                         const Op& op,
                                         const Machine& machine) {
  const std::int64_t positions =
      uneven_attention(program, op) ? program.mesh().group_size(ring_of_attention(program, op)) : 1;
  std::optional<Seconds> slowest;
  for (std::int64_t position = 0; position < positions; ++position) {
    const auto seconds = attention_op_time(program, op, machine, position);
    if (!seconds) {
      return std::nullopt;
    }
    slowest = std::max(slowest.value_or(*seconds), *seconds);
  }
  return slowest;
}

std::optional<Seconds> profile_collective_time(const Program& program,
                                               const Op& op,
                                               const Machine& machine) {
  const cost::Group group = place(program.mesh(), op.group, machine.gpus_per_node);
  const ElementType type = program.tensor(program.operands(op)[0].ref.tensor).type;
  return formulas(op.collective)
      .time(payload_bytes(program, op), type, group, machine.nic_rate, machine.costs);
}

/// What the links need at least for a collective; zero where they are not known.
LeastTime least_time_of(const Program& program, const Op& op, const Machine& machine) {
  if (!machine.topology) {
    return {};
  }
  const SharedLinks shared = shared_links(program.mesh(), op.group, *machine.topology);
  return least_seconds(op.collective, payload_bytes(program, op), shared, *machine.topology);
}

std::optional<Seconds> collective_op_time(const Program& program,
                                          const Op& op,
                                          const Machine& machine) {
  const auto promised = profile_collective_time(program, op, machine);
  return promised ? std::optional(std::max(*promised, least_time_of(program, op, machine).seconds))
                  : std::nullopt;
}

/// The streams' clocks inside one segment.
class SegmentClock {
 public:
  SegmentClock(const Program& program, Seconds launch) : program_(program), launch_(launch) {}

  void start(std::span<const Op> ops) {
    stream_.fill(Seconds(0));
    compute_busy_ = Seconds(0);
    launched_ = Seconds(0);
    launch_idle_ = Seconds(0);
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

  /// Time in which the compute stream stands still for another reason.
  [[nodiscard]] Seconds exposed_communication() const {
    return length() - compute_busy_ - exposed_launch();
  }

 private:
  /// When a tensor's memory was last written and last read, in one segment.
  struct Accesses {
    std::uint32_t segment = 0;
    Seconds written;
    Seconds read;
  };

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
  Seconds compute_busy_;
  Seconds launched_;  // when the host has issued what came before
  Seconds launch_idle_;
  Seconds length_;
  std::vector<std::size_t> first_block_;  // by tensor that owns memory
  std::vector<Accesses> accesses_;
};

}  // namespace

std::optional<Seconds> attention_op_time(const Program& program,
                                         const Op& op,
                                         const Machine& machine,
                                         std::int64_t position) {
  const auto& kernel = attention_kernel_costs(machine.costs.attention, op.attention);
  if (!kernel || !machine.costs.streaming_multiprocessors) {
    return std::nullopt;
  }
  const auto pass = op.function == Function::attention_forward ? cost::AttentionPass::forward
                                                               : cost::AttentionPass::backward;
  Seconds sum;
  for (const cost::AttentionShape& shape :
       attention_kernels(program, op, Extents::local, position).all()) {
    const auto seconds =
        cost::attention_time(shape, pass, *kernel, *machine.costs.streaming_multiprocessors);
    if (!seconds) {
      return std::nullopt;
    }
    sum += *seconds;
  }
  return sum;
}

std::optional<Seconds> op_time(const Program& program, const Op& op, const Machine& machine) {
  switch (program::info(op.function).family) {
    case Family::gemm:
      return gemm_op_time(program, op, machine);
    case Family::attention:
      return attention_op_time(program, op, machine);
    case Family::pointwise:
    case Family::optimizer:
      if (!machine.costs.kernel_launch) {
        return std::nullopt;
      }
      return cost::pointwise_time(moved_bytes(program, op),
                                  pointwise_class(op.function),
                                  *machine.costs.kernel_launch,
                                  machine.costs.pointwise);
    case Family::collective:
      return collective_op_time(program, op, machine);
    case Family::host_copy:  // token ids: a data loader copies them ahead of the step
    case Family::bookkeeping:
      return Seconds(0);
  }
  return std::nullopt;
}

std::optional<ledger::TimeLedger> read_time(const Program& program, const Machine& machine) {
  ledger::TimeLedger ledger;
  SegmentClock clock(program, machine.costs.kernel_launch.value_or(Seconds(0)));
  bool known = true;
  program::for_each_run(program, [&](const program::Node& node, std::int64_t count) {
    const Segment& segment = program.segments()[node.segment];
    const auto times = static_cast<double>(count);
    clock.start(program.ops().subspan(segment.first_op, segment.ops));
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program.op(id);
      if (program::info(op.function).family == Family::bookkeeping) {
        continue;
      }
      const std::optional<Seconds> duration = op_time(program, op, machine);
      known = known && duration.has_value();
      clock.run(op, duration.value_or(Seconds(0)));
      book_time(ledger, op, times * duration.value_or(Seconds(0)));
    }
    ledger.step += times * clock.length();
    ledger.exposed_communication += times * clock.exposed_communication();
    ledger.exposed_launch += times * clock.exposed_launch();
    ledger.compute_busy += times * clock.compute_busy();
  });
  if (!known) {
    return std::nullopt;
  }
  return ledger;
}

namespace {

/// Whether the machine knows a kernel for every attention operation of a program.
bool knows(const Program& program,
           program::AttentionImplementation kernel,
           const Machine& machine) {
  return std::all_of(program.ops().begin(), program.ops().end(), [&](const Op& op) {
    Op other = op;
    other.attention = kernel;
    return program::info(op.function).family != Family::attention ||
           attention_op_time(program, other, machine).has_value();
  });
}

/// "; it knows cudnn": the kernels that could do what the program's attention asks for.
std::string known_kernels(const Program& program, const Machine& machine) {
  using Kernel = program::AttentionImplementation;
  std::string known;
  for (const Kernel kernel : {Kernel::flash2, Kernel::flash3, Kernel::cudnn}) {
    if (knows(program, kernel, machine)) {
      known += fmt::format("{}{}", known.empty() ? "; it knows " : ", ", program::name(kernel));
    }
  }
  return known;
}

}  // namespace

std::string unknown_kernel(const Program& program, const Machine& machine) {
  for (const Op& op : program.ops()) {
    if (!op_time(program, op, machine)) {
      if (program::info(op.function).family != Family::attention) {
        return fmt::format("the profile does not know the seconds of '{}'", op.label);
      }
      const cost::AttentionShape shape = attention_shape(program, op, Extents::local);
      return fmt::format("the profile does not know {} of kernel {} at head dimension {}{}",
                         program::info(op.function).name,
                         program::name(op.attention),
                         shape.head_dim,
                         known_kernels(program, machine));
    }
  }
  return {};
}

std::optional<LeastTime> bound_by_links(const Program& program,
                                        const Op& op,
                                        const Machine& machine) {
  const auto promised = profile_collective_time(program, op, machine);
  const LeastTime least = least_time_of(program, op, machine);
  return promised && *promised < least.seconds ? std::optional(least) : std::nullopt;
}

std::vector<std::string> faster_than_links(const Program& program, const Machine& machine) {
  struct Furthest {
    const Op* op = nullptr;
    Seconds promised;
    LeastTime least;
  };

  std::array<Furthest, kCollectiveNames.size()> furthest;
  for (const Op& op : program.ops()) {
    if (op.function != Function::collective) {
      continue;
    }
    if (const auto least = bound_by_links(program, op, machine)) {
      const Seconds promised = *profile_collective_time(program, op, machine);
      Furthest& worst = furthest[static_cast<std::size_t>(op.collective)];
      if (worst.op == nullptr ||
          ratio(promised, least->seconds) < ratio(worst.promised, worst.least.seconds)) {
        worst = {&op, promised, *least};
      }
    }
  }
  std::vector<std::string> sentences;
  for (const Furthest& worst : furthest) {
    if (worst.op != nullptr) {
      sentences.push_back(fmt::format(
          "the profile is faster than the links allow: {} of {}, {}, would take {:.6g} us, and {} "
          "needs {:.6g} us at least, which is used",
          name(worst.op->collective),
          name(worst.op->component),
          name(worst.op->phase),
          kMicrosecondsPerSecond * worst.promised.value(),
          worst.least.where,
          kMicrosecondsPerSecond * worst.least.seconds.value()));
    }
  }
  return sentences;
}

std::vector<ledger::TimeEntry> time_entries(const Program& program, const Machine& machine) {
  std::vector<ledger::TimeEntry> entries;
  program::for_each_op(program, [&](OpId, const Op& op, std::int64_t count) {
    if (program::info(op.function).family == Family::bookkeeping) {
      return;
    }
    const auto times = static_cast<double>(count);
    ledger::TimeEntry entry;
    entry.phase = op.phase;
    entry.component = op.component;
    entry.operation = op.label;
    entry.function =
        op.function == Function::collective ? name(op.collective) : program::info(op.function).name;
    entry.count = count;
    entry.each = op_time(program, op, machine).value_or(Seconds(0));
    entry.total = times * entry.each;
    entry.flops = times * executed_flops(program, op);
    entries.push_back(entry);
  });
  return entries;
}

}  // namespace trireme::engine
