// Rules of mixture of experts and latent attention.
#include <cmath>

#include <fmt/format.h>

#include "sim/plan/experts.h"
#include "sim/plan/legality.h"

namespace trireme::plan {

namespace {

void refuse(Feasibility& feasibility, std::string rule, std::string message) {
  feasibility.refusals.push_back({std::move(rule), std::move(message)});
}

/// Whether ranks beside the group hold other tokens of the same sequences.
bool splits_context(const Plan& plan) {
  return plan.exchange_degree > 1 || plan.ring_degree > 1;
}

/// Source: megatron-lm, megatron/core/parallel_state.py, initialize_model_parallel: the expert
/// parallel group is taken from the ranks of data and context parallelism, folded over tensor
/// parallelism where experts are not split
void check_expert_group(const Plan& plan, Feasibility& feasibility) {
  const std::int64_t degree = plan.expert_degree;
  const std::int64_t count = plan.model.experts->count;
  if (count % degree != 0) {
    refuse(feasibility,
           "experts-divide",
           fmt::format("{} experts do not divide by expert_parallel {}", count, degree));
  }
  const bool split = splits_expert_features(plan);
  const std::int64_t whole_groups =
      split ? plan.data_degree : plan.ranks_of_replica() * plan.data_degree;
  if (whole_groups % degree != 0) {
    refuse(feasibility,
           "expert-ranks",
           fmt::format("expert_parallel {} does not divide the {} ranks that it is taken from",
                       degree,
                       whole_groups));
  }
  if (!split && degree % plan.group_degree != 0 && degree > 1) {
    refuse(feasibility,
           "expert-group",
           fmt::format("expert_parallel {} is not a multiple of the {} ranks that split the "
                       "sequence: a part of them is not modelled yet",
                       degree,
                       plan.group_degree));
  }
}

}  // namespace

void check_experts(const Plan& plan, Feasibility& feasibility) {
  if (!plan.model.experts) {
    if (plan.expert_degree > 1 || plan.expert_capacity > 0) {
      refuse(feasibility, "expert-parallel-model", "expert_parallel: the model has no experts");
    }
    return;
  }
  const config::Experts& experts = *plan.model.experts;
  check_expert_group(plan, feasibility);
  if (plan.mlp == MlpLowering::megatron && plan.group_degree > 1) {
    // Source: megatron-lm, megatron/training/arguments.py: "When using expert parallelism and
    // tensor parallelism, sequence parallelism must be used"
    if (!plan.sequence_sharded) {
      refuse(feasibility,
             "experts-sequence",
             "experts beside tensor parallelism need tensor_parallel with 'sequence: true'");
    }
    if (splits_expert_features(plan) && experts.width % plan.group_degree != 0) {
      refuse(feasibility,
             "tensor-expert-width",
             fmt::format("expert width {} does not divide by {} tensor-parallel ranks",
                         experts.width,
                         plan.group_degree));
    }
    if (experts.shared * experts.width % plan.group_degree != 0) {
      refuse(feasibility,
             "tensor-expert-width",
             fmt::format("shared experts' width {} does not divide by {} tensor-parallel ranks",
                         experts.shared * experts.width,
                         plan.group_degree));
    }
  }
  if (splits_context(plan)) {
    refuse(feasibility, "not-modelled", "experts beside context parallelism are not modelled yet");
  }
  const config::RecomputeModules& modules = plan.recompute_modules;
  if (modules.layernorm || modules.mlp || modules.mlp_activation) {
    refuse(feasibility,
           "not-modelled",
           "recomputation of a part of the MLP or its norm beside experts is not modelled yet");
  }
  if (plan.mlp_tiles > 1) {
    refuse(feasibility, "not-modelled", "tiles of the MLP beside experts are not modelled yet");
  }
  if (experts.bias) {
    refuse(feasibility, "not-modelled", "biases of router and experts are not modelled yet");
  }
}

void check_latent(const Plan& plan, Feasibility& feasibility) {
  if (!plan.model.latent) {
    return;
  }
  if (plan.attention != AttentionLowering::ulysses &&
      plan.attention != AttentionLowering::megatron) {
    refuse(feasibility,
           "not-modelled",
           "latent attention with other splits than ulysses and tensor_parallel is not modelled "
           "yet");
  }
  if (splits_context(plan)) {
    refuse(feasibility,
           "not-modelled",
           "latent attention beside a ring, gathered keys or an exchange within tensor parallelism "
           "is not modelled yet");
  }
  if (plan.recompute_modules.core_attention || plan.recompute_modules.layernorm) {
    refuse(feasibility,
           "not-modelled",
           "recomputation of a part of latent attention is not modelled yet");
  }
  if (plan.model.qkv_bias) {
    refuse(feasibility, "not-modelled", "biases of latent attention are not modelled yet");
  }
}

std::vector<std::string> remarks_on_experts(const Plan& plan) {
  std::vector<std::string> remarks;
  if (!plan.model.experts) {
    return remarks;
  }
  remarks.emplace_back(
      plan.expert_capacity > 0
          ? fmt::format("every expert has {} slots for the tokens of each rank; tokens beyond are "
                        "dropped",
                        expert_slots(plan))
          : "routing is taken to be balanced: every expert gets as many tokens of every rank");
  remarks.emplace_back("the auxiliary loss that balances experts is not modelled");
  return remarks;
}

}  // namespace trireme::plan
