#include "sim/plan/experts.h"

#include <algorithm>
#include <cmath>

#include "sim/plan/block.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::write;

AxisMask expert_axes(const Plan& plan) {
  if (plan.expert_degree <= 1) {
    return 0;
  }
  const AxisMask outside = plan.expert_data_degree() > 1 ? kExpertData : AxisMask{0};
  return splits_expert_features(plan) ? outside : static_cast<AxisMask>(outside | kGroup);
}

bool splits_expert_features(const Plan& plan) {
  return plan.mlp == MlpLowering::megatron && plan.group_degree > 1 && plan.expert_tensor;
}

AxisMask expert_partial_axes(const Plan& plan) {
  const AxisMask split = splits_expert_features(plan)
                             ? static_cast<AxisMask>(expert_axes(plan) | kGroup)
                             : expert_axes(plan);
  return static_cast<AxisMask>(token_axes(plan) & ~split);
}

std::int64_t source_tokens(const Plan& plan) {
  return plan.micro_batch * plan.sequence / (plan.sequence_sharded ? plan.group_degree : 1);
}

std::int64_t expert_slots(const Plan& plan) {
  const config::Experts& experts = *plan.model.experts;
  const std::int64_t tokens = source_tokens(plan);
  const std::int64_t routed = tokens * experts.per_token;
  if (plan.expert_capacity <= 0) {
    return ceil_div(routed, experts.count);
  }
  const double mean = static_cast<double>(routed) / static_cast<double>(experts.count);
  const double slots = std::ceil(mean * plan.expert_capacity);
  return std::clamp<std::int64_t>(
      slots < static_cast<double>(tokens) ? static_cast<std::int64_t>(slots) : tokens, 1, tokens);
}

Shape slots_shape(const Step& step, program::Dim features) {
  const std::int64_t sources = step.b.mesh().group_size(token_axes(step.plan));
  return {{sources, "R"},
          {step.plan.model.experts->count, "E"},
          {expert_slots(step.plan), "C"},
          features};
}

Layout at_sources(const Step& step) {
  const Layout layout = Layout().with(token_axes(step.plan), Placement::shard(program::kSourceDim));
  // The sources that an exchange joins are neighbours, so that what is left of a shard is, too.
  return splits_expert_features(step.plan)
             ? layout.with(expert_axes(step.plan), Placement::shard_within(program::kSourceDim))
             : layout;
}

Layout at_experts(const Step& step) {
  Layout layout =
      at_sources(step).with(expert_axes(step.plan), Placement::shard(program::kExpertDim));
  return splits_expert_features(step.plan) ? layout.with(kGroup, Placement::replicate()) : layout;
}

namespace {

/// Whether a rank has more than one expert: what arrives is in the order of the senders.
bool sorts_by_expert(const Step& step) {
  return step.plan.model.experts->count > step.b.mesh().group_size(expert_axes(step.plan));
}

}  // namespace

Ref to_experts(Step& step, Ref slots, std::string_view name) {
  program::Builder& b = step.b;
  const AxisMask experts = expert_axes(step.plan);
  const bool exchanged = b.mesh().group_size(experts) > 1;
  const bool gathered = splits_expert_features(step.plan);
  if (!exchanged && !gathered) {
    return slots;
  }
  const Shape shape = b.tensor(slots.tensor).shape;
  const bool sorted = sorts_by_expert(step);
  const auto arrive = [&](bool last, const Layout& layout) {
    return last && !sorted ? step.value(name, shape, layout)
                           : step.buffer("tokens on arrival at experts", shape, layout);
  };
  if (exchanged) {
    const Layout layout = at_sources(step).with(experts, Placement::shard(program::kExpertDim));
    const Ref arrived = arrive(!gathered, layout);
    b.emit_collective(CollectiveKind::all_to_all, name, experts, slots, arrived);
    slots = arrived;
  }
  if (gathered) {
    const Ref arrived = arrive(true, at_experts(step));
    b.emit_collective(CollectiveKind::all_gather, name, kGroup, slots, arrived);
    slots = arrived;
  }
  if (!sorted) {
    return slots;
  }
  const Ref by_expert = step.value(name, shape, at_experts(step));
  b.emit(Function::copy, "sort tokens by expert", {read(slots), write(by_expert)});
  return by_expert;
}

Ref from_experts(Step& step, Ref slots, std::string_view name) {
  program::Builder& b = step.b;
  const AxisMask experts = expert_axes(step.plan);
  const bool exchanged = b.mesh().group_size(experts) > 1;
  const bool summed = splits_expert_features(step.plan);
  if (!exchanged && !summed) {
    return slots;
  }
  const Shape shape = b.tensor(slots.tensor).shape;
  if (sorts_by_expert(step)) {
    const Ref by_source =
        step.buffer("tokens on leaving experts", shape, b.tensor(slots.tensor).layout);
    b.emit(Function::copy, "sort tokens by source rank", {read(slots), write(by_source)});
    slots = by_source;
  }
  if (summed) {
    const Layout layout = at_sources(step).with(experts, Placement::shard(program::kExpertDim));
    const Ref sum = exchanged ? step.buffer("sums on leaving experts", shape, layout)
                              : step.value(name, shape, layout);
    b.emit_collective(CollectiveKind::reduce_scatter, name, kGroup, slots, sum);
    slots = sum;
  }
  if (exchanged) {
    const Ref back = step.value(name, shape, at_sources(step));
    b.emit_collective(CollectiveKind::all_to_all, name, experts, slots, back);
    slots = back;
  }
  return slots;
}

}  // namespace trireme::plan
