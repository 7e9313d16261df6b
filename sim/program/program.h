// The step program: what one rank issues in one steady training step, in order.
//
// A program is flat arrays. Segments are straight runs of operations; nodes say in which order and
// how often they run. Births and deaths of tensors are derived when the builder closes it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/program/mesh.h"
#include "sim/program/op.h"
#include "sim/program/tensor.h"
#include "sim/program/token_order.h"
#include "sim/units/units.h"

namespace trireme::program {

struct Segment {
  std::string_view label;
  OpId first_op = 0;
  std::uint32_t ops = 0;
};

/// A schedule in preorder: a `run` executes a segment, a `repeat` executes the nodes up to `end`
/// once for each value first, first + step, ... of its index. Several runs may execute one segment.
struct Node {
  enum class Kind : std::uint8_t { run, repeat };

  Kind kind = Kind::run;
  Index index = Index::layer;  // of a repeat
  std::uint16_t segment = 0;   // of a run
  std::int32_t first = 0;
  std::int32_t step = 1;
  std::int32_t count = 1;
  std::uint32_t end = 0;          // one past the node's subtree
  std::uint32_t first_death = 0;  // of a repeat: range of Program::repeat_deaths
  std::uint32_t deaths = 0;
  /// Of a run: its operations refer to instances that much further along each index.
  std::array<std::int32_t, kIndexCount> shift{};
};

/// Instances that die when a repeat ends, because it does not bind an index of the tensor.
struct RepeatDeath {
  TensorId tensor = kNoTensor;
  std::int64_t instances = 1;
  std::array<std::int32_t, kIndexCount> offset{};  // of the last use, from the indices bound there
};

/// Segments and all that their operations refer to: what the stages of a pipeline that differ only
/// in the order of their micro batches have in common.
struct Pool {
  Mesh mesh;
  TokenOrder token_order;
  std::array<std::int64_t, kIndexCount> extents{};
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Operand> operands;
  std::vector<Segment> segments;
  std::vector<TensorId> births;
  std::vector<TensorId> deaths;
  std::vector<std::uint16_t> death_operands;
};

/// A row of nodes of a program: whole subtrees.
struct NodeRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;

  [[nodiscard]] bool empty() const { return first == end; }
};

/// Nodes that run more than once in a program, each time for other instances.
struct Passage {
  NodeRange nodes;
  std::array<std::int32_t, kIndexCount> shift{};  // of its runs where it was emitted
};

class Program {
 public:
  [[nodiscard]] const Mesh& mesh() const { return pool_->mesh; }

  /// In which order ranks hold tokens.
  [[nodiscard]] const TokenOrder& token_order() const { return pool_->token_order; }

  /// Whether the other program runs the same segments, in an order of its own.
  [[nodiscard]] bool shares_segments_with(const Program& other) const {
    return pool_ == other.pool_;
  }

  /// Which stage of a pipeline it is of.
  [[nodiscard]] std::int64_t stage() const { return stage_; }

  /// The stage at the other end of a message.
  [[nodiscard]] std::int64_t peer_stage(const Op& op) const {
    return (stage_ + op.stages_on) % mesh().stages();
  }

  /// The model's number of one of its layers, which it counts from 0.
  [[nodiscard]] std::int64_t layer_of_model(std::int64_t layer) const {
    return layers_of_model_.empty() ? layer : layers_of_model_[static_cast<std::size_t>(layer)];
  }

  [[nodiscard]] std::span<const Tensor> tensors() const { return pool_->tensors; }

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return pool_->tensors[id]; }

  [[nodiscard]] std::span<const Op> ops() const { return pool_->ops; }

  [[nodiscard]] const Op& op(OpId id) const { return pool_->ops[id]; }

  [[nodiscard]] std::span<const Operand> operands(const Op& op) const {
    return std::span(pool_->operands).subspan(op.first_operand, op.operands);
  }

  [[nodiscard]] std::span<const Segment> segments() const { return pool_->segments; }

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }

  /// Tensors (owners of memory) that an operation brings into being, before it runs.
  [[nodiscard]] std::span<const TensorId> births(const Op& op) const {
    return std::span(pool_->births).subspan(op.first_birth, op.births);
  }

  /// Tensors whose last use an operation is; their memory is free after it.
  [[nodiscard]] std::span<const TensorId> deaths(const Op& op) const {
    return std::span(pool_->deaths).subspan(op.first_death, op.deaths);
  }

  /// For each of `deaths(op)`, the operand (by number) that is the last use.
  [[nodiscard]] std::span<const std::uint16_t> death_operands(const Op& op) const {
    return std::span(pool_->death_operands).subspan(op.first_death, op.deaths);
  }

  [[nodiscard]] std::span<const RepeatDeath> deaths(const Node& repeat) const {
    return std::span(repeat_deaths_).subspan(repeat.first_death, repeat.deaths);
  }

  /// The blocks of its owner's memory that a tensor is: an operation on others need not wait.
  struct Blocks {
    std::int32_t first = 0;
    std::int32_t count = 1;
  };

  [[nodiscard]] Blocks blocks(TensorId id) const {
    const Tensor& part = pool_->tensors[id];
    const std::int32_t all = pool_->tensors[part.root].blocks;
    return all > 1 && !part.block.whole() ? Blocks{part.block.rotation, 1} : Blocks{0, all};
  }

  /// Number of values of an index over the whole step: layers, micro batches, chunks.
  [[nodiscard]] std::int64_t extent(Index index) const {
    return pool_->extents[static_cast<std::size_t>(index)];
  }

  /// The values of an index for which a resident tensor has an instance; one value, zero, of an
  /// index that it does not vary over.
  struct IndexRange {
    std::int64_t first = 0;
    std::int64_t count = 1;
  };

  [[nodiscard]] IndexRange resident_range(const Tensor& tensor, Index index) const;

  /// Instances of a resident tensor: the product of its ranges over the indices it varies over.
  [[nodiscard]] std::int64_t resident_instances(const Tensor& tensor) const;

  /// One rank's extent of a dimension, padding included.
  [[nodiscard]] std::int64_t local_extent(TensorId id, int dim) const {
    return pool_->tensors[id].local_extent(dim);
  }

 private:
  friend class Builder;
  friend class Arrangement;
  friend class ProgramEditor;  // of the tests: programs with deliberate faults

  std::shared_ptr<const Pool> pool_;
  std::int64_t stage_ = 0;
  std::vector<std::int64_t> layers_of_model_;  // empty: all of them, in order
  std::vector<Node> nodes_;
  std::vector<RepeatDeath> repeat_deaths_;
};

/// How often an operation of node `run` executes in a step: the product of the enclosing counts.
/// Calls `visit(node, times)` for every run node, in order.
template <class Visit>
void for_each_run(const Program& program, Visit visit) {
  struct Open {
    std::uint32_t end;
    std::int64_t times;
  };

  std::array<Open, 8> open{};
  std::size_t depth = 0;
  std::int64_t times = 1;
  const auto nodes = program.nodes();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    while (depth > 0 && open[depth - 1].end == i) {
      times = open[--depth].times;
    }
    const Node& node = nodes[i];
    if (node.kind == Node::Kind::run) {
      visit(node, times);
    } else {
      ensure(depth < open.size(), "program: repeats nested too deep");
      open[depth++] = {node.end, times};
      times *= node.count;
    }
  }
}

/// How often each segment is executed in a step, by number.
[[nodiscard]] inline std::vector<std::int64_t> executions(const Program& program) {
  std::vector<std::int64_t> all(program.segments().size());
  for_each_run(program, [&](const Node& node, std::int64_t times) { all[node.segment] += times; });
  return all;
}

/// Calls `visit(operation's id, operation, times)` for every operation of every run, in order.
template <class Visit>
void for_each_op(const Program& program, Visit visit) {
  for_each_run(program, [&](const Node& node, std::int64_t times) {
    const Segment& segment = program.segments()[node.segment];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      visit(id, program.op(id), times);
    }
  });
}

}  // namespace trireme::program
