#include "sim/engine/execute/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/collective_payload.h"
#include "sim/engine/execute/heap.h"

namespace trireme::engine {

using program::Access;
using program::Function;
using program::Node;
using program::Op;
using program::Operand;
using program::OpId;
using program::Program;
using program::Segment;
using program::Tensor;
using program::TensorId;

class Executor::Impl {
 public:
  Impl(const Program& program,
       Transport& transport,
       std::int64_t gpus_per_node,
       Source source,
       Observer observer)
      : program_(program),
        transport_(transport),
        gpus_per_node_(gpus_per_node),
        source_(std::move(source)),
        observer_(std::move(observer)),
        memory_(program, transport.rank()) {
    if (transport.ranks() != program.mesh().ranks()) {
      throw ExecutionError(fmt::format("the program runs on {} ranks, the transport has {}",
                                       program.mesh().ranks(),
                                       transport.ranks()));
    }
    keep_freed_memory();
    allocate_resident();
  }

  ExecutionResult run_step(const ExecutionConstants& constants) {
    constants_ = constants;
    result_ = {};
    memory_.reset_resident();
    note_peak(0);
    bound_ = {};
    bound_indices_ = 0;
    run_nodes(0, static_cast<std::uint32_t>(program_.nodes().size()));
    for_each_place([&](program::Place place, HeldMemory& held) {
      held.at_end = memory_.allocated(place);
      held.alive_at_end = memory_.alive(place);
    });
    return std::move(result_);
  }

  LocalTensor resident(TensorId tensor, const InstanceIndex& instance) {
    return memory_.load({tensor, Access::read}, instance);
  }

 private:
  void allocate_resident() {
    for (std::size_t i = 0; i < program_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      const Tensor& tensor = program_.tensor(id);
      if (tensor.resident && tensor.storage == program::Storage::own) {
        for_each_instance(tensor, [&](const InstanceIndex& instance) {
          memory_.allocate(id, instance);
          if (tensor.role != program::Role::gradient) {  // a step writes gradients itself
            const Operand operand{id, Access::write};
            LocalTensor local = memory_.load(operand, instance);
            source_(instance, local);
            memory_.store(local, operand, instance);
          }
        });
      }
    }
  }

  template <class Visit>
  void for_each_instance(const Tensor& tensor, Visit visit) const {
    const std::int64_t instances = program_.resident_instances(tensor);
    for (std::int64_t number = 0; number < instances; ++number) {
      std::int64_t rest = number;
      InstanceIndex instance{};
      for (std::size_t i = 0; i < program::kIndexCount; ++i) {
        const auto range = program_.resident_range(tensor, static_cast<program::Index>(i));
        instance[i] = static_cast<std::int32_t>(range.first + rest % range.count);
        rest /= range.count;
      }
      visit(instance);
    }
  }

  void run_nodes(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        const Segment& segment = program_.segments()[node.segment];
        const InstanceIndex unshifted = bound_;
        for (std::size_t index = 0; index < program::kIndexCount; ++index) {
          bound_[index] += node.shift[index];
        }
        for (OpId op = segment.first_op; op < segment.first_op + segment.ops; ++op) {
          run_op(op);
        }
        bound_ = unshifted;
        ++i;
        continue;
      }
      const auto index = static_cast<std::size_t>(node.index);
      bound_indices_ =
          static_cast<program::IndexMask>(bound_indices_ | program::index_bit(node.index));
      for (std::int32_t k = 0; k < node.count; ++k) {
        bound_[index] = node.first + k * node.step;
        run_nodes(i + 1, node.end);
      }
      bound_indices_ =
          static_cast<program::IndexMask>(bound_indices_ & ~program::index_bit(node.index));
      bound_[index] = 0;
      for (const program::RepeatDeath& death : program_.deaths(node)) {
        memory_.free_all(death, bound_, bound_indices_);
      }
      i = node.end;
    }
  }

  [[nodiscard]] InstanceIndex indices(const Operand& operand) const {
    InstanceIndex instance = bound_;
    for (std::size_t i = 0; i < program::kIndexCount; ++i) {
      instance[i] += operand.ref.offset[i];
    }
    return instance;
  }

  template <class Visit>
  void for_each_place(Visit visit) {
    for (std::size_t i = 0; i < result_.held.size(); ++i) {
      visit(static_cast<program::Place>(i), result_.held[i]);
    }
  }

  /// The first instant at which each memory is fullest.
  void note_peak(OpId op) {
    for_each_place([&](program::Place place, HeldMemory& held) {
      if (memory_.allocated(place) > held.peak) {
        held.peak = memory_.allocated(place);
        held.peak_op = op;
        held.alive_at_peak = memory_.alive(place);
      }
    });
  }

  void run_op(OpId id) {
    const Op& op = program_.op(id);
    try {
      const auto begin = std::chrono::steady_clock::now();
      bring_into_being(op);
      note_peak(id);
      compute(op);
      let_go(op);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      result_.wall_clock[ledger::index(op.phase)] += Seconds(took.count());
    } catch (const ExecutionError& error) {
      throw ExecutionError(fmt::format("rank {}: operation '{}' ({}, {}): {}",
                                       transport_.rank(),
                                       op.label,
                                       name(op.phase),
                                       name(op.component),
                                       error.what()));
    } catch (const std::logic_error& error) {  // a kernel that was given what it cannot work with
      throw ExecutionError(fmt::format("rank {}: operation '{}' ({}, {}) on {}: {}",
                                       transport_.rank(),
                                       op.label,
                                       name(op.phase),
                                       name(op.component),
                                       operand_names(op),
                                       error.what()));
    }
  }

  [[nodiscard]] std::string operand_names(const Op& op) const {
    std::string names;
    for (const Operand& operand : program_.operands(op)) {
      names += fmt::format("{}'{}'",
                           names.empty() ? "" : ", ",
                           program::display_name(program_.tensor(operand.ref.tensor)));
    }
    return names;
  }

  void bring_into_being(const Op& op) {
    for (const TensorId owner : program_.births(op)) {
      for (const Operand& operand : program_.operands(op)) {
        if (operand.access == Access::write && program_.tensor(operand.ref.tensor).root == owner) {
          memory_.allocate(owner, indices(operand));
          break;
        }
      }
    }
  }

  void let_go(const Op& op) {
    const auto owners = program_.deaths(op);
    const auto last_uses = program_.death_operands(op);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      memory_.free(owners[i], indices(program_.operands(op)[last_uses[i]]));
    }
  }

  void compute(const Op& op) {
    if (op.function == Function::keep) {
      return;
    }
    const auto operands = program_.operands(op);
    std::vector<LocalTensor> locals;
    locals.reserve(operands.size());
    for (const Operand& operand : operands) {
      locals.push_back(memory_.load(operand, indices(operand)));
      if (operand.access == Access::read) {
        observe(op, locals.size() - 1, operand, locals.back());
      }
    }
    if (op.function == Function::collective) {
      run_collective(op, operands, locals);
    } else if (program::crosses_stages(op)) {
      run_message(op, operands.back(), locals.back());
    } else if (program::crosses_host_link(op)) {
      copy_over_host_link(op, operands, locals);
    } else if (op.function == Function::select_experts) {  // an input of the step
      source_(indices(operands.back()), locals.back());
    } else if (op.function == Function::load_batch) {
      for (std::size_t i = 0; i < locals.size(); ++i) {
        source_(indices(operands[i]), locals[i]);
      }
    } else {
      kernel(op.function)(
          {program_.mesh(), transport_.rank(), op, constants_, program_.token_order()}, locals);
    }
    for (std::size_t i = 0; i < locals.size(); ++i) {
      if (operands[i].access == Access::read) {
        continue;
      }
      check_written(operands[i], locals[i]);
      memory_.store(locals[i], operands[i], indices(operands[i]));
      observe(op, i, operands[i], locals[i]);
    }
  }

  void observe(const Op& op,
               std::size_t number,
               const Operand& operand,
               const LocalTensor& local) const {
    if (observer_) {
      observer_(op, number, indices(operand), local);
    }
  }

  void check_written(const Operand& operand, const LocalTensor& local) const {
    for (const double value : local.values) {
      if (std::isnan(value)) {  // a maximum over no logits is minus infinity
        throw ExecutionError(
            fmt::format("tensor '{}' is not a number where it was to be written",
                        program::display_name(program_.tensor(operand.ref.tensor))));
      }
    }
  }

  [[nodiscard]] MessageGroup group_of(const Op& op) const {
    const program::Mesh& mesh = program_.mesh();
    const std::int64_t rank = transport_.rank();
    MessageGroup group;
    group.ranks.resize(static_cast<std::size_t>(mesh.group_size(op.group)));
    group.position = mesh.position(rank, op.group);
    const auto outside = static_cast<program::AxisMask>(mesh.all_axes() & ~op.group);
    for (std::int64_t other = 0; other < mesh.ranks(); ++other) {
      if (mesh.position(other, outside) == mesh.position(rank, outside)) {
        group.ranks[static_cast<std::size_t>(mesh.position(other, op.group))] = other;
      }
    }
    return group;
  }

  /// Counts what crosses the link: elements in their declared type.
  void copy_over_host_link(const Op& op,
                           std::span<const Operand> operands,
                           std::vector<LocalTensor>& locals) {
    locals.back().values = locals.front().values;
    const Tensor& tensor = program_.tensor(operands.front().ref.tensor);
    const auto elements = static_cast<std::int64_t>(locals.front().values.size());
    result_.wire.ledger.book_host_copy(op.function == Function::to_host,
                                       bytes_of(Elements(elements), tensor.type));
  }

  /// One end of a message to or from the rank at the same place in another stage.
  void run_message(const Op& op, const Operand& operand, LocalTensor& local) {
    const Tensor& tensor = program_.tensor(operand.ref.tensor);
    const std::int64_t own = transport_.rank();
    const std::int64_t peer = program_.mesh().in_stage(own, program_.peer_stage(op));
    Carrier carrier{
        transport_, result_.wire, byte_account(op, tensor), tensor.type, gpus_per_node_};
    MessageGroup both;
    both.ranks = {std::min(own, peer), std::max(own, peer)};
    both.position = own < peer ? 0 : 1;
    if (op.function == Function::stage_send) {
      send_message(carrier, peer, local.values);
    } else if (op.function == Function::stage_receive) {
      receive_message(carrier, peer, local.values);
    } else {
      all_reduce(carrier, both, local.values, Combine::sum);
    }
  }

  void run_collective(const Op& op,
                      std::span<const Operand> operands,
                      std::vector<LocalTensor>& locals) {
    const MessageGroup group = group_of(op);
    const std::size_t pairs = operands.size() / 2;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const TensorId from = operands[pair].ref.tensor;
      const TensorId to = operands[pairs + pair].ref.tensor;
      const Tensor& tensor = program_.tensor(from);
      Carrier carrier{
          transport_, result_.wire, byte_account(op, tensor), tensor.type, gpus_per_node_};
      carry(op, {carrier, group, from, to, locals[pair].values, locals[pairs + pair].values});
    }
  }

  /// One tensor of a collective on its way from an input to an output.
  struct Transfer {
    Carrier& carrier;
    const MessageGroup& group;
    TensorId from;
    TensorId to;
    const std::vector<double>& input;
    std::vector<double>& output;
  };

  /// Cuts the input into messages and puts the result together, by logical element.
  void carry(const Op& op, const Transfer& transfer) {
    const Combine combine = op.reduction == program::Reduction::max ? Combine::max : Combine::sum;
    switch (op.collective) {
      case CollectiveKind::all_gather:
        return carry_all_gather(transfer);
      case CollectiveKind::reduce_scatter:
        return carry_reduce_scatter(transfer, combine);
      case CollectiveKind::all_reduce:
        transfer.output = transfer.input;
        return all_reduce(transfer.carrier, transfer.group, transfer.output, combine);
      case CollectiveKind::all_to_all:
        return carry_all_to_all(transfer);
      case CollectiveKind::send_recv:
        return hop(transfer.carrier, transfer.group, op.shift, transfer.input, transfer.output);
    }
  }

  void carry_all_gather(const Transfer& transfer) {
    const std::vector<std::int64_t>& ranks = transfer.group.ranks;
    std::vector<double> gathered(transfer.input.size() * ranks.size());
    all_gather(transfer.carrier, transfer.group, transfer.input, gathered);
    for (std::size_t p = 0; p < ranks.size(); ++p) {
      const auto& held = memory_.distribution().held(transfer.from, ranks[p]);
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (held[i] >= 0) {
          transfer
              .output[memory_.distribution().place_of(transfer.to, transport_.rank(), held[i])] =
              gathered[p * held.size() + i];
        }
      }
    }
    pad_with_zeros(transfer.to, transfer.output);
  }

  void carry_reduce_scatter(const Transfer& transfer, Combine combine) {
    std::vector<double> whole;
    whole.reserve(transfer.output.size() * transfer.group.ranks.size());
    for (const std::int64_t peer : transfer.group.ranks) {
      for (const std::int64_t element : memory_.distribution().held(transfer.to, peer)) {
        whole.push_back(element < 0 ? 0.0
                                    : transfer.input[memory_.distribution().place_of(
                                          transfer.from, transport_.rank(), element)]);
      }
    }
    reduce_scatter(transfer.carrier, transfer.group, whole, transfer.output, combine);
  }

  void carry_all_to_all(const Transfer& transfer) {
    std::vector<double> packed;
    packed.reserve(transfer.input.size());
    const auto& mine = memory_.distribution().place(transfer.from, transport_.rank());
    for (const std::int64_t peer : transfer.group.ranks) {
      for (const std::int64_t element : memory_.distribution().held(transfer.to, peer)) {
        const std::int64_t place = mine[static_cast<std::size_t>(element)];
        if (place >= 0) {
          packed.push_back(transfer.input[static_cast<std::size_t>(place)]);
        }
      }
    }
    std::vector<double> received(packed.size());
    all_to_all(transfer.carrier, transfer.group, packed, received);
    std::size_t next = 0;
    const auto& held = memory_.distribution().held(transfer.to, transport_.rank());
    for (const std::int64_t peer : transfer.group.ranks) {
      const auto& theirs = memory_.distribution().place(transfer.from, peer);
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (theirs[static_cast<std::size_t>(held[i])] >= 0) {
          transfer.output[i] = received[next++];
        }
      }
    }
  }

  void pad_with_zeros(TensorId tensor, std::vector<double>& values) {
    const auto& held = memory_.distribution().held(tensor, transport_.rank());
    for (std::size_t i = 0; i < held.size(); ++i) {
      values[i] = held[i] < 0 ? 0.0 : values[i];
    }
  }

  const Program& program_;
  Transport& transport_;
  std::int64_t gpus_per_node_;
  Source source_;
  Observer observer_;
  RankMemory memory_;
  ExecutionConstants constants_;
  ExecutionResult result_;
  InstanceIndex bound_{};
  program::IndexMask bound_indices_ = 0;
};

Executor::Executor(const Program& program,
                   Transport& transport,
                   std::int64_t gpus_per_node,
                   Source source,
                   Observer observer)
    : impl_(std::make_unique<Impl>(
          program, transport, gpus_per_node, std::move(source), std::move(observer))) {}

Executor::~Executor() = default;

ExecutionResult Executor::run_step(const ExecutionConstants& constants) {
  return impl_->run_step(constants);
}

LocalTensor Executor::resident(TensorId tensor, const InstanceIndex& instance) const {
  return impl_->resident(tensor, instance);
}

}  // namespace trireme::engine
