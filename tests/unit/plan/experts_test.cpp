// Closed forms of mixture of experts: bytes of the exchanges, parameters by group, FLOPs, slots.
#include "sim/plan/experts.h"

#include <cstdint>

#include "sim/engine/sizes.h"
#include "sim/plan/legality.h"
#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

/// Two layers of Mixtral 8x7B without a vocabulary.
plan::ModelShape mixtral(std::int64_t layers = 2) {
  plan::ModelShape model = llama_8b(layers);
  model.vocabulary = 0;
  config::Experts experts;
  experts.count = 8;
  experts.per_token = 2;
  experts.width = 14336;
  model.experts = experts;
  return model;
}

plan::Plan expert_parallel(std::int64_t degree, std::int64_t data) {
  plan::Plan plan = data_parallel(mixtral(), data, 4096, 0);
  plan.expert_degree = degree;
  return plan;
}

Bytes exchanged(const plan::Plan& plan, Phase phase) {
  return sent(plan::lower(plan), Traffic::activations, Component::moe, phase);
}

// T k h e (P - 1) / P in each of dispatch and combine, forward and backward: 2 layers x 2 x 4,096
// tokens x 2 experts x 4,096 x 2 bytes x 7/8 = 234,881,024 bytes forward.
TEST_CASE("exchanges of experts send the closed form", "[plan]") {
  const plan::Plan plan = expert_parallel(8, 8);
  CHECK(exchanged(plan, Phase::forward) == Bytes(234'881'024));
  CHECK(exchanged(plan, Phase::backward) == Bytes(234'881'024));

  SECTION("over half of the ranks: (P - 1) / P of 4") {
    // 2 x 2 x 4096 x 2 x 4096 x 2 x 3/4
    CHECK(exchanged(expert_parallel(4, 8), Phase::forward) == Bytes(201'326'592));
  }
  SECTION("nothing where every rank has all experts") {
    CHECK(exchanged(expert_parallel(1, 8), Phase::forward) == Bytes(0));
  }
  SECTION("a capacity factor pads every buffer to it") {
    plan::Plan padded = plan;
    padded.expert_capacity = 1.25;  // 1,280 slots for 1,024 tokens
    CHECK(exchanged(padded, Phase::forward) == Bytes(234'881'024 / 4 * 5));
  }
  SECTION("recomputation sends the forward's again") {
    plan::Plan recomputed = plan;
    recomputed.recompute_layers = true;
    CHECK(exchanged(recomputed, Phase::recompute) == Bytes(234'881'024));
  }
  SECTION("over the ranks of a sequence too") {
    plan::Plan folded = ulysses(mixtral(), 4, 16384);
    folded.data_degree = 2;
    folded.expert_degree = 8;
    CHECK(exchanged(folded, Phase::forward) == Bytes(234'881'024));
  }
  SECTION("with tensor parallelism: an exchange of the own shard, a gather and a scatter") {
    plan::Plan tensor = megatron(mixtral(), 4, 16384);
    tensor.data_degree = 2;
    tensor.expert_degree = 2;
    // Slots of one rank: 4,096 tokens x 2 x 4,096 x 2 = 64 MiB. Exchanges 2 x 1/2 of that, gather
    // and scatter 2 x 3 times it: 2 layers x 7 x 64 MiB.
    CHECK(exchanged(tensor, Phase::forward) == Bytes(2 * 7 * 64 * kMiB));
  }
}

TEST_CASE("experts divide over their ranks, and the rest does not", "[plan]") {
  // A layer: 8 experts of 3 x 4,096 x 14,336 = 176,160,768; router 32,768; attention
  // 4,096 x (4,096 + 2 x 1,024 + 4,096) = 41,943,040; norms 8,192.
  constexpr std::int64_t kExpert = 176'160'768;
  constexpr std::int64_t kRest = 32'768 + 41'943'040 + 8'192;
  for (const std::int64_t degree : {1, 2, 8}) {
    const auto program = plan::lower(expert_parallel(degree, 8));
    CHECK(resident(program, program::Role::parameter) ==
          Bytes(2 * 2 * (8 / degree * kExpert + kRest)));
  }
  SECTION("ZeRO shards them over the ranks that hold the same experts") {
    plan::Plan plan = expert_parallel(2, 8);
    plan.zero_stage = 3;
    CHECK(resident(plan::lower(plan), program::Role::parameter) ==
          Bytes(2 * 2 * (4 * kExpert / 4 + kRest / 8)));
  }
  SECTION("gradients are summed over those ranks once a step") {
    // All-reduce in fp32 over 4 of 4 experts a rank, 2 layers: 2 x 3/4 of them.
    const auto program = plan::lower(expert_parallel(2, 8));
    const Bytes of_experts = sent_where(program, [](const ledger::ByteEntry& entry) {
      return entry.account.traffic == Traffic::gradients && entry.ranks == 4;
    });
    CHECK(of_experts == Bytes(2 * 4 * 4 * kExpert / 4 * 6));
  }
}

TEST_CASE("FLOPs count the experts of a token, whatever the slots", "[plan]") {
  // Forward and backward, per token and layer 6 x (attention 41,943,040 + router 32,768 + 2
  // experts) and attention 12 S a d / 2 causal.
  const double per_token = 6.0 * (41'943'040 + 32'768 + 2 * 176'160'768.0) + 6.0 * 4096 * 4096;
  for (const double factor : {0.0, 2.0}) {
    plan::Plan plan = expert_parallel(8, 8);
    plan.expert_capacity = factor;
    const ledger::FlopLedger flops = engine::read_flops(plan::lower(plan));
    CHECK(flops.model.value() == Approx(2 * 8 * 4096 * per_token).epsilon(1e-12));
  }
}

TEST_CASE("slots of an expert", "[plan]") {
  plan::Plan plan = expert_parallel(8, 8);
  CHECK(plan::expert_slots(plan) == 1024);  // 4,096 x 2 / 8
  plan.sequence = 4097;
  CHECK(plan::expert_slots(plan) == 1025);  // 1,024.25
  plan.expert_capacity = 1.5;
  CHECK(plan::expert_slots(plan) == 1537);  // 1,536.375
  plan.expert_capacity = 100;
  CHECK(plan::expert_slots(plan) == 4097);  // all tokens
}

TEST_CASE("rules of experts and latent attention", "[plan]") {
  const auto rules = [](const plan::Plan& plan) {
    Feasibility feasibility;
    plan::check_rules(plan, feasibility);
    std::vector<std::string> names;
    for (const Refusal& refusal : feasibility.refusals) {
      names.push_back(refusal.rule);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(rules(expert_parallel(8, 8)).empty());
  CHECK(rules(expert_parallel(3, 6)) == Names{"experts-divide"});
  CHECK(rules(expert_parallel(8, 4)) == Names{"expert-ranks"});
  plan::Plan plan = ulysses(mixtral(), 8, 16384);
  plan.expert_degree = 4;
  CHECK(rules(plan) == Names{"expert-group"});
  plan = megatron(mixtral(), 8, 16384, false);
  CHECK(rules(plan) == Names{"experts-sequence"});
  plan = megatron(mixtral(), 8, 16384);
  plan.model.experts->width = 12;
  CHECK(rules(plan) == Names{"tensor-expert-width"});
  plan.expert_tensor = false;
  CHECK(rules(plan).empty());
  plan = data_parallel(llama_8b(), 8, 4096, 0);
  plan.expert_degree = 2;
  CHECK(rules(plan) == Names{"expert-parallel-model"});
  plan = sequence_gather(llama_8b(), 8, 4096);
  plan.model.latent = config::LatentAttention{0, 4, 3, 2, 6};
  CHECK(rules(plan) == Names{"not-modelled"});
  plan = expert_parallel(8, 8);
  plan.ring_degree = 2;
  CHECK(rules(plan) == Names{"not-modelled"});
  plan = ulysses(llama_8b(), 8, 16384);
  plan.ring_degree = 2;
  CHECK(rules(plan).empty());
  plan.model.latent = config::LatentAttention{0, 4, 3, 2, 6};
  CHECK(rules(plan) == Names{"not-modelled"});
}

// DeepSeek-V3's attention: per token and head, queries and keys of 192, values of 128.
TEST_CASE("latent attention counts unequal head dimensions", "[plan]") {
  plan::ModelShape model = llama_8b(1);
  model.vocabulary = 0;
  model.hidden = 7168;
  model.heads = 128;
  model.kv_heads = 128;
  model.head_dim = 192;
  model.mlp_width = 18432;
  model.latent = config::LatentAttention{1536, 512, 128, 64, 128};
  const plan::Plan plan = ulysses(model, 8, 8192);
  const program::Program program = plan::lower(plan);
  // 7168 x 1536 + 1536 x 24576 + 7168 x 576 + 512 x 32768 + 16384 x 7168 = 187,105,280, norms apart
  const double matrices = 187'105'280.0 + 3.0 * 7168 * 18432;
  const double attention = 3 * 2.0 * 128 * (192 + 128) * 8192 / 2;
  CHECK(engine::read_flops(program).model.value() ==
        Approx(8192 * (6 * matrices + attention)).epsilon(1e-12));
  // Exchanges carry q and k of 192, v and o of 128: 8,192/8 tokens x 128 heads x 640 x 2 bytes x
  // 7/8.
  CHECK(sent(program, Traffic::activations, Component::attention, Phase::forward) ==
        Bytes(146'800'640));
}

}  // namespace
}  // namespace trireme
