// Parameters of a step program: how they, their gradients and their optimizer states are sharded.
//
// One row of sharding_table() per way of sharding. What they differ in is data, not code: a
// lowering asks for a working copy and for a place for the gradient, and never knows which row
// applies.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/plan/schedule.h"
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

class Unit;

struct Parameter {
  const ShardingInfo* sharding = nullptr;
  Component component = Component::attention;
  program::IndexMask varies = program::kPerStep;
  program::LayerRange layers;                        // that have it; all of them without a count
  AxisMask shard_axes = 0;                           // what sharding shards over
  AxisMask reduce_axes = 0;                          // what gradients are partial over
  AxisMask replica_axes = 0;                         // of them, over copies of every shard
  AxisMask part_axes = 0;                            // of the shards that a part keeps
  TensorId stored = program::kNoTensor;              // resident: whole, or a shard
  TensorId working = program::kNoTensor;             // whole, as operations read it
  TensorId kept_shard = program::kNoTensor;          // resident: of what a forward pass gathered
  TensorId gradient = program::kNoTensor;            // resident: accumulates over micro batches
  TensorId transient_gradient = program::kNoTensor;  // of one micro batch, before its reduction
  TensorId added_gradient = program::kNoTensor;      // of one micro batch, before it is added
  TensorId summed_gradient = program::kNoTensor;     // over the ranks that do not shard it
  TensorId reduced_gradient = program::kNoTensor;    // over the ranks that shard it too
  TensorId final_gradient = program::kNoTensor;      // as the optimizer reads it
  bool reduced = false;                              // in the last micro batch
  bool gradient_on_host = false;          // where it accumulates, as the sum of all ranks
  bool on_host_before = false;            // a unit of this micro batch has put it there
  bool in_norm = true;                    // its gradient counts in the norm
  const Unit* first_unit = nullptr;       // that gathers it in the forward pass
  TensorId updated = program::kNoTensor;  // what the optimizer updates
  TensorId master = program::kNoTensor;
  TensorId first_moment = program::kNoTensor;
  TensorId second_moment = program::kNoTensor;
};

/// A parameter's number in Parameters.
using ParameterId = std::uint8_t;

/// The parameters that are gathered, and whose gradients are reduced, together: those of a block.
class Unit {
 public:
  static constexpr std::size_t kMost = 12;

  void add(ParameterId id) {
    ensure(count_ < id_.size(), "unit: too many parameters");
    id_[count_++] = id;
  }

  [[nodiscard]] std::span<const ParameterId> ids() const { return {id_.data(), count_}; }

  [[nodiscard]] std::size_t place_of(ParameterId id) const {
    return static_cast<std::size_t>(std::find(id_.begin(), id_.end(), id) - id_.begin());
  }

 private:
  std::array<ParameterId, kMost> id_{};
  std::size_t count_ = 0;
};

/// The work that comes after the next: its parameters are gathered a block ahead.
struct NextUse {
  const Unit* unit = nullptr;
  Phase phase = Phase::forward;
  Component component = Component::attention;
  int layers_on = 0;  // from the current layer to its own
  /// Its layer goes backward after its forward pass has run again.
  bool after_recompute = false;
};

class Parameters {
 public:
  explicit Parameters(Step& step);

  /// The layers that what is declared from here on belongs to, and that per-layer work is for; all
  /// without a count.
  void set_layers(program::LayerRange layers) { layers_ = layers; }

  /// Declares a parameter [rows, columns] (or [rows], or [experts, rows, columns]) with its
  /// gradient and optimizer states. `layout`: how the lowering splits it over the group;
  /// `partial_over`: the axes over which ranks see other tokens, so that their gradients are
  /// partial sums.
  ParameterId declare(std::string_view name,
                      Component component,
                      program::IndexMask varies,
                      const Shape& shape,
                      const Layout& layout,
                      AxisMask partial_over,
                      std::int16_t pad_multiple = 0);

  /// A unit's work begins, in the current phase: gathers its sharded parameters into working
  /// copies, in one coalesced collective per group, unless they were gathered ahead or a plan keeps
  /// what an earlier phase gathered. With overlap, first starts the reduction of the gradients that
  /// the unit before left, and then gathers ahead what `next` needs. Units live as long as this.
  void gather(const Unit& unit, const NextUse& next = {});

  /// As `gather` for work without parameters.
  void look_ahead(const NextUse& next);

  /// Which micro batch of the step the schedule is about to emit, where it peels them.
  void begin_micro_batch(program::Builder::Ends at) { micro_batch_ = at; }

  /// Whether the layer that goes backward now has just run again.
  void set_after_recompute(bool after) { after_recompute_ = after; }

  /// The layer changes by `step`: what was begun in the layer before refers to it from here.
  void move_layer(int step);

  /// The backward pass of a micro batch is over: adds gradients that are added then, of the
  /// parameters that vary as `varies`.
  void add_micro_batch(program::IndexMask varies);

  /// The micro batch ends: what still reduces its gradients is waited for.
  void finish_micro_batch();

  /// Which passes of the first and of the last micro batch differ from the others'.
  [[nodiscard]] SpecialPasses special_passes() const;

  [[nodiscard]] std::span<const Parameter> all() const { return parameter_; }

  [[nodiscard]] Ref working(ParameterId id) const { return parameter_[id].working; }

  /// Where an operation puts the parameter's gradient: added to what is there, or first written.
  program::Operand gradient(ParameterId id);

  /// Emits a zero gradient, for operations that only add.
  void start_gradient(ParameterId id);

  /// The unit's backward pass is over: releases its gathered parameters, which frameworks hold
  /// together up to here, and reduces the gradients of the micro batch into their shards, where the
  /// sharding does so. With overlap the reduction waits for the next unit's work to begin, and that
  /// of whole gradients is made for the unit too, in the last micro batch.
  void finish_backward(const Unit& unit);

  // Once per step, for the parameters that vary as `varies`:
  void zero_gradients(program::IndexMask varies);
  void reduce_step(program::IndexMask varies);
  /// Adds the gradient of another stage's copy of a parameter to its own, before it is reduced.
  void sum_between_stages(ParameterId id, std::int64_t peer_stage);

  /// Another stage counts its gradient in the norm.
  void leave_out_of_norm(ParameterId id) { parameter_[id].in_norm = false; }

  /// Elements that the optimizer of this rank updates.
  [[nodiscard]] std::int64_t shard_elements() const;

  /// Whether some gradients accumulate on the host.
  [[nodiscard]] bool gradients_on_host() const;

  /// Adds the squares of the gradients that lie in the memory that `norm` does.
  void add_square_sums(program::IndexMask varies, TensorId norm);
  /// `norm` lies where the optimizer works.
  void optimize(program::IndexMask varies, TensorId norm);

  /// Axes over which a norm sums: those over which some parameter's final gradient is sharded, and
  /// that of a pipeline's stages.
  [[nodiscard]] AxisMask norm_axes() const;

 private:
  /// Working copies of one unit in one phase.
  struct Use {
    const Unit* unit = nullptr;
    Phase phase = Phase::forward;
    bool after_recompute = false;
    std::array<TensorId, Unit::kMost> working;  // by place in the unit
    std::array<TensorId, Unit::kMost> fetched;  // shards that come from the host
    bool gathered_ahead = false;
  };

  /// Gradients that are reduced together, in one collective.
  struct Bucket {
    AxisMask group = 0;
    Component component = Component::attention;
    bool of_layer = false;  // of the layer that is `layers_on` from the current one
    int layers_on = 0;
    bool scatter = false;
    bool of_micro_batch = false;  // then shards are accumulated
    std::vector<ParameterId> id;
    std::vector<TensorId> from;
    std::vector<TensorId> to;
    std::vector<TensorId> shard;  // of a micro batch
    AxisMask replicas = 0;        // that sum the shards of a micro batch
  };

  /// Calls `visit(group, parameters)` for the distinct groups `group_of` gives (none for an empty
  /// or one-rank group), with the ids that share each.
  template <class GroupOf, class Visit>
  void for_each_group(std::span<const ParameterId> ids, GroupOf group_of, Visit visit) const;

  [[nodiscard]] Use& use_of(const Unit& unit, Phase phase, bool after_recompute);
  [[nodiscard]] bool kept(const Parameter& parameter, const Use& use) const;
  void emit_gathers(Use& use, int layers_on);
  /// Whole, of one micro batch.
  TensorId declare_micro_batch_gradient(const Parameter& parameter);
  TensorId declare_gathered(const Parameter& parameter, AxisMask group);
  /// Of what the unit's forward pass gathered, the shards from which backward passes gather.
  void keep_shards(const Unit& unit);
  /// A shard that lies on the host, copied to the GPU to be gathered there.
  [[nodiscard]] Ref fetch(const Parameter& parameter,
                          TensorId& fetched,
                          int layers_on,
                          program::Completion completion);
  TensorId declare_on_gpu(TensorId on_host, std::string_view part);
  /// Adds a shard of a micro batch's gradient to what the host has of those before.
  void accumulate_on_host(Parameter& parameter, Ref shard, int layers_on);
  void optimize_on_host(std::span<const ParameterId> ids, TensorId norm);
  [[nodiscard]] Ref in_layer(TensorId id, int layers_on) const;
  program::Op& emit_weights_collective(CollectiveKind kind,
                                       std::string_view label,
                                       AxisMask group,
                                       std::span<const program::Operand> from,
                                       std::span<const program::Operand> to,
                                       program::Completion completion);
  void gather_ahead(const NextUse& next);
  /// Whether the optimizer leaves it to the next step to gather what it updated.
  [[nodiscard]] bool refreshes(const Parameter& parameter) const;

  void hold_gathered(const Unit& unit);
  /// Gradients of one micro batch, on their way into shards.
  [[nodiscard]] Bucket micro_batch_bucket(AxisMask group, std::span<const ParameterId> ids);
  /// Gradients of the whole step, which become whole sums or shards in place.
  [[nodiscard]] std::vector<Bucket> step_buckets(std::span<const ParameterId> ids);
  void reduce(const Bucket& bucket, program::Completion completion);
  void accumulate(const Bucket& bucket);
  /// Ends the reductions under way, starts those that wait.
  void advance_reductions();
  [[nodiscard]] bool overlaps() const;

  [[nodiscard]] std::span<const ParameterId> ids_that_vary(program::IndexMask varies);

  Step& step_;
  Placement shard_;  // of a parameter over the ranks that shard it
  std::vector<Parameter> parameter_;
  std::vector<ParameterId> scratch_;
  std::vector<Use> uses_;
  std::vector<Bucket> waiting_;
  std::vector<Bucket> under_way_;
  program::Builder::Ends micro_batch_;
  bool after_recompute_ = false;
  program::LayerRange layers_;
};

}  // namespace trireme::plan
