// The step program: what one rank issues in one steady training step, in order.
//
// A program is flat arrays. Segments are straight runs of operations; nodes say in which order and
// how often they run. Births and deaths of tensors are derived when the builder closes it.
#pragma once

#include <array>
#include <cstdint>
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
/// once for each value first, first + step, ... of its index.
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
};

/// Instances that die when a repeat ends, because it does not bind an index of the tensor.
struct RepeatDeath {
  TensorId tensor = kNoTensor;
  std::int64_t instances = 1;
  std::array<std::int16_t, kIndexCount> offset{};  // of the last use, from the indices bound there
};

class Program {
 public:
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }

  /// In which order ranks hold tokens.
  [[nodiscard]] const TokenOrder& token_order() const { return token_order_; }

  /// Which stage of a pipeline it is of.
  [[nodiscard]] std::int64_t stage() const { return stage_; }

  /// The model's number of one of its layers, which it counts from 0.
  [[nodiscard]] std::int64_t layer_of_model(std::int64_t layer) const {
    return layers_of_model_.empty() ? layer : layers_of_model_[static_cast<std::size_t>(layer)];
  }

  [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id]; }

  [[nodiscard]] std::span<const Op> ops() const { return ops_; }

  [[nodiscard]] const Op& op(OpId id) const { return ops_[id]; }

  [[nodiscard]] std::span<const Operand> operands(const Op& op) const {
    return std::span(operands_).subspan(op.first_operand, op.operands);
  }

  [[nodiscard]] std::span<const Segment> segments() const { return segments_; }

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }

  /// Tensors (owners of memory) that an operation brings into being, before it runs.
  [[nodiscard]] std::span<const TensorId> births(const Op& op) const {
    return std::span(births_).subspan(op.first_birth, op.births);
  }

  /// Tensors whose last use an operation is; their memory is free after it.
  [[nodiscard]] std::span<const TensorId> deaths(const Op& op) const {
    return std::span(deaths_).subspan(op.first_death, op.deaths);
  }

  /// For each of `deaths(op)`, the operand (by number) that is the last use.
  [[nodiscard]] std::span<const std::uint16_t> death_operands(const Op& op) const {
    return std::span(death_operands_).subspan(op.first_death, op.deaths);
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
    const Tensor& part = tensors_[id];
    const std::int32_t all = tensors_[part.root].blocks;
    return all > 1 && !part.block.whole() ? Blocks{part.block.rotation, 1} : Blocks{0, all};
  }

  /// Number of values of an index over the whole step: layers, micro batches, chunks.
  [[nodiscard]] std::int64_t extent(Index index) const {
    return extents_[static_cast<std::size_t>(index)];
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
    return tensors_[id].local_extent(dim);
  }

 private:
  friend class Builder;
  friend void derive_lifetimes(Program& program);
  friend class ProgramEditor;  // of the tests: programs with deliberate faults

  Mesh mesh_;
  TokenOrder token_order_;
  std::int64_t stage_ = 0;
  std::vector<std::int64_t> layers_of_model_;  // empty: all of them, in order
  std::array<std::int64_t, kIndexCount> extents_{};
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<Operand> operands_;
  std::vector<Segment> segments_;
  std::vector<Node> nodes_;
  std::vector<TensorId> births_;
  std::vector<TensorId> deaths_;
  std::vector<std::uint16_t> death_operands_;
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

/// Calls `visit(operation's id, operation, times)` for every operation, in order.
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
