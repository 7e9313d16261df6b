#include "sim/plan/parameters.h"

#include <algorithm>

namespace trireme::plan {

using program::Access;
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
  void add(Operand operand) {
    ensure(count_ < operand_.size(), "parameters: too many operands");
    operand_[count_++] = operand;
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

  [[nodiscard]] std::span<const Operand> span() const { return {operand_.data(), count_}; }

 private:
  // A layer has up to 14 parameters (naive gather, all biases), of which the optimizer takes five
  // operands each.
  std::array<Operand, 96> operand_{};
  std::size_t count_ = 0;
};

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
  parameter.reduce_axes = partial_over;
  // Tensor-parallel ranks hold different parameters, or copies that they update alike: only the
  // ranks that split tokens between whole parameters shard them.
  const bool group_shards = plan.attention != AttentionLowering::megatron;
  parameter.shard_axes =
      static_cast<AxisMask>(partial_over & (group_shards ? kGroup | kData : kData));
  const bool in_scope =
      plan.zero_scope == config::ZeroScope::all || component == Component::attention;
  const bool alone = b.mesh().group_size(parameter.shard_axes) == 1;
  parameter.sharding =
      &kSharding[in_scope && !alone ? static_cast<std::size_t>(plan.zero_stage) : 0];
  const ShardingInfo& sharding = *parameter.sharding;
  if (!sharding.shards_optimizer) {
    parameter.shard_axes = 0;
  }
  const AxisMask summed_last = static_cast<AxisMask>(partial_over & ~parameter.shard_axes);

  program::TensorSpec spec;
  spec.name = name;
  spec.component = component;
  spec.varies = varies;
  spec.shape = shape;
  spec.resident = true;
  spec.pad_multiple = pad_multiple;

  const Layout sharded = layout.with(parameter.shard_axes, shard_);
  const std::int16_t shard_padding = std::max<std::int16_t>(pad_multiple, 1);
  spec.role = Role::parameter;
  spec.layout = sharding.shards_parameters ? sharded : layout;
  spec.pad_multiple = sharding.shards_parameters ? shard_padding : pad_multiple;
  parameter.stored = b.declare(spec);
  parameter.working = sharding.shards_parameters ? program::kNoTensor : parameter.stored;
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
  parameter.gradient = b.declare(spec);
  parameter.final_gradient = parameter.gradient;

  spec.role = Role::optimizer_state;
  spec.type = ElementType::fp32;
  spec.layout = sharded;
  spec.pad_multiple = sharding.shards_optimizer ? shard_padding : pad_multiple;
  spec.part = "master";
  parameter.master = b.declare(spec);
  spec.part = "first moment";
  parameter.first_moment = b.declare(spec);
  spec.part = "second moment";
  parameter.second_moment = b.declare(spec);

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
    if (parameter_[i].varies == varies) {
      scratch_.push_back(static_cast<ParameterId>(i));
    }
  }
  return scratch_;
}

void Parameters::gather(const Unit& unit) {
  program::Builder& b = step_.b;
  // Source: pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _post_forward
  const bool after_recompute = b.phase() == Phase::backward && step_.plan.recompute_layers &&
                               !step_.plan.gather_after_recompute;
  const auto gathered_over = [&](const Parameter& parameter) -> AxisMask {
    const bool kept = parameter.working != program::kNoTensor &&
                      (!step_.plan.reshard_after_forward ||
                       (after_recompute && parameter.varies == program::kPerLayer));
    return parameter.sharding->shards_parameters && !kept ? parameter.shard_axes : AxisMask{0};
  };
  for_each_group(unit.ids(), gathered_over, [&](AxisMask group, auto ids) {
    OperandList from;
    OperandList to;
    for (const ParameterId id : ids) {
      Parameter& parameter = parameter_[id];
      program::TensorSpec spec;
      const program::Tensor& stored = b.tensor(parameter.stored);
      spec.name = stored.name;
      spec.part = "gathered";
      spec.role = Role::parameter;
      spec.component = parameter.component;
      spec.varies = static_cast<program::IndexMask>(parameter.varies | program::kPerMicroBatch);
      spec.shape = stored.shape;
      spec.pad_multiple = stored.pad_multiple;
      spec.layout = stored.layout.with(group, Placement::replicate());
      parameter.working = b.declare(spec);
      from.add(read(parameter.stored));
      to.add(write(parameter.working));
    }
    b.emit_collective(
        CollectiveKind::all_gather, "gather parameters", group, from.span(), to.span());
  });
}

Operand Parameters::gradient(ParameterId id) {
  Parameter& parameter = parameter_[id];
  if (!parameter.sharding->shards_gradients) {
    return update(parameter.gradient);
  }
  if (parameter.transient_gradient != program::kNoTensor) {
    return update(parameter.transient_gradient);
  }
  program::Builder& b = step_.b;
  const program::Tensor& resident = b.tensor(parameter.gradient);
  program::TensorSpec spec;
  spec.name = resident.name;
  spec.part = "gradient of a micro batch";
  spec.role = Role::gradient;
  spec.component = parameter.component;
  spec.type = resident.type;
  spec.varies = static_cast<program::IndexMask>(parameter.varies | program::kPerMicroBatch);
  spec.shape = resident.shape;
  spec.pad_multiple = resident.pad_multiple;
  spec.layout = resident.layout.with(parameter.shard_axes, Placement::partial_sum());
  parameter.transient_gradient = b.declare(spec);
  return write(parameter.transient_gradient);
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

void Parameters::finish_backward(const Unit& unit) {
  hold_gathered(unit);
  program::Builder& b = step_.b;
  const bool scatter = step_.plan.zero_stage == 3 ||
                       step_.plan.gradient_reduce == config::GradientReduce::reduce_scatter;
  const auto reduced_over = [](const Parameter& parameter) -> AxisMask {
    return parameter.sharding->shards_gradients ? parameter.shard_axes : AxisMask{0};
  };
  for_each_group(unit.ids(), reduced_over, [&](AxisMask group, auto ids) {
    OperandList from;
    OperandList to;
    std::array<TensorId, 32> shard{};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Parameter& parameter = parameter_[ids[i]];
      const TensorId transient = parameter.transient_gradient;
      const Layout layout = b.tensor(transient).layout;
      from.add(read(transient));
      if (scatter) {
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
        shard[i] = b.declare(spec);
        to.add(write(shard[i]));
      } else {
        const TensorId whole = b.declare_in_place(transient,
                                                  "gradient of a micro batch, summed",
                                                  layout.with(group, Placement::replicate()));
        to.add(write(whole));
        shard[i] = b.declare_shard_of(whole, "gradient shard of a micro batch", group, shard_);
      }
    }
    b.emit_collective(scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                      "reduce gradients",
                      group,
                      from.span(),
                      to.span());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      b.emit(Function::accumulate,
             "accumulate gradient shard",
             {read(shard[i]), update(parameter_[ids[i]].gradient)});
    }
  });
  for (const ParameterId id : unit.ids()) {
    parameter_[id].transient_gradient = program::kNoTensor;
  }
}

void Parameters::zero_gradients(program::IndexMask varies) {
  OperandList operands;
  for (const ParameterId id : ids_that_vary(varies)) {
    operands.add(update(parameter_[id].gradient));
  }
  if (!operands.empty()) {
    step_.b.emit(Function::zero, "zero gradients", operands.span());
  }
}

void Parameters::reduce_step(program::IndexMask varies) {
  program::Builder& b = step_.b;
  const auto ids = ids_that_vary(varies);
  // First the sums over ranks that do not shard, such as the norms of tensor-parallel ranks.
  const auto summed_over = [](const Parameter& parameter) -> AxisMask {
    return static_cast<AxisMask>(parameter.reduce_axes & ~parameter.shard_axes);
  };
  for_each_group(ids, summed_over, [&](AxisMask group, auto sharing) {
    OperandList from;
    OperandList to;
    for (const ParameterId id : sharing) {
      Parameter& parameter = parameter_[id];
      const TensorId partial = parameter.final_gradient;
      parameter.final_gradient =
          b.declare_in_place(partial,
                             "gradient, summed",
                             b.tensor(partial).layout.with(group, Placement::replicate()));
      from.add(read(partial));
      to.add(write(parameter.final_gradient));
    }
    b.emit_collective(
        CollectiveKind::all_reduce, "reduce gradients", group, from.span(), to.span());
  });
  const auto sharded_over = [](const Parameter& parameter) -> AxisMask {
    return parameter.sharding->shards_gradients ? AxisMask{0} : parameter.shard_axes;
  };
  const bool scatter = step_.plan.gradient_reduce == config::GradientReduce::reduce_scatter;
  for_each_group(ids, sharded_over, [&](AxisMask group, auto sharing) {
    OperandList from;
    OperandList to;
    for (const ParameterId id : sharing) {
      Parameter& parameter = parameter_[id];
      const TensorId partial = parameter.final_gradient;
      const Layout layout = b.tensor(partial).layout;
      from.add(read(partial));
      if (scatter) {
        parameter.final_gradient =
            b.declare_in_place(partial, "gradient shard", layout.with(group, shard_));
        to.add(write(parameter.final_gradient));
      } else {
        const TensorId whole = b.declare_in_place(
            partial, "gradient, summed", layout.with(group, Placement::replicate()));
        to.add(write(whole));
        parameter.final_gradient = b.declare_shard_of(whole, "gradient shard", group, shard_);
      }
    }
    b.emit_collective(scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                      "reduce gradients",
                      group,
                      from.span(),
                      to.span());
  });
}

AxisMask Parameters::norm_axes() const {
  AxisMask axes = 0;
  for (const Parameter& parameter : parameter_) {
    axes = static_cast<AxisMask>(axes |
                                 step_.b.tensor(parameter.final_gradient).layout.sharded_axes());
  }
  return axes;
}

void Parameters::add_square_sums(program::IndexMask varies, TensorId norm) {
  OperandList operands;
  for (const ParameterId id : ids_that_vary(varies)) {
    operands.add(read(parameter_[id].final_gradient));
  }
  if (!operands.empty()) {
    operands.add(update(norm));
    step_.b.emit(Function::square_sum, "squares of gradients", operands.span());
  }
}

void Parameters::optimize(program::IndexMask varies, TensorId norm) {
  program::Builder& b = step_.b;
  const auto ids = ids_that_vary(varies);
  if (ids.empty()) {
    return;
  }
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
  const auto gathered_over = [](const Parameter& parameter) -> AxisMask {
    return parameter.sharding->shards_parameters ? AxisMask{0} : parameter.shard_axes;
  };
  for_each_group(ids, gathered_over, [&](AxisMask group, auto sharing) {
    OperandList from;
    OperandList to;
    for (const ParameterId id : sharing) {
      from.add(read(parameter_[id].updated));
      to.add(update(parameter_[id].stored));
    }
    b.emit_collective(
        CollectiveKind::all_gather, "gather updated parameters", group, from.span(), to.span());
  });
}

}  // namespace trireme::plan
