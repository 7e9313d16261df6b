#include "sim/engine/sizes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/engine/collective_payload.h"
#include "sim/engine/placement.h"
#include "sim/engine/work.h"

namespace trireme::engine {

using ledger::ByteAccount;
using ledger::ByteEntry;
using ledger::ByteLedger;
using program::Family;
using program::Function;
using program::Node;
using program::Op;
using program::OpId;
using program::Program;
using program::Segment;
using program::Tensor;
using program::TensorId;

namespace {

/// Calls `visit(op id, op, times)` for every operation, in program order.
template <class Visit>
void for_each_op(const Program& program, Visit visit) {
  program::for_each_run(program, [&](const Node& node, std::int64_t times) {
    const Segment& segment = program.segments()[node.segment];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      visit(id, program.op(id), times);
    }
  });
}

/// Calls `visit(op, pair, account, bytes of one execution, times)` for every tensor of every
/// collective.
template <class Visit>
void for_each_transfer(const Program& program,
                       std::int64_t gpus_per_node,
                       std::int64_t rank,
                       Visit visit) {
  for_each_op(program, [&](OpId, const Op& op, std::int64_t times) {
    if (op.function != Function::collective) {
      return;
    }
    const cost::Group group = place(program.mesh(), op.group, gpus_per_node);
    const std::int64_t position = program.mesh().position(rank, op.group);
    for (std::size_t pair = 0; pair < op.operands / 2U; ++pair) {
      const Tensor& tensor = program.tensor(program.operands(op)[pair].ref.tensor);
      const ByteAccount account = byte_account(op, tensor);
      visit(op, pair, account, collective_bytes(program, op, pair, group, position), times);
    }
  });
}

bool divides(const Program& program, const Op& op) {
  const std::int64_t ranks = program.mesh().group_size(op.group);
  for (std::size_t pair = 0; pair < op.operands / 2U; ++pair) {
    if (collective_payload(program, op, pair).value() % (ranks * ranks) != 0) {
      return false;
    }
  }
  return true;
}

std::string group_name(const program::Mesh& mesh, program::AxisMask group) {
  std::string name;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if ((group & program::axis_bit(axis)) != 0 && mesh.size(axis) > 1) {
      name += name.empty() ? "" : " x ";
      name += mesh.axis(axis).name;
    }
  }
  return name;
}

std::string_view payload_word(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "gathered";
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_reduce:
      return "reduced";
    case CollectiveKind::all_to_all:
      return "exchanged";
    case CollectiveKind::send_recv:
      return "block";
  }
  return "";
}

/// Where in the program memory peaks: the operation, and the iteration of each enclosing repeat.
struct Spot {
  OpId op = 0;
  std::uint32_t run = 0;
};

/// Memory of a part of the program, in bytes relative to where it starts.
struct Summary {
  std::int64_t net = 0;
  std::int64_t peak = 0;
  Spot spot;
};

Summary then(const Summary& first, const Summary& second) {
  const std::int64_t later = first.net + second.peak;
  return {first.net + second.net,
          std::max(first.peak, later),
          later > first.peak ? second.spot : first.spot};
}

std::int64_t total_bytes(const Program& program, std::span<const TensorId> tensors) {
  std::int64_t bytes = 0;
  for (const TensorId id : tensors) {
    bytes += program.tensor(id).local_bytes().value();
  }
  return bytes;
}

/// Memory of one run, plus that of the level it starts at.
Summary summarise_run(const Program& program, std::uint32_t run) {
  const Segment& segment = program.segments()[program.nodes()[run].segment];
  Summary summary;
  summary.spot = {segment.first_op, run};
  for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
    const Op& op = program.op(id);
    const std::int64_t born = total_bytes(program, program.births(op));
    const std::int64_t dead = total_bytes(program, program.deaths(op));
    summary = then(summary, {born - dead, born, {id, run}});
  }
  return summary;
}

/// Memory of nodes [first, last). `grows`, when given, learns of each repeat whether an iteration
/// leaves more than it found: then the last one peaks, else the first.
Summary summarise(const Program& program,
                  std::uint32_t first,
                  std::uint32_t last,
                  std::vector<bool>* grows) {
  Summary whole;
  whole.spot = {0, first};
  for (std::uint32_t i = first; i < last;) {
    const Node& node = program.nodes()[i];
    if (node.kind == Node::Kind::run) {
      whole = then(whole, summarise_run(program, i));
      ++i;
      continue;
    }
    const Summary body = summarise(program, i + 1, node.end, grows);
    if (grows != nullptr) {
      (*grows)[i] = body.net > 0;
    }
    Summary repeated;
    repeated.net = node.count * body.net;
    repeated.peak = body.peak + std::max<std::int64_t>(0, (node.count - 1) * body.net);
    repeated.spot = body.spot;
    for (const program::RepeatDeath& death : program.deaths(node)) {
      repeated.net -= death.instances * program.tensor(death.tensor).local_bytes().value();
    }
    whole = then(whole, repeated);
    i = node.end;
  }
  return whole;
}

Summary summarise(const Program& program, std::vector<bool>* grows = nullptr) {
  return summarise(program, 0, static_cast<std::uint32_t>(program.nodes().size()), grows);
}

Bytes resident_bytes(const Program& program) {
  Bytes resident;
  for (const Tensor& tensor : program.tensors()) {
    if (tensor.resident && tensor.storage == program::Storage::own) {
      resident += program.resident_instances(tensor) * tensor.local_bytes();
    }
  }
  return resident;
}

/// Where memory peaks: the repeats around it, outermost first, and how many of their iterations
/// come before it.
struct PeakPath {
  struct Step {
    std::uint32_t node;
    std::int64_t iterations_before;
  };

  Spot spot;
  std::vector<Step> steps;
};

PeakPath path_to_peak(const Program& program) {
  std::vector<bool> grows(program.nodes().size());
  PeakPath path;
  path.spot = summarise(program, &grows).spot;
  for (std::uint32_t i = 0; i < path.spot.run; ++i) {
    const Node& node = program.nodes()[i];
    if (node.kind == Node::Kind::repeat && node.end > path.spot.run) {
      path.steps.push_back({i, grows[i] ? node.count - 1 : 0});
    }
  }
  return path;
}

/// Live instances of every tensor, counted in program order up to an instant.
class LiveInstances {
 public:
  explicit LiveInstances(const Program& program)
      : program_(program), live_(program.tensors().size(), 0) {}

  /// Counts the births before the peak operation and the deaths before it.
  void count_up_to(const PeakPath& path) {
    count(0, static_cast<std::uint32_t>(program_.nodes().size()), 1, path, 0);
  }

  [[nodiscard]] std::int64_t operator[](TensorId id) const { return live_[id]; }

 private:
  /// Counts nodes [first, last), `times` over; returns true when the peak was reached.
  bool count(std::uint32_t first,
             std::uint32_t last,
             std::int64_t times,
             const PeakPath& path,
             std::size_t depth) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        if (count_run(i, times, path.spot, depth == path.steps.size())) {
          return true;
        }
        ++i;
        continue;
      }
      if (depth < path.steps.size() && path.steps[depth].node == i) {
        count(i + 1, node.end, path.steps[depth].iterations_before, path, kNever);
        return count(i + 1, node.end, 1, path, depth + 1);
      }
      count(i + 1, node.end, times * node.count, path, kNever);
      for (const program::RepeatDeath& death : program_.deaths(node)) {
        live_[death.tensor] -= times * death.instances;
      }
      i = node.end;
    }
    return false;
  }

  bool count_run(std::uint32_t run, std::int64_t times, const Spot& spot, bool may_stop) {
    const Segment& segment = program_.segments()[program_.nodes()[run].segment];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program_.op(id);
      for (const TensorId tensor : program_.births(op)) {
        live_[tensor] += times;
      }
      if (may_stop && run == spot.run && id == spot.op) {
        return true;
      }
      for (const TensorId tensor : program_.deaths(op)) {
        live_[tensor] -= times;
      }
    }
    return false;
  }

  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);

  const Program& program_;
  std::vector<std::int64_t> live_;
};

std::string instant_name(const Program& program, const PeakPath& path) {
  if (program.ops().empty()) {
    return "no operation";
  }
  const Op& op = program.op(path.spot.op);
  std::string text(name(op.phase));
  for (const auto& step : path.steps) {
    const Node& node = program.nodes()[step.node];
    if (node.count > 1) {
      text += fmt::format(", {} {}",
                          program::kIndexNames[static_cast<std::size_t>(node.index)],
                          node.first + node.step * step.iterations_before);
    }
  }
  return fmt::format("{}, {}: {}", text, name(op.component), op.label);
}

Flops flops_of_gemm(const GemmExtents& extents) {
  return cost::gemm_flops(extents.m, extents.n, extents.k);
}

}  // namespace

ByteLedger read_bytes(const Program& program, std::int64_t gpus_per_node, std::int64_t rank) {
  ByteLedger ledger;
  for_each_transfer(
      program,
      gpus_per_node,
      rank,
      [&](const Op&,
          std::size_t,
          const ByteAccount& account,
          const cost::CollectiveBytes& bytes,
          std::int64_t times) {
        ledger.book(
            account, times * bytes.sent, times * bytes.sent_off_node, times * bytes.received);
      });
  return ledger;
}

std::int64_t largest_sender(const Program& program, std::int64_t gpus_per_node) {
  bool uniform = true;
  for (const Op& op : program.ops()) {
    uniform = uniform && (op.function != Function::collective || divides(program, op));
  }
  std::int64_t largest = 0;
  if (uniform) {
    return largest;
  }
  Bytes most = read_bytes(program, gpus_per_node, 0).sent;
  for (std::int64_t rank = 1; rank < program.mesh().ranks(); ++rank) {
    const Bytes sent = read_bytes(program, gpus_per_node, rank).sent;
    if (sent > most) {
      most = sent;
      largest = rank;
    }
  }
  return largest;
}

std::vector<ByteEntry> byte_entries(const Program& program,
                                    std::int64_t gpus_per_node,
                                    std::int64_t rank) {
  std::vector<ByteEntry> entries;
  for_each_transfer(program,
                    gpus_per_node,
                    rank,
                    [&](const Op& op,
                        std::size_t pair,
                        const ByteAccount& account,
                        const cost::CollectiveBytes& bytes,
                        std::int64_t times) {
                      const Tensor& tensor = program.tensor(program.operands(op)[pair].ref.tensor);
                      ByteEntry entry;
                      entry.account = account;
                      entry.operation = op.label;
                      entry.tensor = program::display_name(tensor);
                      entry.group = group_name(program.mesh(), op.group);
                      entry.ranks = program.mesh().group_size(op.group);
                      entry.count = times;
                      entry.payload = payload_word(op.collective);
                      entry.payload_bytes =
                          bytes_of(collective_payload(program, op, pair), tensor.type);
                      entry.sent = times * bytes.sent;
                      entry.received = times * bytes.received;
                      entries.push_back(std::move(entry));
                    });
  return entries;
}

MemoryPeak read_peak(const Program& program) {
  const Summary summary = summarise(program);
  MemoryPeak peak;
  peak.resident = resident_bytes(program);
  peak.allocated = peak.resident + Bytes(summary.peak);
  peak.op = summary.spot.op;
  return peak;
}

Bytes read_net_memory(const Program& program) {
  return Bytes(summarise(program).net);
}

namespace {

/// Calls `visit(tensor, instances)` for every tensor that is alive at the peak, as declared.
template <class Visit>
void for_each_alive(const Program& program, const PeakPath& path, Visit visit) {
  LiveInstances live(program);
  live.count_up_to(path);
  for (std::size_t i = 0; i < program.tensors().size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const Tensor& tensor = program.tensor(id);
    if (tensor.storage != program::Storage::own) {
      continue;
    }
    const std::int64_t instances = tensor.resident ? program.resident_instances(tensor) : live[id];
    if (instances != 0) {
      visit(tensor, instances);
    }
  }
}

}  // namespace

std::vector<ledger::MemoryEntry> memory_entries(const Program& program) {
  std::vector<ledger::MemoryEntry> entries;
  for_each_alive(program, path_to_peak(program), [&](const Tensor& tensor, std::int64_t instances) {
    ledger::MemoryEntry entry;
    entry.item = program::memory_item(tensor);
    entry.tensor = program::display_name(tensor);
    entry.shape_symbols = program::shape_in_symbols(program.mesh(), tensor);
    entry.shape_numbers = program::shape_in_numbers(program.mesh(), tensor);
    entry.type = tensor.type;
    entry.instances = instances;
    entry.bytes = instances * tensor.local_bytes();
    entries.push_back(std::move(entry));
  });
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.bytes > b.bytes;
  });
  return entries;
}

ledger::MemoryLedger read_memory(const Program& program) {
  ledger::MemoryLedger memory;
  const PeakPath path = path_to_peak(program);
  memory.instant = instant_name(program, path);
  for_each_alive(program, path, [&](const Tensor& tensor, std::int64_t instances) {
    const Bytes bytes = instances * tensor.local_bytes();
    memory.by_item[ledger::index(program::memory_item(tensor))] += bytes;
    memory.allocated += bytes;
  });
  return memory;
}

ledger::FlopLedger read_flops(const Program& program) {
  ledger::FlopLedger flops;
  for_each_op(program, [&](OpId, const Op& op, std::int64_t count) {
    const auto times = static_cast<double>(count);
    const bool of_model = op.phase == Phase::forward || op.phase == Phase::backward;
    const Family family = program::info(op.function).family;
    if (family == Family::gemm) {
      flops.executed += times * flops_of_gemm(gemm_extents(program, op, Extents::local));
      if (of_model) {
        const Flops model = times * flops_of_gemm(gemm_extents(program, op, Extents::logical));
        flops.model += model;
        flops.model_full_attention += model;
      }
    } else if (family == Family::attention) {
      const bool forward = op.function == Function::attention_forward;
      const cost::AttentionShape local = attention_shape(program, op, Extents::local);
      flops.executed += times * (forward ? cost::attention_forward_flops(local)
                                         : cost::attention_backward_kernel_flops(local));
      if (of_model) {
        cost::AttentionShape logical = attention_shape(program, op, Extents::logical);
        const auto model_flops =
            forward ? cost::attention_forward_flops : cost::attention_backward_model_flops;
        flops.model += times * model_flops(logical);
        logical.causal = false;
        flops.model_full_attention += times * model_flops(logical);
      }
    }
  });
  return flops;
}

}  // namespace trireme::engine
