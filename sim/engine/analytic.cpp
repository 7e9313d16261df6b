#include "sim/engine/analytic.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/cost/attention.h"
#include "sim/cost/collectives.h"
#include "sim/cost/gemm.h"
#include "sim/cost/pointwise.h"
#include "sim/engine/collective_payload.h"
#include "sim/engine/network/least_seconds.h"
#include "sim/engine/placement.h"
#include "sim/engine/segment_times.h"
#include "sim/engine/work.h"

namespace trireme::engine {

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

std::optional<Seconds> host_op_time(const Program& program, const Op& op, const Machine& machine) {
  if (!machine.host) {
    return std::nullopt;
  }
  return op.on_host ? cost::host_work_time(moved_bytes(program, op), *machine.host)
                    : cost::host_copy_time(host_copied_bytes(program, op), *machine.host);
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
  const cost::Group group = group_of(program, op, machine.gpus_per_node);
  const ElementType type = program.tensor(program.operands(op)[0].ref.tensor).type;
  return formulas(op.collective)
      .time(payload_bytes(program, op), type, group, machine.nic_rate, machine.costs);
}

/// What the links need at least for a collective; zero where they are not known.
LeastTime least_time_of(const Program& program, const Op& op, const Machine& machine) {
  if (!machine.topology) {
    return {};
  }
  SharedLinks shared;
  if (program::crosses_stages(op)) {
    shared.ranks = 2;
    shared.per_nic = 1;
    shared.per_node = group_of(program, op, machine.gpus_per_node).ranks_per_node;
    shared.per_pod = shared.ranks;
  } else {
    shared = shared_links(program.mesh(), op.group, *machine.topology);
  }
  return least_seconds(op.collective, payload_bytes(program, op), shared, *machine.topology);
}

std::optional<Seconds> collective_op_time(const Program& program,
                                          const Op& op,
                                          const Machine& machine) {
  const auto promised = profile_collective_time(program, op, machine);
  return promised ? std::optional(std::max(*promised, least_time_of(program, op, machine).seconds))
                  : std::nullopt;
}

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
  const AttentionKernels kernels = attention_kernels(program, op, Extents::local, position);
  Seconds sum;
  for (const cost::AttentionShape& shape : kernels.all()) {
    const auto seconds =
        cost::attention_time(shape, pass, *kernel, *machine.costs.streaming_multiprocessors);
    if (!seconds) {
      return std::nullopt;
    }
    sum += *seconds;
  }
  return sum;
}

Seconds issue_time(const Machine& machine) {
  return std::max(machine.costs.kernel_launch.value_or(Seconds(0)), machine.host_per_operation);
}

std::optional<Seconds> op_time(const Program& program, const Op& op, const Machine& machine) {
  if (op.on_host || program::crosses_host_link(op)) {
    return host_op_time(program, op, machine);
  }
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
  const std::optional<SegmentTimes> times = segment_times(program, machine);
  if (!times) {
    return std::nullopt;
  }
  return sum_of_segments(program, *times, machine);
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
    if (!program::communicates(op)) {
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
        program::communicates(op) ? name(op.collective) : program::info(op.function).name;
    entry.count = count;
    entry.each = op_time(program, op, machine).value_or(Seconds(0));
    entry.total = times * entry.each;
    entry.flops = times * executed_flops(program, op);
    entries.push_back(entry);
  });
  return entries;
}

}  // namespace trireme::engine
