#include "sim/plan/parameters.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "sim/plan/experts.h"

namespace trireme::plan {

using program::Access;
using program::Completion;
using program::Function;
using program::Operand;
using program::read;
using program::Role;
using program::update;
using program::write;

namespace {

constexpr std::array kSharding = {
    ShardingInfo{0,
                 "replicated",
                 "whole parameters, gradients and states on every rank",
                 "li2020-ddp",
                 false,
                 false,
                 false},
    ShardingInfo{1,
                 "zero1",
                 "optimizer states sharded; gradients reduced once per step",
                 "rajbhandari2020-zero",
                 true,
                 false,
                 false},
    ShardingInfo{2,
                 "zero2",
                 "gradients sharded too, reduced in every micro batch",
                 "rajbhandari2020-zero",
                 true,
                 true,
                 false},
    ShardingInfo{3,
                 "zero3",
                 "parameters sharded too, gathered where they are used",
                 "rajbhandari2020-zero",
                 true,
                 true,
                 true},
};

constexpr std::size_t kExpectedParameters = 24;

/// Operands of one multi-tensor operation; more parameters than fit are an error of a lowering.
class OperandList {
 public:
  OperandList() {}  // NOLINT(modernize-use-equals-default): leaves the room as it is

  void add(Operand operand) {
    ensure(count_ < operand_.size(), "parameters: too many operands");
    std::construct_at(&operand_[count_++], operand);
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

  [[nodiscard]] std::span<const Operand> span() const { return {operand_.data(), count_}; }

 private:
  // A layer has up to 17 parameters (latent attention and experts with LayerNorm), of which the
  // optimizer takes five operands each.
  union {
    std::array<Operand, 96> operand_;
  };

  std::size_t count_ = 0;
};

/// Books what is emitted in its scope under another phase and component.
class Booking {
 public:
  Booking(program::Builder& builder, Phase phase, Component component)
      : b_(builder), phase_(builder.phase()), component_(builder.component()) {
    b_.set_phase(phase);
    b_.set_component(component);
  }

  ~Booking() {
    b_.set_phase(phase_);
    b_.set_component(component_);
  }

  Booking(const Booking&) = delete;
  Booking& operator=(const Booking&) = delete;

 private:
  program::Builder& b_;
  Phase phase_;
  Component component_;
};

std::int64_t elements_of(const Shape& shape) {
  std::int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    elements *= shape[static_cast<std::size_t>(i)].size;
  }
  return elements;
}

/// How the gradients of one micro batch become shards.
bool scatters_micro_batches(const Plan& plan) {
  return plan.zero_stage == 3 || plan.gradient_reduce == config::GradientReduce::reduce_scatter;
}

/// Axes over which only some stages of a pipeline shard weights: features of an MLP and rows of a
/// vocabulary, and experts. Every stage has attention, and ZeRO shards no other weights more
/// widely.
AxisMask axes_of_other_stages(const Plan& plan) {
  const AxisMask features = plan.mlp == MlpLowering::megatron ? kGroup : AxisMask{0};
  const AxisMask experts = plan.model.experts ? expert_axes(plan) : AxisMask{0};
  return static_cast<AxisMask>(features | experts);
}

}  // namespace

std::span<const ShardingInfo> sharding_table() {
  return kSharding;
}

Parameters::Parameters(Step& step)
    : step_(step),
      shard_(step.plan.shard_rows ? Placement::shard_within(0)
                                  : Placement::shard(Placement::kFlat)) {
  parameter_.reserve(kExpectedParameters);
  scratch_.reserve(kExpectedParameters);
}

ParameterId Parameters::declare(std::string_view name,
                                Component component,
                                program::IndexMask varies,
                                const Shape& shape,
                                const Layout& layout,
                                AxisMask partial_over,
                                std::int16_t pad_multiple) {
  program::Builder& b = step_.b;
  const Plan& plan = step_.plan;
  Parameter parameter;
  parameter.component = component;
  parameter.varies = varies;
  parameter.layers = varies == program::kPerLayer ? layers_ : program::LayerRange{};
  parameter.reduce_axes = partial_over;
  // Tensor-parallel ranks hold different parameters, or copies that they update alike: only the
  // ranks that split tokens between whole parameters shard them.
  const bool group_shards = plan.attention != AttentionLowering::megatron;
  parameter.shard_axes =
      static_cast<AxisMask>(partial_over & (group_shards ? kGroup | kReplicas : kReplicas));
  const bool in_scope =
      plan.zero_scope == config::ZeroScope::all || component == Component::attention;
  const AxisMask outside = plan.zero_replicated && plan.zero_parts > 1 ? kOuterData : AxisMask{0};
  const bool alone =
      b.mesh().group_size(static_cast<AxisMask>(parameter.shard_axes & ~outside)) == 1;
  // DeepSpeed's persistent weights: sharded but for the copy that operations read, as of stage 2.
  const bool persists = plan.zero_stage == 3 && elements_of(shape) <= plan.persistent_elements;
  const auto stage = static_cast<std::size_t>(persists ? 2 : plan.zero_stage);
  parameter.sharding = &kSharding[in_scope && !alone ? stage : 0];
  const ShardingInfo& sharding = *parameter.sharding;
  if (!sharding.shards_optimizer) {
    parameter.shard_axes = 0;
  } else if (plan.zero_parts > 1 && plan.zero_replicated) {
    parameter.replica_axes = static_cast<AxisMask>(parameter.shard_axes & kOuterData);
    parameter.shard_axes = static_cast<AxisMask>(parameter.shard_axes & ~kOuterData);
  } else if (plan.zero_parts > 1 && sharding.shards_parameters && plan.reshard_after_forward) {
    parameter.part_axes = static_cast<AxisMask>(parameter.shard_axes & ~kOuterData);
  }
  if (b.mesh().group_size(parameter.part_axes) == 1) {
    parameter.part_axes = 0;  // the whole on every rank would be no shard
  }
  const bool early =
      plan.sum_replicas_early && sharding.shards_gradients && scatters_micro_batches(plan);
  const AxisMask summed_early = early ? parameter.replica_axes : AxisMask{0};
  const AxisMask summed_last =
      static_cast<AxisMask>(partial_over & ~parameter.shard_axes & ~summed_early);
  parameter.reduce_axes = static_cast<AxisMask>(partial_over & ~summed_early);

  program::TensorSpec spec;
  spec.name = name;
  spec.component = component;
  spec.varies = varies;
  spec.layers = parameter.layers;
  spec.shape = shape;
  spec.resident = true;
  spec.pad_multiple = pad_multiple;

  const Layout sharded = layout.with(parameter.shard_axes, shard_);
  const std::int16_t shard_padding = std::max<std::int16_t>(pad_multiple, 1);
  const auto on_host = [](bool offloaded) {
    return offloaded ? program::Place::host : program::Place::device;
  };
  spec.role = Role::parameter;
  spec.layout = sharding.shards_parameters ? sharded : layout;
  spec.pad_multiple = sharding.shards_parameters ? shard_padding : pad_multiple;
  spec.place = on_host(plan.offload_parameters && sharding.shards_parameters);
  parameter.stored = b.declare(spec);
  spec.place = program::Place::device;
  parameter.working = sharding.shards_parameters ? program::kNoTensor : parameter.stored;
  if (parameter.part_axes != 0) {
    spec.part = "kept shard";
    spec.layout = layout.with(parameter.part_axes, shard_);
    parameter.kept_shard = b.declare(spec);
    spec.part = {};
  }
  parameter.updated =
      sharding.shards_optimizer && !sharding.shards_parameters
          ? b.declare_shard_of(parameter.stored, "own shard", parameter.shard_axes, shard_)
          : parameter.stored;

  spec.role = Role::gradient;
  spec.part = "gradient";
  spec.type = plan.gradient_type;
  spec.layout = sharding.shards_gradients ? sharded.with(summed_last, Placement::partial_sum())
                                          : layout.with(partial_over, Placement::partial_sum());
  spec.pad_multiple = sharding.shards_optimizer ? shard_padding : pad_multiple;
  // Ranks sum what the host does not have yet: shards of replicas, and tables of two stages.
  const bool of_two_stages =
      plan.pipeline_degree > 1 && plan.model.tied_embeddings && varies == program::kPerStep;
  parameter.gradient_on_host = plan.offload_optimizer && sharding.shards_gradients &&
                               b.mesh().group_size(summed_last) == 1 && !of_two_stages;
  spec.place = on_host(parameter.gradient_on_host);
  parameter.gradient = b.declare(spec);
  parameter.final_gradient = parameter.gradient;

  spec.role = Role::optimizer_state;
  spec.type = ElementType::fp32;
  spec.layout = sharded;
  spec.place = on_host(plan.offload_optimizer);
  spec.pad_multiple = sharding.shards_optimizer ? shard_padding : pad_multiple;
  spec.part = "master";
  parameter.master = plan.states.main_weights ? b.declare(spec) : parameter.updated;
  spec.type = plan.states.moments;
  spec.part = "first moment";
  parameter.first_moment = b.declare(spec);
  spec.part = "second moment";
  parameter.second_moment = b.declare(spec);

  if (plan.modules.gradients_of_micro_batch && !sharding.shards_gradients) {
    parameter.added_gradient = declare_micro_batch_gradient(parameter);
  }
  parameter_.push_back(parameter);
  return static_cast<ParameterId>(parameter_.size() - 1);
}

template <class GroupOf, class Visit>
void Parameters::for_each_group(std::span<const ParameterId> ids,
                                GroupOf group_of,
                                Visit visit) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const AxisMask group = group_of(parameter_[ids[i]]);
    bool seen = step_.b.mesh().group_size(group) == 1;
    for (std::size_t j = 0; j < i && !seen; ++j) {
      seen = group_of(parameter_[ids[j]]) == group;
    }
    if (seen) {
      continue;
    }
    std::array<ParameterId, 32> sharing{};
    std::size_t count = 0;
    for (std::size_t j = i; j < ids.size(); ++j) {
      if (group_of(parameter_[ids[j]]) == group) {
        ensure(count < sharing.size(), "parameters: too many in one collective");
        sharing[count++] = ids[j];
      }
    }
    visit(group, std::span<const ParameterId>(sharing.data(), count));
  }
}

std::span<const ParameterId> Parameters::ids_that_vary(program::IndexMask varies) {
  scratch_.clear();
  for (std::size_t i = 0; i < parameter_.size(); ++i) {
    const bool in_layers = parameter_[i].layers.count == 0 || parameter_[i].layers == layers_;
    if (parameter_[i].varies == varies && in_layers) {
      scratch_.push_back(static_cast<ParameterId>(i));
    }
  }
  return scratch_;
}

Parameters::Use& Parameters::use_of(const Unit& unit, Phase phase, bool after_recompute) {
  for (Use& use : uses_) {
    if (use.unit == &unit && use.phase == phase && use.after_recompute == after_recompute) {
      return use;
    }
  }
  Use use;
  use.unit = &unit;
  use.phase = phase;
  use.after_recompute = after_recompute;
  use.working.fill(program::kNoTensor);
  use.fetched.fill(program::kNoTensor);
  uses_.push_back(use);
  return uses_.back();
}

/// Whether a working copy is still there that an earlier unit or phase gathered.
bool Parameters::kept(const Parameter& parameter, const Use& use) const {
  const Plan& plan = step_.plan;
  if (use.phase == Phase::forward) {
    return !plan.reshard_after_forward && parameter.first_unit != nullptr &&
           parameter.first_unit != use.unit;
  }
  // Source: pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _post_forward
  return !plan.reshard_after_forward || (use.after_recompute && !plan.gather_after_recompute);
}

bool Parameters::refreshes(const Parameter& parameter) const {
  return step_.plan.overlap_parameters && step_.plan.zero_stage < 3 &&
         parameter.sharding->shards_optimizer && !parameter.sharding->shards_parameters;
}

bool Parameters::overlaps() const {
  return step_.plan.overlap_parameters || step_.plan.overlap_gradients;
}

/// `ref` of a layer that is `layers_on` from the current one; of the step where it does not vary.
Ref Parameters::in_layer(TensorId id, int layers_on) const {
  const bool of_layer =
      (step_.b.tensor(id).varies & program::index_bit(program::Index::layer)) != 0;
  return of_layer ? Ref(id).at(program::Index::layer, layers_on) : Ref(id);
}

program::Op& Parameters::emit_weights_collective(CollectiveKind kind,
                                                 std::string_view label,
                                                 AxisMask group,
                                                 std::span<const Operand> from,
                                                 std::span<const Operand> to,
                                                 Completion completion) {
  program::Op& op = step_.b.emit_collective(kind, label, group, from, to);
  op.blocking = completion == Completion::blocking;
  if (overlaps()) {
    op.stream = program::weights_stream(op.group);
  }
  return op;
}

void Parameters::emit_gathers(Use& use, int layers_on) {
  program::Builder& b = step_.b;
  const Unit& unit = *use.unit;
  const auto gathered_over = [&](const Parameter& parameter) -> AxisMask {
    const bool refreshed = refreshes(parameter) && micro_batch_.first &&
                           use.phase == Phase::forward &&
                           (parameter.first_unit == nullptr || parameter.first_unit == &unit);
    const bool gathered = parameter.sharding->shards_parameters && !kept(parameter, use);
    if (gathered && use.phase != Phase::forward && parameter.part_axes != 0) {
      return parameter.part_axes;
    }
    return refreshed || gathered ? parameter.shard_axes : AxisMask{0};
  };
  const Completion completion =
      step_.plan.overlap_parameters ? Completion::asynchronous : Completion::blocking;
  for_each_group(unit.ids(), gathered_over, [&](AxisMask group, auto ids) {
    OperandList from;
    OperandList to;
    for (const ParameterId id : ids) {
      Parameter& parameter = parameter_[id];
      if (refreshes(parameter)) {
        from.add(read(in_layer(parameter.updated, layers_on)));
        to.add(update(in_layer(parameter.stored, layers_on)));
      } else {
        TensorId& working = use.working[unit.place_of(id)];
        if (working == program::kNoTensor) {
          working = declare_gathered(parameter, group);
        }
        const bool kept_in_part = group == parameter.part_axes && use.phase != Phase::forward;
        if (b.tensor(parameter.stored).place == program::Place::host) {
          from.add(read(fetch(parameter, use.fetched[unit.place_of(id)], layers_on, completion)));
        } else {
          from.add(
              read(in_layer(kept_in_part ? parameter.kept_shard : parameter.stored, layers_on)));
        }
        to.add(write(in_layer(working, layers_on)));
      }
    }
    const bool refreshed = refreshes(parameter_[ids.front()]);
    if (refreshed) {  // of the step before: booked as there
      b.set_phase(Phase::optimizer);
      b.set_component(Component::optimizer);
    }
    emit_weights_collective(CollectiveKind::all_gather,
                            refreshed ? "gather updated parameters" : "gather parameters",
                            group,
                            from.span(),
                            to.span(),
                            completion);
  });
  if (use.phase == Phase::forward) {
    for (const ParameterId id : unit.ids()) {
      Parameter& parameter = parameter_[id];
      parameter.first_unit = parameter.first_unit == nullptr ? &unit : parameter.first_unit;
    }
  }
}

/// Source: deepspeed, runtime/zero/partition_parameters.py, _all_gather; pytorch,
/// torch/distributed/fsdp/_fully_shard/_fsdp_param.py, all_gather_inputs
Ref Parameters::fetch(const Parameter& parameter,
                      TensorId& fetched,
                      int layers_on,
                      Completion completion) {
  program::Builder& b = step_.b;
  if (fetched == program::kNoTensor) {
    fetched = declare_on_gpu(parameter.stored, "shard from the host");
  }
  const Ref shard = in_layer(fetched, layers_on);
  b.emit_host_copy(
      "copy a shard to the GPU", in_layer(parameter.stored, layers_on), write(shard), completion);
  return shard;
}

/// What a micro batch has on the GPU of a tensor that lies on the host.
TensorId Parameters::declare_on_gpu(TensorId on_host, std::string_view part) {
  program::TensorSpec spec = program::declared_like(step_.b.tensor(on_host));
  spec.part = part;
  spec.varies = static_cast<program::IndexMask>(spec.varies | program::kPerMicroBatch);
  spec.resident = false;
  spec.layers = {};
  spec.place = program::Place::device;
  return step_.b.declare(spec);
}

TensorId Parameters::declare_gathered(const Parameter& parameter, AxisMask group) {
  const bool kept_in_part = parameter.part_axes != 0 && group == parameter.part_axes;
  const program::Tensor& stored =
      step_.b.tensor(kept_in_part ? parameter.kept_shard : parameter.stored);
  program::TensorSpec spec;
  spec.name = stored.name;
  spec.part = "gathered";
  spec.role = Role::parameter;
  spec.component = parameter.component;
  spec.varies = static_cast<program::IndexMask>(parameter.varies | program::kPerMicroBatch);
  spec.shape = stored.shape;
  spec.pad_multiple = stored.pad_multiple;
  spec.layout = stored.layout.with(group, Placement::replicate());
  return step_.b.declare(spec);
}

void Parameters::gather_ahead(const NextUse& next) {
  if (next.unit == nullptr || !step_.plan.overlap_parameters) {
    return;
  }
  const Booking scope(step_.b, next.phase, next.component);
  Use& use = use_of(*next.unit, next.phase, next.after_recompute);
  emit_gathers(use, next.layers_on);
  use.gathered_ahead = true;
}

void Parameters::gather(const Unit& unit, const NextUse& next) {
  advance_reductions();
  {
    const Booking scope(step_.b, step_.b.phase(), step_.b.component());
    Use& use = use_of(unit, step_.b.phase(), after_recompute_);
    if (!use.gathered_ahead) {
      emit_gathers(use, 0);
    }
    use.gathered_ahead = false;
    for (std::size_t i = 0; i < unit.ids().size(); ++i) {
      if (use.working[i] != program::kNoTensor) {
        parameter_[unit.ids()[i]].working = use.working[i];
      }
    }
  }
  if (step_.b.phase() == Phase::forward) {
    keep_shards(unit);
  }
  gather_ahead(next);
}

void Parameters::keep_shards(const Unit& unit) {
  for (const ParameterId id : unit.ids()) {
    const Parameter& parameter = parameter_[id];
    if (parameter.kept_shard == program::kNoTensor) {
      continue;
    }
    const TensorId shard =
        step_.b.declare_shard_of(parameter.working, "own shard", parameter.part_axes, shard_);
    step_.b.emit(Function::copy, "keep a shard", {read(shard), update(parameter.kept_shard)});
  }
}

void Parameters::look_ahead(const NextUse& next) {
  advance_reductions();
  gather_ahead(next);
}

Operand Parameters::gradient(ParameterId id) {
  Parameter& parameter = parameter_[id];
  if (!parameter.sharding->shards_gradients && parameter.added_gradient == program::kNoTensor) {
    return update(parameter.gradient);
  }
  if (parameter.transient_gradient != program::kNoTensor) {
    return update(parameter.transient_gradient);
  }
  parameter.transient_gradient = parameter.added_gradient != program::kNoTensor
                                     ? parameter.added_gradient
                                     : declare_micro_batch_gradient(parameter);
  return write(parameter.transient_gradient);
}

TensorId Parameters::declare_micro_batch_gradient(const Parameter& parameter) {
  program::Builder& b = step_.b;
  const program::Tensor& resident = b.tensor(parameter.gradient);
  program::TensorSpec spec;
  spec.name = resident.name;
  spec.part = "gradient of a micro batch";
  spec.role = Role::gradient;
  spec.component = parameter.component;
  spec.type =
      parameter.sharding->shards_gradients ? resident.type : b.tensor(parameter.stored).type;
  spec.varies = static_cast<program::IndexMask>(parameter.varies | program::kPerMicroBatch);
  spec.shape = resident.shape;
  spec.pad_multiple = resident.pad_multiple;
  spec.layout =
      resident.layout.with(static_cast<AxisMask>(parameter.shard_axes | parameter.replica_axes),
                           Placement::partial_sum());
  return b.declare(spec);
}

/// Source: nanotron, src/nanotron/optim/gradient_accumulator.py, FP32GradientAccumulator.backward
void Parameters::add_micro_batch(program::IndexMask varies) {
  for (const ParameterId id : ids_that_vary(varies)) {
    const Parameter& parameter = parameter_[id];
    if (parameter.added_gradient != program::kNoTensor) {
      step_.b.emit(Function::accumulate,
                   "add gradient of the micro batch",
                   {read(parameter.added_gradient), update(parameter.gradient)});
    }
  }
}

void Parameters::start_gradient(ParameterId id) {
  const Operand operand = gradient(id);
  if (operand.access == Access::write) {
    step_.b.emit(Function::zero, "zero gradient", {operand});
  }
}

void Parameters::hold_gathered(const Unit& unit) {
  OperandList held;
  for (const ParameterId id : unit.ids()) {
    if (parameter_[id].sharding->shards_parameters) {
      held.add({parameter_[id].working, Access::hold});
    }
  }
  if (!held.empty()) {
    step_.b.emit(Function::keep, "release parameters", held.span()).source =
        "pytorch, FSDPParamGroup.post_backward";
  }
}

Parameters::Bucket Parameters::micro_batch_bucket(AxisMask group,
                                                  std::span<const ParameterId> ids) {
  program::Builder& b = step_.b;
  Bucket bucket;
  bucket.group = group;
  bucket.component = b.component();
  bucket.of_micro_batch = true;
  bucket.scatter = scatters_micro_batches(step_.plan);
  for (const ParameterId id : ids) {
    const Parameter& parameter = parameter_[id];
    const TensorId transient = parameter.transient_gradient;
    const Layout layout = b.tensor(transient).layout;
    bucket.id.push_back(id);
    bucket.from.push_back(transient);
    bucket.of_layer = parameter.varies == program::kPerLayer;
    if (bucket.scatter) {
      program::TensorSpec spec;
      spec.name = b.tensor(transient).name;
      spec.part = "gradient shard of a micro batch";
      spec.role = Role::gradient;
      spec.component = parameter.component;
      spec.type = b.tensor(transient).type;
      spec.varies = b.tensor(transient).varies;
      spec.shape = b.tensor(transient).shape;
      spec.pad_multiple = b.tensor(transient).pad_multiple;
      spec.layout = layout.with(group, shard_);
      bucket.to.push_back(b.declare(spec));
      if (step_.plan.sum_replicas_early) {
        bucket.replicas = parameter.replica_axes;  // the same for all
      }
      bucket.shard.push_back(
          b.mesh().group_size(bucket.replicas) == 1
              ? bucket.to.back()
              : b.declare_in_place(bucket.to.back(),
                                   "gradient shard of a micro batch, summed",
                                   spec.layout.with(bucket.replicas, Placement::replicate())));
    } else {
      bucket.to.push_back(b.declare_in_place(transient,
                                             "gradient of a micro batch, summed",
                                             layout.with(group, Placement::replicate())));
      bucket.shard.push_back(
          b.declare_shard_of(bucket.to.back(), "gradient shard of a micro batch", group, shard_));
    }
  }
  return bucket;
}

std::vector<Parameters::Bucket> Parameters::step_buckets(std::span<const ParameterId> ids) {
  program::Builder& b = step_.b;
  std::vector<Bucket> buckets;
  const bool scatter = step_.plan.gradient_reduce == config::GradientReduce::reduce_scatter;
  const auto start_bucket = [&](AxisMask group, std::span<const ParameterId> sharing) {
    Bucket bucket;
    bucket.group = group;
    bucket.component = Component::optimizer;
    bucket.of_layer = parameter_[sharing.front()].varies == program::kPerLayer;
    bucket.id.assign(sharing.begin(), sharing.end());
    return bucket;
  };
  // Whole gradients become shards before replicas sum these, or sums over all of them before.
  const auto sharded_over = [&](const Parameter& parameter) -> AxisMask {
    const AxisMask whole = scatter ? AxisMask{0} : parameter.replica_axes;
    return parameter.sharding->shards_gradients
               ? AxisMask{0}
               : static_cast<AxisMask>(parameter.shard_axes | whole);
  };
  const auto replicas_of = [&](const Parameter& parameter) -> AxisMask {
    return parameter.sharding->shards_gradients || !scatter ? AxisMask{0} : parameter.replica_axes;
  };
  // First the sums over ranks that do not shard, such as the norms of tensor-parallel ranks.
  const auto summed_over = [&](const Parameter& parameter) -> AxisMask {
    return static_cast<AxisMask>(parameter.reduce_axes & ~parameter.shard_axes &
                                 ~sharded_over(parameter) & ~replicas_of(parameter));
  };
  for_each_group(ids, summed_over, [&](AxisMask group, auto sharing) {
    Bucket bucket = start_bucket(group, sharing);
    for (const ParameterId id : sharing) {
      Parameter& parameter = parameter_[id];
      if (parameter.summed_gradient == program::kNoTensor) {
        parameter.summed_gradient = b.declare_in_place(
            parameter.gradient,
            "gradient, summed",
            b.tensor(parameter.gradient).layout.with(group, Placement::replicate()));
        parameter.final_gradient = parameter.summed_gradient;
      }
      bucket.from.push_back(parameter.gradient);
      bucket.to.push_back(parameter.summed_gradient);
    }
    buckets.push_back(std::move(bucket));
  });
  for_each_group(ids, sharded_over, [&](AxisMask group, auto sharing) {
    Bucket bucket = start_bucket(group, sharing);
    bucket.scatter = scatter;
    for (const ParameterId id : sharing) {
      Parameter& parameter = parameter_[id];
      const TensorId partial = parameter.summed_gradient != program::kNoTensor
                                   ? parameter.summed_gradient
                                   : parameter.gradient;
      if (parameter.reduced_gradient == program::kNoTensor) {
        const Layout layout = b.tensor(partial).layout;
        parameter.reduced_gradient =
            bucket.scatter
                ? b.declare_in_place(partial, "gradient shard", layout.with(group, shard_))
                : b.declare_in_place(
                      partial, "gradient, summed", layout.with(group, Placement::replicate()));
        parameter.final_gradient =
            bucket.scatter
                ? parameter.reduced_gradient
                : b.declare_shard_of(
                      parameter.reduced_gradient, "gradient shard", parameter.shard_axes, shard_);
      }
      bucket.from.push_back(partial);
      bucket.to.push_back(parameter.reduced_gradient);
    }
    buckets.push_back(std::move(bucket));
  });
  for_each_group(ids, replicas_of, [&](AxisMask group, auto sharing) {
    Bucket bucket = start_bucket(group, sharing);
    for (const ParameterId id : sharing) {
      Parameter& parameter = parameter_[id];
      if (parameter.final_gradient == parameter.reduced_gradient) {
        const TensorId shard = parameter.reduced_gradient;
        parameter.final_gradient =
            b.declare_in_place(shard,
                               "gradient shard, summed",
                               b.tensor(shard).layout.with(group, Placement::replicate()));
      }
      bucket.from.push_back(parameter.reduced_gradient);
      bucket.to.push_back(parameter.final_gradient);
    }
    buckets.push_back(std::move(bucket));
  });
  return buckets;
}

void Parameters::reduce(const Bucket& bucket, Completion completion) {
  const Booking scope(step_.b, Phase::backward, bucket.component);
  OperandList from;
  OperandList to;
  for (std::size_t i = 0; i < bucket.id.size(); ++i) {
    from.add(read(in_layer(bucket.from[i], bucket.layers_on)));
    to.add(write(in_layer(bucket.to[i], bucket.layers_on)));
  }
  emit_weights_collective(
      bucket.scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
      "reduce gradients",
      bucket.group,
      from.span(),
      to.span(),
      completion);
  if (step_.b.mesh().group_size(bucket.replicas) > 1) {
    OperandList shards;
    OperandList sums;
    for (std::size_t i = 0; i < bucket.id.size(); ++i) {
      shards.add(read(in_layer(bucket.to[i], bucket.layers_on)));
      sums.add(write(in_layer(bucket.shard[i], bucket.layers_on)));
    }
    emit_weights_collective(CollectiveKind::all_reduce,
                            "sum gradients of replicas",
                            bucket.replicas,
                            shards.span(),
                            sums.span(),
                            completion);
  }
}

void Parameters::accumulate(const Bucket& bucket) {
  const Booking scope(step_.b, Phase::backward, bucket.component);
  for (std::size_t i = 0; i < bucket.id.size(); ++i) {
    Parameter& parameter = parameter_[bucket.id[i]];
    const Ref shard = in_layer(bucket.shard[i], bucket.layers_on);
    if (parameter.gradient_on_host) {
      accumulate_on_host(parameter, shard, bucket.layers_on);
      continue;
    }
    step_.b.emit(Function::accumulate,
                 "accumulate gradient shard",
                 {read(shard), update(in_layer(parameter.gradient, bucket.layers_on))});
  }
}

/// Source: deepspeed, runtime/zero/stage3.py, partition_grads: the first micro batch's shard is
/// copied, later ones are added on the GPU to what comes from the host, and go back
void Parameters::accumulate_on_host(Parameter& parameter, Ref shard, int layers_on) {
  program::Builder& b = step_.b;
  const Ref gradient = in_layer(parameter.gradient, layers_on);
  const bool alone = micro_batch_.first && !parameter.on_host_before;
  parameter.on_host_before = parameter.varies == program::kPerStep;
  if (alone) {
    b.emit_host_copy(
        "copy a gradient to the host", shard, update(gradient), host_copies(step_.plan));
    return;
  }
  const Ref sum = in_layer(declare_on_gpu(parameter.gradient, "gradient from the host"), layers_on);
  b.emit_host_copy("copy a gradient to the GPU", gradient, write(sum), host_copies(step_.plan));
  b.emit(Function::accumulate, "accumulate gradient shard", {read(shard), update(sum)});
  b.emit_host_copy("copy a gradient to the host", sum, update(gradient), host_copies(step_.plan));
}

void Parameters::advance_reductions() {
  for (const Bucket& bucket : under_way_) {
    accumulate(bucket);
    OperandList held;
    for (const TensorId whole : bucket.scatter ? bucket.from : bucket.to) {
      held.add({in_layer(whole, bucket.layers_on), Access::hold});
    }
    step_.b.emit(Function::keep, "release gradients", held.span()).source =
        "pytorch, FSDPParamGroup.post_backward: reduce_scatter_state";
  }
  under_way_.clear();
  for (Bucket& bucket : waiting_) {
    reduce(bucket, Completion::asynchronous);
    if (bucket.of_micro_batch) {
      under_way_.push_back(std::move(bucket));
    }
  }
  waiting_.clear();
}

void Parameters::move_layer(int step) {
  for (std::vector<Bucket>* const buckets : {&waiting_, &under_way_}) {
    for (Bucket& bucket : *buckets) {
      bucket.layers_on -= bucket.of_layer ? step : 0;
    }
  }
}

void Parameters::finish_micro_batch() {
  while (!waiting_.empty() || !under_way_.empty()) {
    advance_reductions();
  }
}

SpecialPasses Parameters::special_passes() const {
  SpecialPasses special;
  for (const Parameter& parameter : parameter_) {
    special.first_forward = special.first_forward || refreshes(parameter);
    special.first_backward = special.first_backward || parameter.gradient_on_host;
    special.last_backward = special.last_backward ||
                            (step_.plan.overlap_gradients && !parameter.sharding->shards_gradients);
  }
  return special;
}

void Parameters::finish_backward(const Unit& unit) {
  hold_gathered(unit);
  const bool overlap = step_.plan.overlap_gradients;
  const auto reduced_over = [](const Parameter& parameter) -> AxisMask {
    return parameter.sharding->shards_gradients ? parameter.shard_axes : AxisMask{0};
  };
  for_each_group(unit.ids(), reduced_over, [&](AxisMask group, auto ids) {
    Bucket bucket = micro_batch_bucket(group, ids);
    if (overlap) {
      waiting_.push_back(std::move(bucket));
    } else {
      reduce(bucket, Completion::blocking);
      accumulate(bucket);
    }
  });
  std::vector<ParameterId> whole;
  for (const ParameterId id : unit.ids()) {
    Parameter& parameter = parameter_[id];
    parameter.transient_gradient = program::kNoTensor;
    if (overlap && micro_batch_.last && !parameter.sharding->shards_gradients) {
      parameter.reduced = true;
      whole.push_back(id);
    }
  }
  for (Bucket& bucket : step_buckets(whole)) {
    waiting_.push_back(std::move(bucket));
  }
}

void Parameters::zero_gradients(program::IndexMask varies) {
  OperandList operands;
  for (const ParameterId id : ids_that_vary(varies)) {
    if (!parameter_[id].gradient_on_host) {  // the first micro batch's are copied there
      operands.add(update(parameter_[id].gradient));
    }
  }
  if (!operands.empty()) {
    step_.b.emit(Function::zero, "zero gradients", operands.span());
  }
}

void Parameters::reduce_step(program::IndexMask varies) {
  std::vector<ParameterId> ids;
  for (const ParameterId id : ids_that_vary(varies)) {
    if (!parameter_[id].reduced) {
      ids.push_back(id);
    }
  }
  for (const Bucket& bucket : step_buckets(ids)) {
    reduce(bucket, Completion::blocking);
  }
}

void Parameters::sum_between_stages(ParameterId id, std::int64_t peer_stage) {
  const Parameter& parameter = parameter_[id];
  step_.b.emit_stage_sum("sum tied gradients",
                         peer_stage,
                         parameter.reduced ? parameter.final_gradient : parameter.gradient);
}

AxisMask Parameters::norm_axes() const {
  AxisMask axes = 0;
  if (step_.plan.pipeline_degree > 1) {
    // The stages meet in one sum: over what any of them shards, though not each has every kind of
    // layer or a part of the vocabulary.
    axes = static_cast<AxisMask>(kPipeline | axes_of_other_stages(step_.plan));
    if (parameter_.empty() && step_.plan.zero_stage > 0 &&
        step_.b.mesh().group_size(kReplicas) > 1) {
      axes = static_cast<AxisMask>(axes | kReplicas);
    }
  }
  for (const Parameter& parameter : parameter_) {
    axes = static_cast<AxisMask>(axes |
                                 step_.b.tensor(parameter.final_gradient).layout.sharded_axes());
  }
  return axes;
}

std::int64_t Parameters::shard_elements() const {
  std::int64_t elements = 0;
  for (const Parameter& parameter : parameter_) {
    const bool of_layer = parameter.varies == program::kPerLayer;
    const std::int64_t layers =
        parameter.layers.count > 0 ? parameter.layers.count : step_.b.extent(program::Index::layer);
    const program::Tensor& moment = step_.b.tensor(parameter.first_moment);
    elements +=
        program::local_shape(step_.b.mesh(), moment).elements.value() * (of_layer ? layers : 1);
  }
  return elements;
}

bool Parameters::gradients_on_host() const {
  return std::any_of(parameter_.begin(), parameter_.end(), [](const Parameter& parameter) {
    return parameter.gradient_on_host;
  });
}

void Parameters::add_square_sums(program::IndexMask varies, TensorId norm) {
  const bool on_host = step_.b.tensor(norm).place == program::Place::host;
  OperandList operands;
  for (const ParameterId id : ids_that_vary(varies)) {
    if (parameter_[id].in_norm && parameter_[id].gradient_on_host == on_host) {
      operands.add(read(parameter_[id].final_gradient));
    }
  }
  if (!operands.empty()) {
    operands.add(update(norm));
    step_.b.emit(Function::square_sum, "squares of gradients", operands.span());
  }
}

/// Gradients that are not there yet are copied to the host, and parameters that do not stay there
/// back to the GPU.
/// Source: deepspeed, runtime/zero/stage3.py; megatron-lm,
/// megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py
void Parameters::optimize_on_host(std::span<const ParameterId> ids, TensorId norm) {
  program::Builder& b = step_.b;
  OperandList operands;
  if (norm != program::kNoTensor) {
    operands.add(read(norm));
  }
  const auto declare_on_host = [&](TensorId like, std::string_view part) {
    program::TensorSpec spec = program::declared_like(b.tensor(like));
    spec.part = part;
    spec.resident = false;
    spec.place = program::Place::host;
    return b.declare(spec);
  };
  std::vector<std::pair<TensorId, TensorId>> to_gpu;
  for (const ParameterId id : ids) {
    const Parameter& parameter = parameter_[id];
    TensorId gradient = parameter.final_gradient;
    if (!parameter.gradient_on_host) {
      gradient = declare_on_host(parameter.final_gradient, "gradient on the host");
      b.emit_host_copy("copy a gradient to the host",
                       parameter.final_gradient,
                       write(gradient),
                       host_copies(step_.plan));
    }
    operands.add(read(gradient));
    operands.add(update(parameter.master));
    operands.add(update(parameter.first_moment));
    operands.add(update(parameter.second_moment));
    if (b.tensor(parameter.updated).place == program::Place::host) {
      operands.add(update(parameter.updated));
    } else {
      const TensorId made = declare_on_host(parameter.updated, "updated on the host");
      operands.add(write(made));
      to_gpu.emplace_back(made, parameter.updated);
    }
  }
  b.emit(Function::adam, "adam", operands.span());
  for (const auto& [from, to] : to_gpu) {
    b.emit_host_copy("copy a parameter to the GPU", from, update(to), host_copies(step_.plan));
  }
}

void Parameters::optimize(program::IndexMask varies, TensorId norm) {
  program::Builder& b = step_.b;
  const auto ids = ids_that_vary(varies);
  if (ids.empty()) {
    return;
  }
  if (step_.plan.offload_optimizer) {
    optimize_on_host(ids, norm);
  } else {
    OperandList operands;
    if (norm != program::kNoTensor) {
      operands.add(read(norm));
    }
    for (const ParameterId id : ids) {
      const Parameter& parameter = parameter_[id];
      operands.add(read(parameter.final_gradient));
      operands.add(update(parameter.master));
      operands.add(update(parameter.first_moment));
      operands.add(update(parameter.second_moment));
      operands.add(update(parameter.updated));
    }
    b.emit(Function::adam, "adam", operands.span());
  }
  const auto gathered_over = [&](const Parameter& parameter) -> AxisMask {
    return parameter.sharding->shards_parameters || refreshes(parameter) ? AxisMask{0}
                                                                         : parameter.shard_axes;
  };
  for_each_group(ids, gathered_over, [&](AxisMask group, auto sharing) {
    OperandList from;
    OperandList to;
    for (const ParameterId id : sharing) {
      from.add(read(parameter_[id].updated));
      to.add(update(parameter_[id].stored));
    }
    emit_weights_collective(CollectiveKind::all_gather,
                            "gather updated parameters",
                            group,
                            from.span(),
                            to.span(),
                            Completion::blocking);
  });
}

}  // namespace trireme::plan
