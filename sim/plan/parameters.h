// Parameters of a step program: how they, their gradients and their optimizer states are sharded.
//
// One row of sharding_table() per way of sharding. What they differ in is data, not code: a
// lowering asks for a working copy and for a place for the gradient, and never knows which row
// applies.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/plan/step.h"

namespace trireme::plan {

struct ShardingInfo {
  std::int64_t stage = 0;
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  bool shards_optimizer = false;
  bool shards_gradients = false;   // reduced in every micro batch, into shards
  bool shards_parameters = false;  // gathered where they are used
};

[[nodiscard]] std::span<const ShardingInfo> sharding_table();

struct Parameter {
  const ShardingInfo* sharding = nullptr;
  Component component = Component::attention;
  program::IndexMask varies = program::kPerStep;
  AxisMask shard_axes = 0;                           // what sharding shards over
  AxisMask reduce_axes = 0;                          // what gradients are partial over
  TensorId stored = program::kNoTensor;              // resident: whole, or a shard
  TensorId working = program::kNoTensor;             // whole, as operations read it
  TensorId gradient = program::kNoTensor;            // resident: accumulates over micro batches
  TensorId transient_gradient = program::kNoTensor;  // of one micro batch, before its reduction
  TensorId final_gradient = program::kNoTensor;      // as the optimizer reads it
  TensorId updated = program::kNoTensor;             // what the optimizer updates
  TensorId master = program::kNoTensor;
  TensorId first_moment = program::kNoTensor;
  TensorId second_moment = program::kNoTensor;
};

/// A parameter's number in Parameters.
using ParameterId = std::uint8_t;

/// The parameters that are gathered, and whose gradients are reduced, together: those of a block.
class Unit {
 public:
  void add(ParameterId id) {
    ensure(count_ < id_.size(), "unit: too many parameters");
    id_[count_++] = id;
  }

  [[nodiscard]] std::span<const ParameterId> ids() const { return {id_.data(), count_}; }

 private:
  std::array<ParameterId, 8> id_{};
  std::size_t count_ = 0;
};

class Parameters {
 public:
  explicit Parameters(Step& step);

  /// Declares a parameter [rows, columns] (or [rows]) with its gradient and optimizer states.
  /// `layout`: how the lowering splits it over the group; `partial_over`: the axes over which ranks
  /// see other tokens, so that their gradients are partial sums.
  ParameterId declare(std::string_view name,
                      Component component,
                      program::IndexMask varies,
                      const Shape& shape,
                      const Layout& layout,
                      AxisMask partial_over,
                      std::int16_t pad_multiple = 0);

  /// Gathers the unit's sharded parameters into working copies, in one coalesced collective per
  /// group. Emits nothing where a plan keeps what an earlier phase gathered.
  void gather(const Unit& unit);

  [[nodiscard]] Ref working(ParameterId id) const { return parameter_[id].working; }

  /// Where an operation puts the parameter's gradient: added to what is there, or first written.
  program::Operand gradient(ParameterId id);

  /// Emits a zero gradient, for operations that only add.
  void start_gradient(ParameterId id);

  /// The unit's backward pass is over: releases its gathered parameters, which frameworks hold
  /// together up to here, and reduces the gradients of the micro batch into their shards, where the
  /// sharding does so.
  void finish_backward(const Unit& unit);

  // Once per step, for the parameters that vary as `varies`:
  void zero_gradients(program::IndexMask varies);
  void reduce_step(program::IndexMask varies);
  void add_square_sums(program::IndexMask varies, TensorId norm);
  void optimize(program::IndexMask varies, TensorId norm);

  /// Axes over which some parameter's final gradient is sharded: a norm sums over them.
  [[nodiscard]] AxisMask norm_axes() const;

 private:
  /// Calls `visit(group, parameters)` for the distinct groups `group_of` gives (none for an empty
  /// or one-rank group), with the ids that share each.
  template <class GroupOf, class Visit>
  void for_each_group(std::span<const ParameterId> ids, GroupOf group_of, Visit visit) const;

  void hold_gathered(const Unit& unit);

  [[nodiscard]] std::span<const ParameterId> ids_that_vary(program::IndexMask varies);

  Step& step_;
  Placement shard_;  // of a parameter over the ranks that shard it
  std::vector<Parameter> parameter_;
  std::vector<ParameterId> scratch_;
};

}  // namespace trireme::plan
