#include "sim/plan/legality.h"

#include <array>

#include <fmt/format.h>

namespace trireme::plan {

using config::Framework;

namespace {

bool exchanges_heads(const Plan& plan) {
  return plan.attention == AttentionLowering::ulysses && plan.group_degree > 1;
}

bool splits_attention(const Plan& plan) {
  return plan.attention == AttentionLowering::megatron && plan.group_degree > 1;
}

bool splits_features(const Plan& plan) {
  return plan.mlp == MlpLowering::megatron && plan.group_degree > 1;
}

bool shards_sequence(const Plan& plan) {
  return plan.sequence_sharded && plan.group_degree > 1;
}

std::string unless_divides(std::string_view what, std::int64_t value, std::int64_t divisor) {
  return value % divisor == 0
             ? std::string()
             : fmt::format("{} ({}) is not a multiple of {}", what, value, divisor);
}

std::string query_heads_divide(const Plan& plan) {
  if (plan.framework == Framework::deepspeed_legacy && plan.model.heads > plan.group_degree &&
      plan.model.heads % plan.group_degree != 0) {
    return fmt::format("{} query heads over {} ranks are uneven, which is not modelled yet",
                       plan.model.heads,
                       plan.group_degree);
  }
  return unless_divides("the number of query heads", plan.model.heads, plan.group_degree);
}

std::string kv_heads_divide(const Plan& plan) {
  const std::int64_t groups = plan.model.kv_heads;
  const std::int64_t degree = plan.group_degree;
  if (groups % degree == 0) {
    return {};
  }
  const bool repeats = degree % groups == 0 && plan.framework != Framework::prime_rl &&
                       plan.framework != Framework::megatron;
  return repeats ? fmt::format(
                       "{} key/value heads over {} ranks have to be repeated, which is not "
                       "modelled yet",
                       groups,
                       degree)
                 : unless_divides("the number of key/value heads", groups, degree);
}

std::string tensor_kv_heads_divide(const Plan& plan) {
  const std::int64_t groups = plan.model.kv_heads;
  const std::int64_t degree = plan.group_degree;
  if (groups % degree == 0) {
    return {};
  }
  return degree % groups == 0
             ? fmt::format(
                   "{} key/value heads over {} tensor-parallel ranks need a gather of QKV, "
                   "which is not modelled yet",
                   groups,
                   degree)
             : unless_divides("the number of key/value heads", groups, degree);
}

constexpr std::array kRules = {
    LegalityRule{"ulysses-query-heads",
                 "Ulysses never splits a head: a % P = 0",
                 "jacobs2023-ulysses",
                 exchanges_heads,
                 query_heads_divide},
    LegalityRule{"ulysses-kv-heads",
                 "key/value heads divide, or are repeated: g % P = 0 or P % g = 0",
                 "deepspeed",
                 exchanges_heads,
                 kv_heads_divide},
    LegalityRule{"tensor-query-heads",
                 "tensor parallelism splits heads: a % tp = 0",
                 "megatron-lm",
                 splits_attention,
                 [](const Plan& plan) {
                   return unless_divides(
                       "the number of query heads", plan.model.heads, plan.group_degree);
                 }},
    LegalityRule{"tensor-kv-heads",
                 "g % tp = 0 or tp % g = 0",
                 "megatron-lm",
                 splits_attention,
                 tensor_kv_heads_divide},
    LegalityRule{"tensor-mlp-width",
                 "tensor parallelism splits the MLP: f % tp = 0",
                 "megatron-lm",
                 splits_features,
                 [](const Plan& plan) {
                   return unless_divides("the MLP width", plan.model.mlp_width, plan.group_degree);
                 }},
    LegalityRule{"sequence-divides",
                 "sequence shards are equal: S % P = 0",
                 "deepspeed",
                 shards_sequence,
                 [](const Plan& plan) {
                   return unless_divides("the sequence", plan.sequence, plan.group_degree);
                 }},
    LegalityRule{"context-parallel-halves",
                 "Megatron's context parallelism balances causal halves: S % (2 cp) = 0",
                 "transformer-engine",
                 [](const Plan& plan) {
                   return exchanges_heads(plan) && plan.framework == Framework::megatron;
                 },
                 [](const Plan& plan) {
                   return unless_divides("the sequence", plan.sequence, 2 * plan.group_degree);
                 }},
    LegalityRule{"vocabulary-parallel-loss",
                 "the vocabulary-parallel loss needs a head that tensor parallelism splits",
                 "megatron-lm",
                 [](const Plan& plan) {
                   return plan.loss == config::LossKind::vocabulary_parallel &&
                          plan.model.vocabulary > 0;
                 },
                 [](const Plan& plan) {
                   return plan.vocabulary_parallel()
                              ? std::string()
                              : std::string("the plan splits no MLP, so its head is whole");
                 }},
};

void not_modelled(Feasibility& feasibility, std::string_view what) {
  feasibility.refusals.push_back({"not-modelled", fmt::format("{} is not modelled yet", what)});
}

}  // namespace

std::span<const LegalityRule> legality_rules() {
  return kRules;
}

void check_rules(const Plan& plan, Feasibility& feasibility) {
  for (const LegalityRule& rule : kRules) {
    if (!rule.applies(plan)) {
      continue;
    }
    std::string message = rule.broken(plan);
    if (!message.empty()) {
      feasibility.refusals.push_back({std::string(rule.name), std::move(message)});
    }
  }
}

void check_modelled(const config::PlanSpec& spec, Feasibility& feasibility) {
  if (spec.ring > 1) {
    not_modelled(feasibility, "ring attention");
  }
  if (spec.tensor_parallel > 1 && (spec.ulysses > 1 || spec.sequence_gather > 1)) {
    not_modelled(feasibility, "tensor-parallel attention together with a split sequence");
  }
  if (spec.recompute == config::Recompute::selective) {
    not_modelled(feasibility, "selective recomputation");
  }
  if (spec.recompute == config::Recompute::offload_host) {
    not_modelled(feasibility, "offloading activations to the host");
  }
  if (spec.loss == config::LossKind::chunked) {
    not_modelled(feasibility, "the chunked loss");
  }
  if (spec.attention == config::AttentionKernel::unfused) {
    not_modelled(feasibility, "unfused attention");
  }
  if (spec.optimizer.recipe != "bf16-fp32-main") {
    not_modelled(feasibility, fmt::format("the optimizer recipe '{}'", spec.optimizer.recipe));
  }
  if (spec.zero.reshard == config::Reshard::framework &&
      (spec.framework == Framework::deepspeed || spec.framework == Framework::deepspeed_legacy)) {
    not_modelled(feasibility, "DeepSpeed's re-gather rule by reuse distance");
  }
}

}  // namespace trireme::plan
