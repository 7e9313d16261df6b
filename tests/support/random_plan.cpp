#include "tests/support/random_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "sim/config/recompute.h"
#include "sim/config/words.h"

namespace trireme::test {

namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  /// One of lo, ..., hi. Not a standard distribution: those differ between libraries.
  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(hi - lo + 1));
  }

  bool coin() { return between(0, 1) == 1; }

  template <class Values>
  auto one_of(const Values& values) {
    return values[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(values.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      divisors.push_back(divisor);
    }
  }
  return divisors;
}

/// A ring outside the group, and beside tensor parallelism an exchange; few ranks in all.
void draw_context(Draw& draw, plan::Plan& plan) {
  using config::RingImplementation;
  using config::RingOrder;
  plan.group_degree = std::min<std::int64_t>(plan.group_degree, 4);
  plan.data_degree = std::min<std::int64_t>(plan.data_degree, 2);
  plan.ring_degree = draw.between(1, 4);
  if (plan.attention == plan::AttentionLowering::megatron) {
    plan.exchange_degree = draw.between(1, 2);
  }
  plan.causal = draw.coin();
  if (plan.ring_degree == 1) {
    return;
  }
  plan.ring = draw.one_of(std::array{RingImplementation::transformer_engine,
                                     RingImplementation::ring_flash_attention,
                                     RingImplementation::pytorch,
                                     RingImplementation::all_gather});
  plan.order =
      plan.ring == RingImplementation::ring_flash_attention
          ? draw.one_of(std::array{RingOrder::contiguous, RingOrder::zigzag, RingOrder::striped})
          : draw.one_of(std::array{RingOrder::contiguous, RingOrder::zigzag});
  if (plan.ring == RingImplementation::transformer_engine && plan.causal) {
    plan.order = RingOrder::zigzag;
  }
}

void draw_composition(Draw& draw, plan::Plan& plan) {
  plan.group_degree = draw.one_of(std::array<std::int64_t, 4>{1, 2, 4, 8});
  plan.data_degree = draw.between(1, 3);
  plan.attention = draw.one_of(std::array{plan::AttentionLowering::megatron,
                                          plan::AttentionLowering::ulysses,
                                          plan::AttentionLowering::sequence_gather});
  const bool tensor = plan.attention == plan::AttentionLowering::megatron;
  plan.mlp = tensor || draw.coin() ? plan::MlpLowering::megatron : plan::MlpLowering::replicated;
  plan.sequence_sharded = !tensor || draw.coin();
  plan.exchange = draw.coin() ? config::ExchangeKind::packed : config::ExchangeKind::separate;
  if (plan.attention != plan::AttentionLowering::sequence_gather && draw.coin()) {
    draw_context(draw, plan);
  }
}

/// Sizes that the composition's rules allow.
void draw_sizes(Draw& draw, plan::Plan& plan) {
  plan::ModelShape& model = plan.model;
  const std::int64_t degree = plan.group_degree * plan.exchange_degree;
  const bool splits_heads = plan.attention != plan::AttentionLowering::sequence_gather;
  model.layers = draw.between(1, 5);
  model.kv_heads = draw.between(1, 3) * (splits_heads ? degree : 1);
  model.heads = model.kv_heads * draw.between(1, 3);
  if (plan.attention == plan::AttentionLowering::ulysses && draw.between(0, 2) == 0) {
    plan.kv_repeat = draw.coin() ? config::KvRepeat::all_heads : config::KvRepeat::minimal;
    model.heads = degree * draw.between(1, 3);  // of which a head of keys serves several ranks
    model.kv_heads = degree / draw.one_of(divisors_of(degree));
  }
  model.head_dim = draw.between(1, 6);
  if (plan.attention == plan::AttentionLowering::megatron && plan.exchange_degree == 1 &&
      degree > 1 && draw.coin()) {
    // Fewer key and value heads than ranks, which divide the rows of the projection.
    model.kv_heads = degree / draw.one_of(std::array<std::int64_t, 2>{2, degree});
    model.heads = degree * draw.between(1, 3);
    const std::int64_t rows = (model.heads + 2 * model.kv_heads) * model.head_dim;
    model.head_dim *= degree / std::gcd(rows, degree);
  }
  model.hidden = draw.coin() ? model.heads * model.head_dim : draw.between(3, 40);
  model.mlp_width =
      draw.between(1, 20) * (plan.mlp == plan::MlpLowering::megatron ? plan.group_degree : 1);
  plan.sequence = draw.between(1, 12) * sequence_parts(plan);
  plan.micro_batch = draw.between(1, 3);
  plan.micro_batches = draw.between(1, 3);
  plan.causal = plan.ring_degree > 1 ? plan.causal : draw.coin();
}

void draw_model(Draw& draw, plan::ModelShape& model) {
  model.mlp_kind = draw.coin() ? config::MlpKind::gelu : config::MlpKind::swiglu;
  model.norm = draw.coin() ? config::NormKind::layernorm : config::NormKind::rmsnorm;
  model.rotary = draw.coin();
  model.qkv_bias = draw.coin();
  model.output_bias = model.qkv_bias && draw.coin();
  model.mlp_bias = draw.coin();
  if (draw.between(0, 3) > 0) {
    model.vocabulary = draw.between(1, 300);
    model.tied_embeddings = draw.coin();
    model.learned_positions = draw.coin() ? draw.between(1, 50) : 0;
  }
}

void draw_recompute(Draw& draw, plan::Plan& plan) {
  plan.recompute_layers = draw.coin();
  if (plan.recompute_layers) {
    plan.recompute_choice = draw.one_of(std::array{
        config::LayerChoice::every, config::LayerChoice::block, config::LayerChoice::uniform});
    plan.recompute_number = draw.between(1, 3);
  } else if (draw.coin()) {
    plan.recompute_modules = {draw.coin(), draw.coin(), draw.coin(), draw.coin()};
  }
}

void draw_options(Draw& draw, plan::Plan& plan) {
  plan.zero_stage = draw.between(0, 3);
  plan.zero_scope =
      plan.zero_stage == 3 && draw.coin() ? config::ZeroScope::attention : config::ZeroScope::all;
  plan.gradient_reduce =
      draw.coin() ? config::GradientReduce::reduce_scatter : config::GradientReduce::all_reduce;
  plan.reshard_after_forward = draw.coin();
  plan.gradient_type =
      draw.one_of(std::array{ElementType::fp32, ElementType::bf16, ElementType::fp16});
  plan.shard_rows = draw.coin();
  plan.gather_after_recompute = draw.coin();
  if (plan.attention == plan::AttentionLowering::megatron && draw.coin()) {
    plan.framework = config::Framework::megatron;
  }
  draw_recompute(draw, plan);
  const auto losses = std::array{
      config::LossKind::eager, config::LossKind::fused, config::LossKind::vocabulary_parallel};
  plan.loss = plan.vocabulary_parallel() ? draw.one_of(losses) : losses[draw.coin() ? 1 : 0];
  if (!plan.vocabulary_parallel() && draw.coin()) {
    plan.loss = config::LossKind::chunked;
    plan.loss_chunks = draw.between(1, 4);
  }
  plan.logits_type = draw.coin() ? ElementType::fp32 : ElementType::bf16;
  if (plan.mlp == plan::MlpLowering::replicated && draw.coin()) {
    plan.mlp = plan::MlpLowering::tiled;
    plan.mlp_tiles = draw.between(1, 4);
  }
  plan.kernel = draw.one_of(std::array{config::AttentionKernel::flash2,
                                       config::AttentionKernel::flash3,
                                       config::AttentionKernel::cudnn});
  plan.clip_gradients = draw.coin();
}

void draw_buffers(Draw& draw, plan::Plan& plan) {
  plan.transformer_engine = draw.coin();
  plan.library_workspaces = Bytes(draw.coin() ? draw.between(1, 1000) : 0);
  if (draw.coin()) {
    plan.reduce_bucket = {.elements = draw.between(1, 1000),
                          .type = draw.coin() ? ElementType::fp32 : ElementType::bf16,
                          .buffers = draw.between(1, 2),
                          .sorted = draw.coin()};
  }
}

/// Recipes of frameworks, and what optimizers hold.
void draw_recipe(Draw& draw, plan::Plan& plan) {
  const bool plain = !plan.model.latent && !plan.model.experts &&
                     plan.overlap_tensor == config::TensorParallelOverlap::none;
  plan::Modules& modules = plan.modules;
  modules.activation_in_two = draw.coin();
  modules.copies_key_values = plain && plan.ring_degree == 1 && draw.coin();
  modules.norms_in_parts = draw.coin();
  modules.gathers_into_buffers = plain && draw.coin();
  modules.softmax_beside_logits = draw.coin();
  modules.gradients_of_micro_batch = !plan.overlap_gradients && draw.coin();
  modules.reduction_buckets = draw.coin();
  const bool can_keep = plain && plan.sequence_sharded && !plan.recompute_modules.layernorm;
  plan.gathers_again = !can_keep || draw.coin();
  plan.persistent_elements = draw.coin() ? draw.between(1, 200) : 0;
  plan.sub_group_elements = draw.coin() ? draw.between(1, 1000) : 0;
  plan.states.main_weights = draw.coin();
  plan.states.moments =
      draw.one_of(std::array{ElementType::fp32, ElementType::bf16, ElementType::int8});
}

/// Drawn last, so that a seed's plan is the same with overlap and without.
void draw_overlap(Draw& draw, plan::Plan& plan) {
  using config::TensorParallelOverlap;
  plan.overlap_parameters = draw.coin();
  plan.overlap_gradients = draw.coin();
  if (plan.mlp == plan::MlpLowering::megatron && plan.sequence_sharded) {
    plan.overlap_tensor = draw.one_of(std::array{TensorParallelOverlap::none,
                                                 TensorParallelOverlap::bulk,
                                                 TensorParallelOverlap::ring_exchange});
  }
}

/// Stages of random lengths, and micro batches that fill some pipelines and not others.
void draw_pipeline(Draw& draw, plan::Plan& plan) {
  const bool alone = plan.exchange_degree * plan.ring_degree == 1;
  plan.pipeline_degree = alone ? draw.between(2, 4) : 2;
  plan.data_degree = alone ? plan.data_degree : 1;  // few ranks in all
  const bool interleaved = plan.pipeline_degree > 2 && draw.coin();
  plan.virtual_stages = interleaved ? draw.between(2, 3) : 1;
  plan.schedule = interleaved ? plan::PipelineSchedule::interleaved
                              : plan::PipelineSchedule::one_forward_one_backward;
  plan.micro_batches = interleaved ? plan.pipeline_degree * draw.between(1, 4) : draw.between(1, 6);
  plan.model.layers = 0;
  for (std::int64_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    plan.chunk_layers.push_back(draw.between(1, 2));
    plan.model.layers += plan.chunk_layers.back();
  }
  if (plan.model.experts) {
    plan.model.experts->dense_layers = draw.between(0, plan.model.layers - 1);
  }
  plan.placement = draw.one_of(std::array<std::vector<int>, 4>{
      {{}, {5, 0, 1, 2, 3, 4}, {0, 5, 2, 1, 4, 3}, {3, 5, 4, 2, 0, 1}}});
  plan.reshard_after_forward = true;  // kept parameters are not modelled beside a pipeline
}

/// Ranks beside the group that hold other tokens of the same sequences.
bool splits_context(const plan::Plan& plan) {
  return plan.exchange_degree > 1 || plan.ring_degree > 1;
}

/// Experts in some layers of one model in three, spread over some of the ranks.
void draw_experts(Draw& draw, plan::Plan& plan) {
  const bool split = plan.mlp == plan::MlpLowering::megatron;
  if (draw.between(0, 2) > 0 || (split && !plan.sequence_sharded) ||
      plan.mlp == plan::MlpLowering::tiled || splits_context(plan)) {
    return;
  }
  plan.recompute_modules = {plan.recompute_modules.core_attention, false, false, false};
  const std::int64_t group = plan.group_degree;
  plan.expert_tensor = draw.coin();
  const bool features = split && plan.expert_tensor;
  const std::int64_t whole = features ? plan.data_degree : group * plan.data_degree;
  plan.expert_degree =
      draw.one_of(std::array<std::int64_t, 3>{1, features ? plan.data_degree : group, whole});
  config::Experts experts;
  experts.count = plan.expert_degree * draw.between(1, 3);
  experts.per_token = draw.between(1, std::min<std::int64_t>(experts.count, 3));
  experts.width = draw.between(1, 5) * (split ? group : 1);
  experts.shared = draw.between(0, 2);
  experts.dense_layers = draw.between(0, plan.model.layers - 1);
  experts.score = draw.coin() ? RouterScore::softmax : RouterScore::sigmoid;
  experts.normalised = draw.coin();
  plan.model.experts = experts;
  plan.expert_capacity = draw.coin() ? 0 : 0.5 * static_cast<double>(draw.between(1, 4));
}

/// ZeRO over a part of the data-parallel ranks.
void draw_zero_parts(Draw& draw, plan::Plan& plan) {
  if (plan.zero_stage == 0 || plan.model.experts || draw.coin()) {
    return;
  }
  if (!splits_context(plan) && plan.data_degree == 2 && draw.coin()) {
    plan.data_degree = 4;
  }
  plan.zero_parts = draw.one_of(divisors_of(plan.data_degree));
  plan.zero_replicated = plan.zero_stage < 3 || draw.coin();
  plan.sum_replicas_early = draw.coin();
}

/// Latent attention in one model in four.
void draw_latent(Draw& draw, plan::Plan& plan) {
  if (draw.between(0, 3) > 0 || plan.attention == plan::AttentionLowering::sequence_gather ||
      splits_context(plan)) {
    return;
  }
  plan.recompute_modules.core_attention = false;
  plan.recompute_modules.layernorm = false;
  plan::ModelShape& model = plan.model;
  model.latent = config::LatentAttention{.query_rank = draw.coin() ? 0 : draw.between(1, 7),
                                         .kv_rank = draw.between(1, 7),
                                         .nope_dim = draw.between(1, 4),
                                         .rope_dim = 2 * draw.between(1, 2),
                                         .value_dim = draw.between(1, 6)};
  model.kv_heads = model.heads;
  model.head_dim = model.latent->nope_dim + model.latent->rope_dim;
  model.qkv_bias = false;
  model.output_bias = false;
}

/// Drawn behind everything else, so that a seed's plan is the same beside it.
void draw_offload(Draw& draw, plan::Plan& plan) {
  plan.offload_activations = plan.recompute_layers && draw.coin();
  plan.offload_optimizer = draw.between(0, 2) == 0 && plan.states.main_weights;
  const bool kept_shards = plan.zero_parts > 1 && !plan.zero_replicated;
  plan.offload_parameters =
      plan.offload_optimizer && plan.zero_stage == 3 && !kept_shards && draw.coin();
  plan.overlap_offload = draw.coin();
}

}  // namespace

plan::Plan random_pipeline_plan(std::uint64_t seed) {
  plan::Plan plan = random_plan(seed);
  Draw draw(~seed);
  draw_pipeline(draw, plan);
  plan.modules.gradients_of_micro_batch =
      plan.modules.gradients_of_micro_batch && plan.virtual_stages == 1;
  plan.zero_parts = std::gcd(plan.zero_parts, plan.data_degree);
  return plan;
}

plan::Plan random_plan(std::uint64_t seed) {
  Draw draw(seed);
  plan::Plan plan;
  plan.name = fmt::format("random {}", seed);
  draw_composition(draw, plan);
  draw_sizes(draw, plan);
  draw_model(draw, plan.model);
  draw_options(draw, plan);
  draw_overlap(draw, plan);
  draw_experts(draw, plan);
  draw_latent(draw, plan);
  draw_zero_parts(draw, plan);
  draw_buffers(draw, plan);
  draw_recipe(draw, plan);
  draw_offload(draw, plan);
  return plan;
}

plan::Plan plain(plan::Plan plan) {
  plan.model.experts.reset();
  plan.model.latent.reset();
  plan.expert_degree = 1;
  plan.expert_capacity = 0;
  return plan;
}

plan::Plan without_overlap(plan::Plan plan) {
  plan.overlap_parameters = false;
  plan.overlap_gradients = false;
  plan.overlap_offload = false;
  plan.overlap_tensor = config::TensorParallelOverlap::none;
  return plan;
}

namespace {

std::string recompute_in_words(const plan::Plan& plan) {
  config::RecomputeSpec recompute;
  recompute.granularity = plan.recompute_layers          ? config::Recompute::full
                          : plan.recompute_modules.any() ? config::Recompute::selective
                                                         : config::Recompute::none;
  recompute.modules = plan.recompute_modules;
  recompute.layers = plan.recompute_choice;
  recompute.number = plan.recompute_number;
  return ", recompute " + config::in_words(recompute);
}

std::string describe_recipe(const plan::Plan& plan) {
  const plan::Modules& modules = plan.modules;
  return fmt::format("{}{}{}{}{}{}{}{}, persistent {}, sub-groups {}, moments {}{}",
                     modules.activation_in_two ? ", silu apart" : "",
                     modules.copies_key_values ? ", keys copied" : "",
                     modules.norms_in_parts ? ", norms in parts" : "",
                     modules.gathers_into_buffers ? ", token buffers" : "",
                     modules.softmax_beside_logits ? ", softmax apart" : "",
                     modules.gradients_of_micro_batch ? ", gradients added" : "",
                     modules.reduction_buckets ? ", ddp" : "",
                     plan.gathers_again ? "" : ", gathers kept",
                     plan.persistent_elements,
                     plan.sub_group_elements,
                     name(plan.states.moments),
                     plan.states.main_weights ? "" : " alone");
}

std::string describe_context(const plan::Plan& plan) {
  std::string text;
  if (plan.exchange_degree > 1) {
    text += fmt::format(" x exchange {}", plan.exchange_degree);
  }
  if (plan.ring_degree > 1) {
    text += fmt::format(" x ring {} ({}, {}{})",
                        plan.ring_degree,
                        config::word_for(config::kRingWords, plan.ring),
                        config::word_for(config::kRingOrderWords, plan.order),
                        plan.causal ? ", causal" : "");
  }
  return text;
}

}  // namespace

std::int64_t sequence_parts(const plan::Plan& plan) {
  const std::int64_t context = plan.exchange_degree * plan.ring_degree;
  // Megatron and PyTorch want two parts of every rank, whatever the order.
  return context > 1 ? 2 * plan.group_degree * context : plan.sequence_shards();
}

std::string describe(const plan::Plan& plan) {
  const plan::ModelShape& model = plan.model;
  return fmt::format(
      "{}: {} attention, {} mlp{}, P {}{}, D {}, {} stages of {} chunks, L {}, h {}, a {}, g {}, d "
      "{}, f {}, V {}{}, "
      "positions {}, S {}, B {} x {}, zero {} in {} {}{}{}{}, gradients {}{}, {} loss, "
      "{}{}{}{}{}{}{}{}{}{}{}",
      plan.name,
      std::array{"megatron", "ulysses", "gather"}[static_cast<std::size_t>(plan.attention)],
      std::array{"megatron", "replicated", "tiled"}[static_cast<std::size_t>(plan.mlp)],
      plan.sequence_sharded ? "" : " without sequence parallelism",
      plan.group_degree,
      describe_context(plan),
      plan.data_degree,
      plan.pipeline_degree,
      plan.virtual_stages,
      model.layers,
      model.hidden,
      model.heads,
      model.kv_heads,
      model.head_dim,
      model.mlp_width,
      model.vocabulary,
      model.tied_embeddings ? " tied" : "",
      model.learned_positions,
      plan.sequence,
      plan.micro_batch,
      plan.micro_batches,
      plan.zero_stage,
      plan.zero_parts,
      !plan.zero_replicated     ? "parts"
      : plan.sum_replicas_early ? "early replicas"
                                : "replicas",
      plan.zero_scope == config::ZeroScope::attention ? " of attention" : "",
      plan.reshard_after_forward ? "" : ", kept",
      plan.shard_rows ? ", rows" : "",
      name(plan.gradient_type),
      plan.gradient_reduce == config::GradientReduce::all_reduce ? " all-reduced" : "",
      fmt::format(
          "{} ({} chunks)", config::word_for(config::kLossWords, plan.loss), plan.loss_chunks),
      config::word_for(config::kExchangeWords, plan.exchange),
      recompute_in_words(plan),
      plan.kv_repeat == config::KvRepeat::all_heads ? ", all heads repeated" : "",
      plan.overlap_parameters ? ", parameters ahead" : "",
      plan.overlap_gradients ? ", gradients behind" : "",
      std::array{"", ", bulk", ", ring exchange"}[static_cast<std::size_t>(plan.overlap_tensor)],
      describe_recipe(plan),
      plan.offload_activations ? ", inputs on the host" : "",
      plan.offload_optimizer ? ", optimizer on the host" : "",
      plan.offload_parameters ? ", parameters on the host" : "",
      plan.overlap_offload ? ", copies beside" : "");
}

}  // namespace trireme::test
