#include "tests/support/unrolled_oracle.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace trireme::test {

namespace {

using program::Access;
using program::IndexMask;
using program::Node;
using program::Op;
using program::OpId;
using program::Program;
using program::Storage;
using program::Tensor;
using program::TensorId;

using Values = std::array<std::int64_t, program::kIndexCount>;
using Instance = std::pair<TensorId, Values>;

constexpr std::size_t kNoScope = static_cast<std::size_t>(-1);

/// One reference of one executed operation.
struct Reference {
  std::size_t time = 0;  // executed operations before this one
  OpId op = 0;
  TensorId tensor = program::kNoTensor;
  Instance memory;    // of the tensor that owns the memory
  Values instance{};  // of the tensor itself
  Access access = Access::read;
  std::size_t scope = kNoScope;  // the execution of a repeat at whose end memory may be free
};

/// The references of a whole step, in the order in which they happen.
class Trace {
 public:
  explicit Trace(const Program& program) : program_(program) {
    walk(0, static_cast<std::uint32_t>(program.nodes().size()));
  }

  std::vector<Reference> references;
  std::vector<OpId> executed;
  std::vector<std::size_t> scope_end;  // of each execution of a repeat: its last operation's time

 private:
  struct OpenRepeat {
    const Node* node;
    std::size_t scope;
  };

  void walk(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        const auto& segment = program_.segments()[node.segment];
        shift_ = node.shift;
        for (OpId op = segment.first_op; op < segment.first_op + segment.ops; ++op) {
          execute(op);
        }
        ++i;
        continue;
      }
      open_.push_back({&node, scope_end.size()});
      scope_end.push_back(0);
      for (std::int64_t iteration = 0; iteration < node.count; ++iteration) {
        value_[static_cast<std::size_t>(node.index)] = node.first + node.step * iteration;
        walk(i + 1, node.end);
      }
      scope_end[open_.back().scope] = executed.size() - 1;
      open_.pop_back();
      i = node.end;
    }
  }

  [[nodiscard]] Values instance(const Tensor& tensor, const program::Ref& ref) const {
    Values values{};
    for (std::size_t i = 0; i < program::kIndexCount; ++i) {
      if ((tensor.varies & (1U << i)) != 0) {
        values[i] = value_[i] + shift_[i] + ref.offset[i];
      }
    }
    return values;
  }

  /// An operation reads before it writes, in whatever order its operands are listed.
  void execute(OpId id) {
    const std::size_t first = references.size();
    for (const program::Operand& operand : program_.operands(program_.op(id))) {
      const Tensor& tensor = program_.tensor(operand.ref.tensor);
      const Tensor& owner = program_.tensor(tensor.root);
      Reference reference;
      reference.time = executed.size();
      reference.op = id;
      reference.tensor = operand.ref.tensor;
      reference.memory = {tensor.root, instance(owner, operand.ref)};
      reference.instance = instance(tensor, operand.ref);
      reference.access = operand.access;
      for (const OpenRepeat& open : open_) {
        if (open.node->count > 1 && (owner.varies & program::index_bit(open.node->index)) == 0) {
          reference.scope = open.scope;
          break;
        }
      }
      references.push_back(reference);
    }
    std::stable_partition(references.begin() + static_cast<std::ptrdiff_t>(first),
                          references.end(),
                          [](const Reference& r) { return r.access != Access::write; });
    executed.push_back(id);
  }

  const Program& program_;
  std::vector<OpenRepeat> open_;
  Values value_{};
  std::array<std::int32_t, program::kIndexCount> shift_{};  // of the run
};

/// The tensor whose values the memory holds when `id` is valid: itself, or what it is a view of.
TensorId contents(const Program& program, TensorId id) {
  while (program.tensor(id).storage == Storage::view) {
    id = program.tensor(id).base;
  }
  return id;
}

/// Follows who owns each instance's memory, reference by reference.
std::string first_fault(const Program& program, const std::vector<Reference>& references) {
  std::map<Instance, TensorId> owner;
  std::map<std::pair<TensorId, Values>, bool> written;
  for (const Reference& reference : references) {
    const Tensor& tensor = program.tensor(reference.tensor);
    const Tensor& memory = program.tensor(reference.memory.first);
    const auto fault = [&](const char* what) {
      return fmt::format("operation '{}', its execution at {}: tensor '{}' {}",
                         program.op(reference.op).label,
                         reference.time,
                         tensor.name,
                         what);
    };
    const TensorId wanted = contents(program, reference.tensor);
    const bool writes = reference.access == Access::write;
    auto held = owner.find(reference.memory);
    if (held == owner.end()) {
      if (!memory.resident && !writes) {
        return fault("is used before it is written");
      }
      const bool successor = program.tensor(wanted).storage == Storage::in_place;
      if (!memory.resident && successor) {
        return fault("takes over memory that does not exist");
      }
      held = owner.emplace(reference.memory, reference.memory.first).first;
    }
    if (writes && !memory.resident) {
      bool& before = written[{reference.tensor, reference.instance}];
      if (before) {
        return fault("is written twice");
      }
      before = true;
    }
    if (writes && tensor.storage == Storage::in_place && held->second != reference.tensor) {
      if (contents(program, tensor.base) != held->second) {
        return fault("takes over memory that another tensor has taken over");
      }
      held->second = reference.tensor;
    }
    if (held->second != wanted) {
      return fault("does not own its memory");
    }
  }
  return {};
}

}  // namespace

UnrolledMemory unroll_memory(const Program& program, program::Place place) {
  const Trace trace(program);

  struct Life {
    std::size_t first;
    std::size_t last;
    std::size_t scope;
  };

  std::map<Instance, Life> lives;
  UnrolledMemory memory;
  for (TensorId id = 0; id < program.tensors().size(); ++id) {
    const Tensor& tensor = program.tensor(id);
    if (tensor.resident && tensor.storage == Storage::own && tensor.place == place) {
      std::int64_t instances = 1;
      for (std::size_t i = 0; i < program::kIndexCount; ++i) {
        const bool some_layers =
            static_cast<program::Index>(i) == program::Index::layer && tensor.layers.count > 0;
        const std::int64_t extent =
            some_layers ? tensor.layers.count : program.extent(static_cast<program::Index>(i));
        instances *= (tensor.varies & (1U << i)) != 0 ? extent : 1;
      }
      memory.alive[id] = instances;
      memory.peak += instances * tensor.local_bytes();
    }
  }
  for (const Reference& reference : trace.references) {
    const Tensor& memory_of = program.tensor(reference.memory.first);
    if (memory_of.resident || memory_of.place != place) {
      continue;
    }
    const auto found = lives.find(reference.memory);
    if (found == lives.end()) {
      lives[reference.memory] = {reference.time, reference.time, reference.scope};
    } else {
      found->second.last = reference.time;
      found->second.scope = reference.scope;
    }
  }

  std::vector<std::vector<TensorId>> allocated(trace.executed.size());
  std::vector<std::vector<TensorId>> freed(trace.executed.size());
  for (const auto& [instance, life] : lives) {
    allocated[life.first].push_back(instance.first);
    const std::size_t end = life.scope == kNoScope ? life.last : trace.scope_end[life.scope];
    freed[end].push_back(instance.first);
  }

  std::map<TensorId, std::int64_t> alive = memory.alive;
  Bytes level = memory.peak;
  const Bytes start = level;
  for (std::size_t time = 0; time < trace.executed.size(); ++time) {
    for (const TensorId id : allocated[time]) {
      ++alive[id];
      level += program.tensor(id).local_bytes();
    }
    if (level > memory.peak) {
      memory.peak = level;
      memory.op = trace.executed[time];
      memory.alive = alive;
    }
    for (const TensorId id : freed[time]) {
      --alive[id];
      level -= program.tensor(id).local_bytes();
    }
  }
  std::erase_if(memory.alive, [](const auto& entry) { return entry.second == 0; });
  memory.net = level - start;
  memory.fault = first_fault(program, trace.references);
  return memory;
}

}  // namespace trireme::test
