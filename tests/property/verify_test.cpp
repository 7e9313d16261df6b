// Plans of every kind, executed with real numbers: results equal the dense reference, bytes and
// memory equal the ledgers to the byte.
#include "sim/study/verify.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "sim/plan/legality.h"
#include "sim/plan/megatron_shared_heads.h"
#include "sim/plan/step.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"

namespace trireme {
namespace {

using config::ExchangeKind;
using config::GradientReduce;
using config::LossKind;
using ledger::Quantity;
using plan::AttentionLowering;
using plan::MlpLowering;
using plan::Plan;

void check_equal(const ledger::PlanVerification& result) {
  CAPTURE(result.model, result.messages);
  CHECK(result.verdict == ledger::VerificationVerdict::equal);
  for (const ledger::WorstError& error : result.error) {
    CHECK(error.relative <= 1e-10);
  }
  CHECK(result.sent.executed == result.sent.ledger);
  CHECK(result.peak.executed == result.peak.ledger);
  CHECK(result.peak.executed > Bytes(0));
  CHECK(result.host_peak.executed == result.host_peak.ledger);
}

/// A random plan with sizes that execute in no time; every option stays.
Plan with_small_sizes(Plan plan) {
  plan::ModelShape& model = plan.model;
  const std::int64_t degree = plan.group_degree * plan.exchange_degree;
  const bool splits_heads = plan.attention != AttentionLowering::sequence_gather;
  const std::int64_t ratio = model.heads / model.kv_heads;
  model.layers = plan.pipeline_degree > 1 ? model.layers : std::min<std::int64_t>(model.layers, 3);
  if (!plan::shares_key_value_heads(plan)) {
    if (plan.exchanged_kv_heads() == model.kv_heads) {
      model.kv_heads = splits_heads ? degree : std::min<std::int64_t>(model.kv_heads, 2);
    }
    model.heads = ratio * model.kv_heads;
    model.head_dim = std::min<std::int64_t>(model.head_dim, 4);
  }
  if (model.rotary) {
    model.head_dim *= 1 + model.head_dim % 2;  // rotary embedding rotates pairs
  }
  if (model.latent) {
    model.head_dim = model.latent->nope_dim + model.latent->rope_dim;
  }
  if (model.experts) {
    model.experts->dense_layers = std::min(model.experts->dense_layers, model.layers - 1);
  }
  model.hidden = 3 + model.hidden % 11;
  const bool splits_features = plan.mlp == MlpLowering::megatron;
  model.mlp_width = (1 + model.mlp_width % 5) * (splits_features ? plan.group_degree : 1);
  const std::int64_t shards = test::sequence_parts(plan);
  const bool halves = plan.framework == config::Framework::megatron;  // S % (2 cp) = 0
  plan.sequence = shards * (halves ? 2 : 1 + plan.sequence / shards % 3);
  return plan;
}

void check_random_plans(int count, Plan (*draw)(std::uint64_t seed)) {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    const Plan plan = with_small_sizes(draw(seed));
    CAPTURE(seed, test::describe(plan));
    Feasibility feasibility;
    plan::check_rules(plan, feasibility);
    REQUIRE(feasibility.legal());
    study::VerifyOptions options;
    options.seed = seed;
    // Nodes of one group, the innermost, or one node of all ranks.
    const int innermost = plan.placement.empty() ? plan::kGroupAxis : plan.placement.front();
    const std::int64_t group = plan::mesh_of(plan).size(innermost);
    const std::int64_t node = seed % 2 == 0 ? group : plan.ranks();
    check_equal(study::verify_small_plan(plan, node, options, study::thread_ranks()));
  }
}

/// A model with every part: grouped queries, SwiGLU, RMSNorm, rotary embedding, a vocabulary.
Plan llama_like(std::int64_t degree, std::int64_t data) {
  Plan plan;
  plan.name = "llama-like";
  plan.group_degree = degree;
  plan.data_degree = data;
  plan.model.layers = 2;
  plan.model.hidden = 7;
  plan.model.kv_heads = std::max<std::int64_t>(2, degree);
  plan.model.heads = 2 * plan.model.kv_heads;
  plan.model.head_dim = 2;
  plan.model.mlp_width = 3 * degree;
  plan.model.vocabulary = 37;
  plan.sequence = 3 * degree;
  plan.micro_batch = 2;
  plan.micro_batches = 2;
  return plan;
}

/// Multi-head attention, GELU, LayerNorm, every bias, learned positions, tied embeddings.
Plan gpt_like(std::int64_t degree, std::int64_t data) {
  Plan plan = llama_like(degree, data);
  plan.name = "gpt-like";
  plan.model.heads = plan.model.kv_heads;
  plan.model.head_dim = 3;
  plan.model.mlp_kind = config::MlpKind::gelu;
  plan.model.norm = config::NormKind::layernorm;
  plan.model.rotary = false;
  plan.model.qkv_bias = true;
  plan.model.output_bias = true;
  plan.model.mlp_bias = true;
  plan.model.tied_embeddings = true;
  plan.model.learned_positions = 5;  // fewer than tokens: the table grows with the sequence
  plan.micro_batch = 1;
  return plan;
}

struct Composition {
  const char* name;
  AttentionLowering attention;
  MlpLowering mlp;
  bool sequence_sharded;
};

const std::vector<Composition> kCompositions = {
    {"megatron with sequence parallelism",
     AttentionLowering::megatron,
     MlpLowering::megatron,
     true},
    {"megatron without", AttentionLowering::megatron, MlpLowering::megatron, false},
    {"ulysses", AttentionLowering::ulysses, MlpLowering::replicated, true},
    {"hybrid", AttentionLowering::ulysses, MlpLowering::megatron, true},
    {"sequence gather", AttentionLowering::sequence_gather, MlpLowering::replicated, true},
    {"sequence gather, megatron mlp",
     AttentionLowering::sequence_gather,
     MlpLowering::megatron,
     true},
};

Plan composed(Plan plan, const Composition& parts) {
  plan.name += std::string(", ") + parts.name;
  plan.attention = parts.attention;
  plan.mlp = parts.mlp;
  plan.sequence_sharded = parts.sequence_sharded;
  return plan;
}

void verify(const Plan& plan) {
  CAPTURE(test::describe(plan));
  check_equal(study::verify_small_plan(
      plan, plan.group_degree, study::VerifyOptions{}, study::thread_ranks()));
}

/// Every composition of both models, with `change` applied.
void for_each_composition(std::int64_t degree,
                          std::int64_t data,
                          const std::function<void(Plan&)>& change) {
  for (const Composition& parts : kCompositions) {
    for (Plan plan : {llama_like(degree, data), gpt_like(degree, data)}) {
      plan = composed(std::move(plan), parts);
      change(plan);
      verify(plan);
    }
  }
}

}  // namespace

TEST_CASE("random plans compute what the dense reference computes", "[property][verify]") {
  check_random_plans(30, test::random_plan);
}

TEST_CASE("random pipelines compute what the dense reference computes", "[property][verify]") {
  check_random_plans(15, test::random_pipeline_plan);
}

TEST_CASE("many random plans compute what the dense reference computes",
          "[property][verify][slow]") {
  std::cout << "seed " << Catch::getSeed() << '\n';
  check_random_plans(200, test::random_plan);
  check_random_plans(100, test::random_pipeline_plan);
}

TEST_CASE("verified: every composition on 1, 2, 4 and 8 ranks", "[property][verify]") {
  const std::int64_t degree = GENERATE(1, 2, 4, 8);
  for_each_composition(degree, 1, [&](Plan& plan) { plan.causal = degree != 4; });
}

TEST_CASE("verified: every ZeRO stage, with two data-parallel replicas", "[property][verify]") {
  const std::int64_t stage = GENERATE(0, 1, 2, 3);
  const bool rows = GENERATE(false, true);
  for_each_composition(2, 2, [&](Plan& plan) {
    plan.zero_stage = stage;
    plan.shard_rows = rows;
  });
}

TEST_CASE("verified: options of ZeRO", "[property][verify]") {
  SECTION("gradients all-reduced, then a shard taken") {
    for (const std::int64_t stage : {1, 2}) {
      for_each_composition(2, 2, [&](Plan& plan) {
        plan.zero_stage = stage;
        plan.gradient_reduce = GradientReduce::all_reduce;
        plan.gradient_type = ElementType::bf16;
      });
    }
  }
  SECTION("parameters kept from forward to backward") {
    for_each_composition(4, 1, [](Plan& plan) {
      plan.zero_stage = 3;
      plan.reshard_after_forward = false;
    });
  }
  SECTION("attention's parameters alone") {
    for_each_composition(2, 2, [](Plan& plan) {
      plan.zero_stage = 3;
      plan.zero_scope = config::ZeroScope::attention;
    });
  }
}

TEST_CASE("verified: ZeRO over a part of the data-parallel ranks", "[property][verify]") {
  const std::int64_t stage = GENERATE(1, 2, 3);
  const bool rows = GENERATE(false, true);
  for_each_composition(2, 4, [&](Plan& plan) {
    plan.zero_stage = stage;
    plan.zero_parts = 2;
    plan.shard_rows = rows;
    plan.sum_replicas_early = rows;
    plan.gradient_reduce =
        plan.model.rotary ? GradientReduce::reduce_scatter : GradientReduce::all_reduce;
    plan.overlap_gradients = rows;
  });
}

TEST_CASE("verified: shards that a part keeps for its backward passes", "[property][verify]") {
  const bool recompute = GENERATE(false, true);
  for_each_composition(2, 4, [&](Plan& plan) {
    plan.zero_stage = 3;
    plan.zero_parts = 2;
    plan.zero_replicated = false;
    plan.recompute_layers = recompute;
    plan.overlap_parameters = plan.model.rotary;
    plan.shard_rows = recompute;
  });
}

TEST_CASE("verified: recomputed layers", "[property][verify]") {
  for_each_composition(2, 2, [](Plan& plan) {
    plan.recompute_layers = true;
    plan.zero_stage = 3;
    plan.reshard_after_forward = plan.attention != AttentionLowering::ulysses;
  });
}

TEST_CASE("verified: some layers recomputed", "[property][verify]") {
  const auto choice = GENERATE(
      config::LayerChoice::every, config::LayerChoice::block, config::LayerChoice::uniform);
  const std::int64_t number = GENERATE(2, 3, 7);
  const bool ahead = number != 3;
  for_each_composition(2, 2, [&](Plan& plan) {
    plan.model.layers = 5;
    plan.recompute_layers = true;
    plan.recompute_choice = choice;
    plan.recompute_number = number;
    plan.zero_stage = plan.model.rotary ? 3 : 2;
    plan.gather_after_recompute = number == 2;
    plan.overlap_parameters = ahead;
    plan.overlap_gradients = ahead;
    plan.micro_batches = 2;
  });
}

TEST_CASE("verified: parts of layers recomputed", "[property][verify]") {
  const config::RecomputeModules modules = GENERATE(values<config::RecomputeModules>(
      {{.core_attention = true},
       {.layernorm = true},
       {.mlp = true},
       {.mlp_activation = true},
       {.core_attention = true, .layernorm = true, .mlp_activation = true},
       {.core_attention = true, .layernorm = true, .mlp = true, .mlp_activation = true}}));
  for_each_composition(2, 2, [&](Plan& plan) {
    plan.recompute_modules = modules;
    plan.zero_stage = 3;
    plan.exchange = plan.model.rotary ? ExchangeKind::packed : ExchangeKind::separate;
  });
}

TEST_CASE("verified: inputs of units that run again, on the host", "[property][verify]") {
  const bool overlap = GENERATE(false, true);
  const auto choice = GENERATE(
      config::LayerChoice::every, config::LayerChoice::block, config::LayerChoice::uniform);
  const std::int64_t number = GENERATE(1, 2);
  for_each_composition(2, 1, [&](Plan& plan) {
    plan.model.layers = 5;
    plan.micro_batch = 1;
    plan.recompute_layers = true;
    plan.recompute_choice = choice;
    plan.recompute_number = number;
    plan.offload_activations = true;
    plan.overlap_offload = overlap;
  });
}

TEST_CASE("verified: optimizer and parameters on the host", "[property][verify]") {
  const std::int64_t stage = GENERATE(0, 1, 2, 3);
  const std::int64_t micro_batches = GENERATE(1, 3);
  const bool overlap = GENERATE(false, true);
  for_each_composition(2, 2, [&](Plan& plan) {
    plan.zero_stage = stage;
    plan.micro_batches = micro_batches;
    plan.micro_batch = 1;
    plan.offload_optimizer = true;
    plan.offload_parameters = stage == 3;
    plan.overlap_offload = overlap;
    plan.overlap_parameters = overlap;
    plan.overlap_gradients = overlap;
  });
}

TEST_CASE("verified: pipelines and replicas with tensors on the host", "[property][verify]") {
  const std::int64_t virtual_stages = GENERATE(1, 2);
  for_each_composition(2, 2, [&](Plan& plan) {
    plan.pipeline_degree = virtual_stages == 1 ? 2 : 3;
    plan.virtual_stages = virtual_stages;
    plan.schedule = virtual_stages == 1 ? plan::PipelineSchedule::one_forward_one_backward
                                        : plan::PipelineSchedule::interleaved;
    plan.model.layers = 6;
    plan.micro_batch = 1;
    plan.micro_batches = 3;
    plan.zero_stage = 3;
    plan.zero_parts = 2;
    plan.recompute_layers = true;
    plan.offload_activations = true;
    plan.overlap_offload = true;
    plan.offload_optimizer = true;
    plan.offload_parameters = true;
  });
}

TEST_CASE("verified: tensor-parallel ranks share key and value heads", "[property][verify]") {
  const std::int64_t degree = GENERATE(2, 4, 8);
  for (const std::int64_t kv_heads : {std::int64_t{1}, degree / 2}) {
    for (const bool recompute : {false, true}) {
      for (Plan plan : {llama_like(degree, 1), gpt_like(degree, 1)}) {
        plan.attention = AttentionLowering::megatron;
        plan.mlp = MlpLowering::megatron;
        plan.model.kv_heads = kv_heads;
        plan.model.heads = 2 * degree;
        plan.model.head_dim = 4;
        plan.recompute_layers = recompute;
        plan.sequence_sharded = degree != 4;
        verify(plan);
      }
    }
  }
}

TEST_CASE("verified: every loss", "[property][verify]") {
  const LossKind loss = GENERATE(LossKind::eager, LossKind::fused, LossKind::vocabulary_parallel);
  for_each_composition(2, 2, [&](Plan& plan) {
    const bool possible = loss != LossKind::vocabulary_parallel || plan.vocabulary_parallel();
    plan.loss = possible ? loss : LossKind::eager;
    plan.model.vocabulary = 128 + 37;  // the second rank has rows and padding
    plan.sequence = 10;                // of which a chunk of the fused loss is not a whole part
  });
}

TEST_CASE("verified: tiles of the MLP, and chunks of the loss", "[property][verify]") {
  const std::int64_t parts = GENERATE(1, 2, 3, 4);
  const bool recompute = GENERATE(false, true);
  const auto type = parts % 2 == 0 ? ElementType::bf16 : ElementType::fp32;
  for_each_composition(2, 2, [&](Plan& plan) {
    if (plan.mlp == MlpLowering::replicated) {
      plan.mlp = MlpLowering::tiled;
      plan.mlp_tiles = parts;
      plan.loss = LossKind::chunked;
      plan.loss_chunks = parts;
    } else {
      plan.loss = LossKind::eager;
    }
    plan.logits_type = type;
    plan.recompute_layers = recompute;
    plan.recompute_modules.layernorm = !recompute;
    plan.sequence = 10;  // five tokens on a rank: two, two and one
    plan.zero_stage = parts - 1;
  });
}

TEST_CASE("verified: a split vocabulary that leaves ranks with padding alone",
          "[property][verify]") {
  const LossKind loss = GENERATE(LossKind::eager, LossKind::fused, LossKind::vocabulary_parallel);
  Plan plan = composed(llama_like(4, 1), kCompositions[0]);
  plan.loss = loss;  // 37 rows of 512: ranks 1 to 3 have none
  verify(plan);
}

TEST_CASE("verified: stages of a pipeline", "[property][verify]") {
  const std::int64_t stages = GENERATE(2, 4);
  const std::int64_t micro_batches = GENERATE(2, 6);
  for (Plan plan : {llama_like(2, 1), gpt_like(2, 1)}) {
    plan = composed(std::move(plan), kCompositions[stages == 2 ? 0 : 2]);
    plan.pipeline_degree = stages;
    plan.schedule = plan::PipelineSchedule::one_forward_one_backward;
    plan.chunk_layers.assign(static_cast<std::size_t>(stages), 1);
    plan.chunk_layers[1] = 2;
    plan.model.layers = stages + 1;
    plan.micro_batches = micro_batches;
    plan.micro_batch = 1;
    verify(plan);
  }
}

TEST_CASE("verified: interleaved stages of a pipeline", "[property][verify]") {
  const std::int64_t groups = GENERATE(1, 3);
  for (Plan plan : {llama_like(1, 1), gpt_like(1, 2)}) {
    plan.pipeline_degree = 3;
    plan.virtual_stages = 2;
    plan.schedule = plan::PipelineSchedule::interleaved;
    plan.model.layers = 6;
    plan.micro_batches = 3 * groups;
    plan.micro_batch = 1;
    plan.recompute_layers = groups == 3;
    verify(plan);
  }
}

TEST_CASE("verified: exchanges apart, and without rotary embedding", "[property][verify]") {
  for (const ExchangeKind exchange : {ExchangeKind::packed, ExchangeKind::separate}) {
    for_each_composition(4, 1, [&](Plan& plan) {
      plan.exchange = exchange;
      plan.model.rotary = !plan.model.rotary && plan.model.head_dim % 2 == 0;
    });
  }
}

TEST_CASE("verified: fewer key/value heads than ranks, repeated", "[property][verify]") {
  for (const config::KvRepeat repeat : {config::KvRepeat::minimal, config::KvRepeat::all_heads}) {
    for (const ExchangeKind exchange : {ExchangeKind::packed, ExchangeKind::separate}) {
      for (const std::int64_t kv_heads : {1, 2, 8}) {
        Plan plan = llama_like(4, 2);
        plan.model.kv_heads = kv_heads;
        plan.model.heads = 8;
        plan.exchange = exchange;
        plan.kv_repeat = repeat;
        plan.recompute_layers = kv_heads == 2;
        verify(plan);
      }
    }
  }
}

TEST_CASE("verified: without a vocabulary, and without clipping", "[property][verify]") {
  for_each_composition(4, 2, [](Plan& plan) {
    plan.model.vocabulary = 0;
    plan.model.tied_embeddings = false;
    plan.model.learned_positions = 0;
    plan.clip_gradients = false;
  });
}

TEST_CASE("verified: every attention kernel's workspaces", "[property][verify]") {
  for (const config::AttentionKernel kernel : {config::AttentionKernel::flash2,
                                               config::AttentionKernel::flash3,
                                               config::AttentionKernel::cudnn}) {
    for_each_composition(2, 1, [&](Plan& plan) { plan.kernel = kernel; });
  }
}

/// Two plain layers' worth of every part that experts have, of `degree` neighbours.
void give_experts(Plan& plan, std::int64_t degree, std::int64_t dense_layers) {
  config::Experts experts;
  experts.count = 2 * degree + (degree == 1 ? 3 : 0);
  experts.per_token = 2;
  experts.width = 2 * plan.group_degree;
  experts.shared = dense_layers;
  experts.dense_layers = dense_layers;
  experts.score = dense_layers > 0 ? RouterScore::sigmoid : RouterScore::softmax;
  plan.model.experts = experts;
  plan.model.layers = 3;
  plan.expert_degree = degree;
}

void give_latent(Plan& plan, bool narrow_queries) {
  plan.model.latent = config::LatentAttention{.query_rank = narrow_queries ? 5 : 0,
                                              .kv_rank = 4,
                                              .nope_dim = 3,
                                              .rope_dim = 2,
                                              .value_dim = 4};
  plan.model.kv_heads = plan.model.heads;
  plan.model.head_dim = 5;
  plan.model.qkv_bias = false;
  plan.model.output_bias = false;
}

TEST_CASE("verified: latent attention", "[property][verify]") {
  for (const Composition& parts : kCompositions) {
    if (parts.attention == AttentionLowering::sequence_gather) {
      continue;
    }
    for (const bool narrow : {false, true}) {
      Plan plan = composed(llama_like(2, 2), parts);
      give_latent(plan, narrow);
      plan.model.norm = narrow ? config::NormKind::layernorm : config::NormKind::rmsnorm;
      plan.zero_stage = narrow ? 3 : 0;
      plan.recompute_layers = narrow;
      verify(plan);
    }
  }
}

TEST_CASE("verified: experts over no, some and all ranks", "[property][verify]") {
  for (const Composition& parts : kCompositions) {
    const bool split = parts.mlp == MlpLowering::megatron;
    if (split && !parts.sequence_sharded) {
      continue;
    }
    for (const std::int64_t dense : {0, 1}) {
      for (const std::int64_t over_data : {0, 1, 2}) {  // 0: on every rank
        Plan plan = composed(llama_like(2, 2), parts);
        plan.expert_tensor = dense == 0;
        const std::int64_t group = split && plan.expert_tensor ? 1 : 2;
        give_experts(plan, over_data == 0 ? 1 : group * over_data, dense);
        plan.expert_capacity = over_data == 1 ? 1.0 : 0;  // some tokens are dropped
        plan.zero_stage = dense == 0 ? 3 : 1;
        plan.overlap_parameters = over_data == 2;
        plan.overlap_gradients = over_data == 2;
        verify(plan);
      }
    }
  }
}

TEST_CASE("verified: stages with dense layers alone, with experts alone and with both",
          "[property][verify]") {
  const bool clip = GENERATE(false, true);
  for (const Composition& parts : kCompositions) {
    if (parts.mlp == MlpLowering::megatron && !parts.sequence_sharded) {
      continue;
    }
    Plan plan = composed(llama_like(2, 2), parts);
    plan.expert_tensor = parts.attention == AttentionLowering::megatron;
    const bool whole = parts.mlp != MlpLowering::megatron || !plan.expert_tensor;
    give_experts(plan, whole ? 4 : 2, 3);
    plan.model.experts->shared = 0;
    plan.model.layers = 5;
    plan.chunk_layers = {2, 2, 1};
    plan.pipeline_degree = 3;
    plan.schedule = plan::PipelineSchedule::one_forward_one_backward;
    plan.clip_gradients = clip;
    plan.zero_stage = clip ? 0 : 2;
    verify(plan);
  }
}

/// By part of a pipeline, whether dense layers are all that it has (2), some (1) or none (0).
std::vector<int> dense_parts(const Plan& plan) {
  std::vector<int> parts;
  std::int64_t left = plan.model.experts->dense_layers;
  for (std::int64_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    const std::int64_t layers = plan.layers_of_chunk(chunk);
    parts.push_back(left >= layers ? 2 : left > 0 ? 1 : 0);
    left -= layers;
  }
  return parts;
}

TEST_CASE("shrunk pipelines keep which stages have experts", "[property][verify]") {
  int mixed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Plan plan = test::random_pipeline_plan(std::uint64_t{1000003} * Catch::getSeed() + seed);
    if (!plan.model.experts) {
      continue;
    }
    CAPTURE(test::describe(plan), plan.model.experts->dense_layers, plan.chunk_layers);
    const Plan small = study::shrink(plan, study::ModelSize::least, plan.group_degree);
    CHECK(dense_parts(small) == dense_parts(plan));
    const std::vector<int> parts = dense_parts(plan);
    mixed += parts.front() == 2 && parts.back() == 0 ? 1 : 0;
  }
  CHECK(mixed > 0);
}

TEST_CASE("verified: a step is the same however its sequences are split", "[property][verify]") {
  // Four sequences as micro batches, as sequences of a micro batch and as data-parallel replicas,
  // each over one, two and four sequence ranks: the reference gets the same numbers, and so does
  // every rank. A mean taken over the ranks of one of them alone would differ.
  struct Split {
    std::int64_t micro_batches;
    std::int64_t micro_batch;
    std::int64_t data;
  };

  std::vector<std::int64_t> ids;  // of the first split
  for (const Split split : {Split{4, 1, 1}, Split{1, 4, 1}, Split{1, 1, 4}, Split{2, 1, 2}}) {
    for (const std::int64_t degree : {1, 2, 4}) {
      Plan plan = llama_like(degree, split.data);
      plan.model.kv_heads = 4;
      plan.model.heads = 8;
      plan.model.mlp_width = 4;
      plan.sequence = 4;
      plan.micro_batches = split.micro_batches;
      plan.micro_batch = split.micro_batch;
      CAPTURE(split.micro_batches, split.micro_batch, split.data, degree);
      const engine::DenseBatch batch = study::SmallNumbers(plan, 1).batch(0);
      ids = ids.empty() ? batch.ids : ids;
      CHECK(batch.sequences == 4);
      CHECK(batch.ids == ids);
      verify(plan);
    }
  }
}

TEST_CASE("shrunk models keep what a model is", "[property][verify]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = test::random_plan(std::uint64_t{1000003} * Catch::getSeed() + seed);
    CAPTURE(test::describe(plan));
    Feasibility feasibility;
    plan::check_rules(plan, feasibility);
    if (!feasibility.legal()) {
      continue;
    }
    const Plan small = study::shrink(plan, study::ModelSize::least, plan.group_degree);
    CHECK(small.model.heads * plan.model.kv_heads == plan.model.heads * small.model.kv_heads);
    CHECK(small.group_degree == plan.group_degree);
    CHECK((plan.model.experts || small.data_degree == plan.data_degree));
    CHECK(plan.data_degree % small.data_degree == 0);
    CHECK(small.model.hidden % 2 == 1);
    CHECK(small.model.hidden != small.model.heads * small.model.head_dim);
    CHECK((small.model.vocabulary == 0) == (plan.model.vocabulary == 0));
    CHECK(small.model.tied_embeddings == plan.model.tied_embeddings);
    CHECK(small.zero_stage == plan.zero_stage);
    CHECK(small.ring_degree == plan.ring_degree);
    CHECK(small.exchange_degree == plan.exchange_degree);
    CHECK(small.sequence % small.sequence_multiple() == 0);
  }
}

}  // namespace trireme
