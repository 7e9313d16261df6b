#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/config/words.h"
#include "sim/plan/chunks.h"
#include "sim/plan/legality.h"
#include "sim/plan/pipeline_split.h"
#include "sim/plan/plan.h"
#include "sim/plan/recipes.h"
#include "sim/plan/step.h"

namespace trireme::plan {

using config::Framework;

namespace {

ModelShape shape_of(const config::ModelSpec& spec) {
  ModelShape model;
  model.layers = spec.layers;
  model.hidden = spec.hidden;
  model.heads = spec.heads;
  model.kv_heads = spec.kv_heads;
  model.head_dim = spec.head_dim;
  model.mlp_width = spec.mlp_width;
  model.vocabulary = spec.vocabulary;
  model.learned_positions = spec.learned_positions;
  model.mlp_kind = spec.mlp_kind;
  model.norm = spec.norm;
  model.rotary = spec.rotary;
  model.qkv_bias = spec.attention_bias != config::BiasKind::none;
  model.output_bias = spec.attention_bias == config::BiasKind::all;
  model.mlp_bias = spec.mlp_bias;
  model.tied_embeddings = spec.tied_embeddings;
  model.latent = spec.latent;
  model.experts = spec.experts;
  return model;
}

void refuse(Feasibility& feasibility, std::string rule, std::string message) {
  feasibility.refusals.push_back({std::move(rule), std::move(message)});
}

/// DeepSpeed's ZeRO-1 and 2 all-reduce gradients unless told otherwise.
/// Source: deepspeed, runtime/zero/config.py, use_multi_rank_bucket_allreduce, on by default: what
/// its reduce_scatter, also on, buckets for each rank is all-reduced in one
config::GradientReduce gradient_reduce(const config::PlanSpec& spec) {
  const bool deepspeed =
      spec.framework == Framework::deepspeed || spec.framework == Framework::deepspeed_legacy;
  return spec.zero.reduce.value_or(deepspeed ? config::GradientReduce::all_reduce
                                             : config::GradientReduce::reduce_scatter);
}

/// PyTorch FSDP2 shards dimension 0 and pads it; others shard flattened parameters.
/// Source: pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py; prime-rl,
/// src/prime_rl/trainer/model.py, setup_fsdp
bool shards_with_fsdp2(Framework framework) {
  return framework == Framework::pytorch || framework == Framework::torchtitan ||
         framework == Framework::prime_rl;
}

/// Source: deepspeed, runtime/zero/config.py, reduce_bucket_size; runtime/zero/stage3.py and
/// stage_1_and_2.py, ipg_buckets and setup_buckets; runtime/engine.py: sequence parallelism reduces
/// in seq_parallel_communication_data_type, fp32; runtime/comm/coalesced_collectives.py,
/// reduce_scatter_coalesced: ZeRO-3 sorts a bucket by rank
ReduceBucket reduce_bucket(const config::PlanSpec& spec, const Plan& plan) {
  constexpr std::int64_t kElements = 500'000'000;
  const bool deepspeed =
      plan.framework == Framework::deepspeed || plan.framework == Framework::deepspeed_legacy;
  if (!deepspeed || plan.zero_stage == 0) {
    return {};
  }
  const bool whole = plan.zero_stage == 3;
  return {
      .elements = spec.zero.reduce_bucket_size ? spec.zero.reduce_bucket_size->value : kElements,
      .type = whole && plan.ulysses_degree() > 1 ? ElementType::fp32 : ElementType::bf16,
      .buffers = !whole && plan.overlap_gradients ? 2 : 1,
      .sorted = whole};
}

/// Source: deepspeed, runtime/zero/config.py, stage3_param_persistence_threshold and
/// sub_group_size; runtime/zero/partition_parameters.py, ds_persist; runtime/zero/stage3.py,
/// _prepare_fp32_grad_for_sub_group
void fill_deepspeed_sizes(const config::PlanSpec& spec, Plan& plan, Feasibility& feasibility) {
  constexpr std::int64_t kPersistent = 100'000;
  constexpr std::int64_t kSubGroup = 1'000'000'000;
  const bool deepspeed =
      plan.framework == Framework::deepspeed || plan.framework == Framework::deepspeed_legacy;
  const config::ZeroSpec& zero = spec.zero;
  if (!deepspeed) {
    if (zero.reduce_bucket_size || zero.param_persistence_threshold || zero.sub_group_size) {
      refuse(feasibility,
             "deepspeed-sizes",
             "reduce_bucket_size, param_persistence_threshold and sub_group_size are DeepSpeed's: "
             "say framework: deepspeed or leave them out");
    }
    return;
  }
  if (plan.zero_stage == 3) {
    plan.persistent_elements =
        zero.param_persistence_threshold ? zero.param_persistence_threshold->value : kPersistent;
    plan.sub_group_elements = zero.sub_group_size ? zero.sub_group_size->value : kSubGroup;
  }
}

/// Source: megatron-lm, --use-precision-aware-optimizer with --exp-avg-dtype bf16; bitsandbytes,
/// bitsandbytes/optim/adamw.py, AdamW8bit, its scales (one for 256 elements) left out
OptimizerStates optimizer_states(config::OptimizerRecipe recipe) {
  switch (recipe) {
    case config::OptimizerRecipe::bf16_fp32_main:
      return {};
    case config::OptimizerRecipe::precision_aware:
      return {.main_weights = true, .moments = ElementType::bf16};
    case config::OptimizerRecipe::adam_8bit:
      return {.main_weights = true, .moments = ElementType::int8};
    case config::OptimizerRecipe::bf16:
      return {.main_weights = false, .moments = ElementType::bf16};
  }
  return {};
}

struct Overlap {
  bool parameters = false;
  bool gradients = false;
};

/// What a framework overlaps when nobody says so; generic plans nothing, and so those whose sources
/// leave it to the user.
/// Source: deepspeed, runtime/zero/config.py, overlap_comm_valid: for stage 3; pytorch,
/// torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py: FSDP2 always, and
/// torch/nn/parallel/distributed.py: DistributedDataParallel reduces buckets as they are ready;
/// megatron-lm, megatron/core/distributed/distributed_data_parallel_config.py: neither
Overlap overlap_by_default(Framework framework, std::int64_t stage) {
  switch (framework) {
    case Framework::deepspeed:
    case Framework::deepspeed_legacy:
      return {stage == 3, stage == 3};
    case Framework::pytorch:
    case Framework::torchtitan:
    case Framework::prime_rl:
      return {stage == 3, stage == 0 || stage == 3};
    case Framework::generic:
    case Framework::megatron:
    case Framework::nanotron:
    case Framework::huggingface:
    case Framework::verl:
      return {};
  }
  return {};
}

/// Source: megatron-lm, megatron/training/arguments.py: --tp-comm-overlap asks for
/// --sequence-parallel; transformer-engine, userbuffers: pieces travel through buffers that every
/// rank of a node maps
void check_tensor_overlap(const config::StudySpec& study,
                          const Plan& plan,
                          Feasibility& feasibility) {
  using config::TensorParallelOverlap;
  if (plan.mlp != MlpLowering::megatron || plan.overlap_tensor == TensorParallelOverlap::none) {
    return;
  }
  if (!plan.sequence_sharded) {
    refuse(feasibility,
           "tensor-overlap-sequence",
           "overlap.tensor_parallel hides gathers and scatters of tokens: it needs "
           "tensor_parallel with 'sequence: true'");
  }
  if (plan.overlap_tensor == TensorParallelOverlap::ring_exchange &&
      plan.group_degree > study.cluster.gpus_per_node) {
    refuse(feasibility,
           "tensor-overlap-in-node",
           fmt::format("overlap.tensor_parallel: ring_exchange needs a group within one node: {} "
                       "ranks, {} GPUs per node",
                       plan.group_degree,
                       study.cluster.gpus_per_node));
  }
}

/// Ranks of the exchange of heads and of the ring, which a plan states as such or in Megatron's
/// words for context parallelism.
struct ContextDegrees {
  std::int64_t exchange = 1;
  std::int64_t ring = 1;
};

ContextDegrees context_degrees(const config::PlanSpec& spec, Feasibility& feasibility) {
  using config::ContextCommunication;
  const std::int64_t all = spec.context_parallel;
  if (all <= 1) {  // not stated
    return {spec.ulysses, spec.ring};
  }
  if (spec.ulysses > 1 || spec.ring > 1 || spec.sequence_gather > 1) {
    refuse(feasibility,
           "one-sequence-split",
           "context_parallel stands for ulysses and ring: state one or the others, without "
           "sequence_gather");
  }
  switch (spec.context_communication) {
    case ContextCommunication::a2a:
      return {all, 1};
    case ContextCommunication::a2a_p2p:
      if (all % spec.context_exchange != 0) {
        refuse(feasibility,
               "context-two-levels",
               fmt::format("exchange_degree ({}) does not divide the degree {} of context_parallel",
                           spec.context_exchange.value,
                           all));
        return {1, all};
      }
      return {spec.context_exchange, all / spec.context_exchange};
    case ContextCommunication::p2p:
    case ContextCommunication::all_gather:
      break;
  }
  return {1, all};
}

/// Source: transformer-engine, context_parallel.py; pytorch, _context_parallel/_attention.py, whose
/// rotation of keys and values by all-to-all has the bytes and steps of ring-flash-attention
config::RingImplementation ring_implementation(const config::PlanSpec& spec) {
  using config::RingImplementation;
  const bool pytorch =
      spec.framework == Framework::pytorch || spec.framework == Framework::torchtitan;
  if (spec.context_parallel > 1) {
    const bool gathers = spec.context_communication == config::ContextCommunication::all_gather;
    return pytorch
               ? (gathers ? RingImplementation::pytorch : RingImplementation::ring_flash_attention)
               : (gathers ? RingImplementation::all_gather
                          : RingImplementation::transformer_engine);
  }
  return spec.ring_implementation.value_or(pytorch ? RingImplementation::pytorch
                                           : spec.framework == Framework::megatron
                                               ? RingImplementation::transformer_engine
                                               : RingImplementation::ring_flash_attention);
}

/// Each expert's features are split as those of the MLP, or whole.
/// Source: megatron-lm, megatron/core/parallel_state.py, expert_tensor_parallel_size: as the
/// tensor-parallel size by default
void resolve_experts(const config::PlanSpec& spec, Plan& plan, Feasibility& feasibility) {
  plan.expert_degree = spec.experts.degree;
  plan.expert_capacity = spec.experts.capacity_factor.value_or(0);
  const std::int64_t group = plan.mlp == MlpLowering::megatron ? plan.group_degree : 1;
  const std::int64_t split =
      spec.experts.tensor_parallel ? spec.experts.tensor_parallel->value : group;
  plan.expert_tensor = split > 1 || group == 1;
  if (split != 1 && split != group) {
    refuse(feasibility,
           "expert-tensor-degree",
           fmt::format("expert_parallel.tensor_parallel {}: experts are whole (1) or split as the "
                       "MLP is ({})",
                       split,
                       group));
  }
}

/// The parts of the data-parallel ranks that ZeRO shards over, or keeps shards for backward passes
/// in. Source: pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, all_reduce_grads:
/// FSDP2 sums the shards of replicas in every backward pass; deepspeed, runtime/zero/mics.py,
/// allreduce_mics_shard_grads: MiCS in the last one; megatron-lm,
/// num_distributed_optimizer_instances: once a step
void fill_zero_parts(const config::PlanSpec& spec, Plan& plan, Feasibility& feasibility) {
  const std::int64_t tensor = plan.attention == AttentionLowering::megatron ? plan.group_degree : 1;
  const std::int64_t of_sequence = plan.ranks_of_replica() / tensor;
  const auto refuse_parts = [&](std::string why) {
    refuse(feasibility, "zero-parts", std::move(why));
  };
  if (spec.zero.replicate && spec.zero.replicate->value > 1) {
    const std::int64_t replicas = *spec.zero.replicate;
    if (plan.data_degree % replicas != 0) {
      refuse_parts(fmt::format("zero.replicate {} does not divide the {} data-parallel ranks",
                               replicas,
                               plan.data_degree));
      return;
    }
    plan.zero_parts = replicas;
    plan.sum_replicas_early = shards_with_fsdp2(plan.framework);
  } else if (spec.zero.hpz_partition_size && spec.zero.hpz_partition_size->value > 1) {
    const std::int64_t ranks = *spec.zero.hpz_partition_size;
    const std::int64_t inner = std::max<std::int64_t>(1, ranks / of_sequence);
    if (ranks % of_sequence != 0 || plan.data_degree % inner != 0) {
      refuse_parts(
          fmt::format("zero.hpz_partition_size {} does not cut {} data-parallel ranks of "
                      "{} that split a sequence into equal parts",
                      ranks,
                      plan.data_degree,
                      of_sequence));
      return;
    }
    plan.zero_parts = plan.data_degree / inner;
    plan.zero_replicated = false;
  }
  if (plan.zero_parts > 1 && plan.model.experts) {
    refuse(feasibility,
           "not-modelled",
           "not modelled yet: sharding over a part of the data-parallel ranks beside experts");
    plan.zero_parts = 1;
  }
}

void check_degrees(const config::PlanSpec& spec, Feasibility& feasibility) {
  if (spec.ulysses > 1 && spec.sequence_gather > 1) {
    refuse(feasibility,
           "one-sequence-split",
           "ulysses and sequence_gather both split the sequence: state one of them");
  }
  if (spec.ring > 1 && spec.sequence_gather > 1) {
    refuse(feasibility,
           "one-sequence-split",
           "ring and sequence_gather both split the sequence: state one of them");
  }
  Feasibility said_elsewhere;
  const std::int64_t sequence_degree =
      std::max<std::int64_t>(context_degrees(spec, said_elsewhere).exchange, spec.sequence_gather);
  if (spec.mlp_tensor_parallel > 1 && spec.tensor_parallel <= 1 &&
      spec.mlp_tensor_parallel != sequence_degree) {
    refuse(feasibility,
           "hybrid-degree",
           fmt::format("mlp.tensor_parallel ({}) runs over the ranks that split the sequence, of "
                       "which there are {}",
                       spec.mlp_tensor_parallel.value,
                       sequence_degree));
  }
  if (spec.mlp_tensor_parallel > 1 && spec.tensor_parallel > 1) {
    refuse(feasibility,
           "hybrid-degree",
           "tensor_parallel already splits the MLP: mlp.tensor_parallel is for plans without it");
  }
}

/// Source: deepspeed, runtime/pipe/engine.py, PipelineEngine: ZeRO-2 and ZeRO-3 are incompatible
/// with pipeline parallelism
void check_sharding_of_stages(const Plan& plan, Feasibility& feasibility) {
  const bool deepspeed =
      plan.framework == Framework::deepspeed || plan.framework == Framework::deepspeed_legacy;
  if (deepspeed && plan.zero_stage >= 2) {
    refuse(feasibility,
           "pipeline-zero",
           fmt::format("DeepSpeed's pipeline takes ZeRO-1 at most, the plan has stage {}",
                       plan.zero_stage));
  } else if (plan.zero_stage == 3 && !plan.reshard_after_forward) {
    refuse(feasibility,
           "not-modelled",
           "not modelled yet: gathered parameters kept over the micro batches of a pipeline");
  }
}

/// Source: nanotron, src/nanotron/models/base.py, build_model: every rank is to have a block, or
/// its pipeline does not end at the last one
void fill_cumulated_split(Plan& plan, Feasibility& feasibility) {
  if (plan.virtual_stages > 1) {
    refuse(feasibility,
           "nanotron-pipeline",
           "nanotron has no interleaved schedule: its split is over stages");
    return;
  }
  CumulatedSplit split = split_by_cumulated_cost(plan.model, plan.pipeline_degree);
  if (split.started < plan.pipeline_degree) {
    refuse(feasibility,
           "nanotron-pipeline",
           fmt::format("nanotron's split by cost gives the last {} of {} stages nothing",
                       plan.pipeline_degree - split.started,
                       plan.pipeline_degree));
  }
  plan.working_stages = split.working;
  plan.chunk_layers = std::move(split.layers);
}

/// Source: nanotron, src/nanotron/config/parallelism_config.py, tp_recompute_allgather
void fill_gathers_again(const config::PlanSpec& spec, Plan& plan, Feasibility& feasibility) {
  plan.gathers_again = spec.tensor_parallel_gather_again;
  if (plan.gathers_again) {
    return;
  }
  const bool can = plan.framework == Framework::generic || plan.framework == Framework::nanotron;
  const bool plain = plan.sequence_sharded && !spec.recompute.modules.layernorm &&
                     spec.overlap.tensor_parallel == config::TensorParallelOverlap::none;
  if (!can || !plain || plan.model.latent || plan.model.experts) {
    refuse(feasibility,
           "gathers-again",
           "tensor_parallel.gather_again: false is nanotron's, for tokens that are gathered, "
           "without overlap and without experts, latent attention and recomputed norms");
  }
}

/// The schedule, and the layers of every part of the model.
void fill_pipeline(const config::PlanSpec& spec, Plan& plan, Feasibility& feasibility) {
  const config::PipelineSpec& pipeline = spec.pipeline;
  plan.pipeline_degree = pipeline.degree;
  if (plan.pipeline_degree == 1) {
    return;
  }
  const bool interleaved = pipeline.schedule == config::PipelineScheduleKind::interleaved;
  plan.schedule =
      interleaved ? PipelineSchedule::interleaved : PipelineSchedule::one_forward_one_backward;
  plan.virtual_stages = pipeline.virtual_stages;
  switch (pipeline.split) {
    case config::PipelineSplit::count:
      plan.chunk_layers = split_by_count(plan.model.layers, plan.chunks());
      break;
    case config::PipelineSplit::cost:
      if (plan.framework == Framework::nanotron) {
        fill_cumulated_split(plan, feasibility);
      } else {
        plan.chunk_layers = split_by_cost(plan.model, plan.sequence, plan.causal, plan.chunks());
      }
      break;
    case config::PipelineSplit::listed:
      for (const auto& layers : pipeline.layers) {
        plan.chunk_layers.push_back(layers);
      }
      break;
  }
  check_sharding_of_stages(plan, feasibility);
}

int axis_of(config::RankGroup group) {
  switch (group) {
    case config::RankGroup::tensor:
    case config::RankGroup::sequence:
      break;
    case config::RankGroup::exchange:
      return kExchangeAxis;
    case config::RankGroup::ring:
      return kRingAxis;
    case config::RankGroup::data:
      return kDataAxis;
    case config::RankGroup::pipeline:
      return kPipelineAxis;
  }
  return kGroupAxis;
}

/// The order of the mesh's axes, where the plan states one: groups of one rank have any place.
void fill_placement(const config::StudySpec& study,
                    const config::PlanSpec& spec,
                    Plan& plan,
                    Feasibility& feasibility) {
  if (spec.placement.empty() || plan.data_degree % plan.expert_data_degree() != 0) {
    return;  // nothing is stated, or experts have no ranks: refused by their rules
  }
  const program::Mesh mesh = mesh_of(plan);
  std::vector<int> order;
  for (const auto& placed : spec.placement) {
    const int axis = axis_of(placed.value);
    const std::string_view name = config::word_for(config::kRankGroupWords, placed.value);
    if (axis == kDataAxis) {  // where experts are spread over it, two axes
      for (int part = kDataAxis; part < std::min(mesh.axes(), kPipelineAxis); ++part) {
        order.push_back(part);
      }
    } else if (axis < mesh.axes() && mesh.axis(axis).name == name) {
      order.push_back(axis);
    }
  }
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if (std::find(order.begin(), order.end(), axis) != order.end()) {
      continue;
    }
    if (mesh.size(axis) > 1) {
      refuse(feasibility,
             "placement",
             fmt::format("placement does not say where the {} ranks of '{}' are",
                         mesh.size(axis),
                         mesh.axis(axis).name));
    }
    order.push_back(axis);
  }
  plan.placement = std::move(order);
  const std::int64_t node = study.cluster.gpus_per_node;
  std::int64_t ranks = 1;
  for (const int axis : plan.placement) {
    ranks *= mesh.size(axis);
    if (node % ranks != 0 && ranks % node != 0) {
      refuse(feasibility,
             "groups-fill-nodes",
             fmt::format("placement: {} ranks up to '{}' do not tile nodes of {} GPUs",
                         ranks,
                         mesh.axis(axis).name,
                         node));
    }
  }
}

/// Groups of data-parallel ranks fill nodes too, where there are other ranks outside them.
void check_data_tiling(const config::StudySpec& study,
                       const config::PlanSpec& spec,
                       const Plan& plan,
                       Feasibility& feasibility) {
  if (!spec.placement.empty() || plan.data_degree % plan.expert_data_degree() != 0) {
    return;  // placed as stated, or refused by the rules of experts
  }
  const program::Mesh mesh = mesh_of(plan);
  const std::int64_t node = study.cluster.gpus_per_node;
  std::int64_t ranks = plan.ranks_of_replica();
  for (int axis = kDataAxis; axis < std::min(mesh.axes(), kPipelineAxis); ++axis) {
    ranks *= mesh.size(axis);
    if (mesh.size(axis) > 1 && ranks < plan.ranks() && node % ranks != 0 && ranks % node != 0) {
      refuse(feasibility,
             "groups-fill-nodes",
             fmt::format("groups of {} ranks do not tile nodes of {} GPUs", ranks, node));
    }
  }
}

/// Fills in the data-parallel degree and the number of micro batches.
void fill_batches(const config::StudySpec& study,
                  const config::PlanSpec& spec,
                  Plan& plan,
                  Feasibility& feasibility) {
  const std::int64_t gpus = study.cluster.gpus();
  if (spec.data_parallel) {
    plan.data_degree = spec.data_parallel->value;
    if (plan.ranks() != gpus) {
      refuse(
          feasibility,
          "degrees-multiply",
          fmt::format("the degrees multiply to {}, the cluster has {} GPUs", plan.ranks(), gpus));
    }
  } else {
    Degrees degrees;
    degrees.degree = plan.ranks_of_replica() * plan.pipeline_degree;
    degrees.gpus = gpus;
    std::string broken = gpus_divide(degrees).broken;
    if (broken.empty()) {
      plan.data_degree = gpus / degrees.degree;
    } else {
      refuse(feasibility, "degrees-multiply", std::move(broken));
    }
  }
  const std::int64_t node = study.cluster.gpus_per_node;
  // The innermost group, and what stands outside it.
  const std::int64_t exchange = plan.group_degree * plan.exchange_degree;
  const bool innermost = spec.placement.empty();
  std::int64_t before = 1;
  for (const std::int64_t ranks : {plan.group_degree, exchange, plan.ranks_of_replica()}) {
    if (innermost && ranks != before && node % ranks != 0 && ranks % node != 0) {
      refuse(feasibility,
             "groups-fill-nodes",
             fmt::format("groups of {} ranks do not tile nodes of {} GPUs", ranks, node));
    }
    before = ranks;
  }
  const std::int64_t per_micro_batch = plan.micro_batch * plan.data_degree;
  const std::int64_t global =
      study.workload.global_batch ? study.workload.global_batch->value : per_micro_batch;
  if (global % per_micro_batch != 0) {
    refuse(feasibility,
           "batches-divide",
           fmt::format("a global batch of {} sequences is not a multiple of {} (micro batch {} on "
                       "{} data-parallel ranks)",
                       global,
                       per_micro_batch,
                       plan.micro_batch,
                       plan.data_degree));
  } else {
    plan.micro_batches = global / per_micro_batch;
  }
}

/// Fills in the parts in which MLP and loss walk over a rank's tokens.
void fill_chunks(const config::PlanSpec& spec, Plan& plan, Feasibility& feasibility) {
  if (plan.sequence % plan.sequence_shards() != 0) {
    return;  // refused by the rules on sequences
  }
  plan.loss_chunks =
      spec.loss_chunks == config::kAutomatic ? automatic_loss_chunks(plan) : spec.loss_chunks;
  if (!spec.mlp_tiles) {
    return;
  }
  if (plan.mlp == MlpLowering::megatron) {
    refuse(feasibility,
           "tiled-mlp",
           "mlp.tiles: a tile needs whole weights, tensor parallelism splits them");
    return;
  }
  if (spec.recompute.modules.mlp || spec.recompute.modules.mlp_activation) {
    refuse(feasibility,
           "tiled-mlp",
           "mlp.tiles: a tile runs again on its own, recompute's mlp and mlp_act come on top");
  }
  plan.mlp = MlpLowering::tiled;
  plan.mlp_tiles = spec.mlp_tiles->value == config::kAutomatic ? automatic_mlp_tiles(plan)
                                                               : spec.mlp_tiles->value;
}

}  // namespace

Resolution resolve(const config::StudySpec& study, const config::PlanSpec& spec) {
  Resolution resolution;
  Plan& plan = resolution.plan;
  Feasibility& feasibility = resolution.feasibility;
  plan.name = spec.name;
  plan.model = shape_of(study.model);
  plan.sequence = study.workload.sequence.value.value();
  plan.micro_batch = study.workload.micro_batch;
  plan.causal = study.workload.causal;
  plan.framework = spec.framework;

  check_modelled(spec, feasibility);
  check_modelled(study.model, plan.sequence, feasibility);
  check_degrees(spec, feasibility);
  const ContextDegrees context = context_degrees(spec, feasibility);
  const bool tensor = spec.tensor_parallel > 1;
  plan.group_degree = tensor ? spec.tensor_parallel.value
                             : std::max<std::int64_t>(context.exchange, spec.sequence_gather);
  plan.exchange_degree = tensor ? context.exchange : 1;
  plan.ring_degree = context.ring;
  if (plan.ring_degree > 1) {
    plan.ring = ring_implementation(spec);
    plan.order = spec.ring_order.value_or(plan.causal ? config::RingOrder::zigzag
                                                      : config::RingOrder::contiguous);
  }
  plan.attention = tensor                     ? AttentionLowering::megatron
                   : spec.sequence_gather > 1 ? AttentionLowering::sequence_gather
                                              : AttentionLowering::ulysses;
  plan.mlp =
      tensor || spec.mlp_tensor_parallel > 1 ? MlpLowering::megatron : MlpLowering::replicated;
  plan.sequence_sharded = !tensor || spec.tensor_parallel_sequence;
  fill_gathers_again(spec, plan, feasibility);
  plan.exchange = spec.exchange;
  plan.kv_repeat = spec.kv_repeat;

  plan.zero_stage = spec.zero.stage;
  plan.zero_scope = spec.zero.only;
  plan.gradient_reduce = gradient_reduce(spec);
  plan.reshard_after_forward = spec.zero.reshard != config::Reshard::keep;
  plan.gradient_type = spec.zero.gradient_type;
  plan.shard_rows = shards_with_fsdp2(spec.framework);
  plan.gather_after_recompute = !shards_with_fsdp2(spec.framework);

  const Overlap overlap = overlap_by_default(spec.framework, spec.zero.stage);
  plan.overlap_parameters = spec.overlap.parameters.value_or(overlap.parameters);
  plan.overlap_gradients = spec.overlap.gradients.value_or(overlap.gradients);
  plan.overlap_tensor = spec.overlap.tensor_parallel;
  if (spec.overlap.nothing) {
    plan.overlap_nothing = true;
    plan.overlap_parameters = false;
    plan.overlap_gradients = false;
    plan.overlap_tensor = config::TensorParallelOverlap::none;
  }

  plan.recompute_layers = spec.recompute.granularity == config::Recompute::full;
  plan.recompute_choice = spec.recompute.layers;
  plan.recompute_number = spec.recompute.number;
  plan.recompute_modules = spec.recompute.modules;
  plan.offload_activations = spec.recompute.offload_to_host;
  plan.offload_optimizer = spec.offload.optimizer;
  plan.offload_parameters = spec.offload.parameters;
  plan.overlap_offload = spec.offload.overlap && !spec.overlap.nothing;
  plan.loss = spec.loss;
  plan.logits_type = spec.logits_type;
  plan.kernel = spec.attention;
  plan.clip_gradients = spec.optimizer.clip_gradients;
  // Source: simumax-b200; transformer-engine, module/base.py, get_dummy_wgrad
  plan.transformer_engine = spec.transformer_impl == config::TransformerImpl::transformer_engine;
  if (plan.transformer_engine) {
    plan.library_workspaces = study.memory.library_workspaces;
  }

  plan.reduce_bucket = reduce_bucket(spec, plan);
  fill_deepspeed_sizes(spec, plan, feasibility);
  plan.states = optimizer_states(spec.optimizer.recipe);
  plan.modules = modules_of(plan);
  if (plan.modules.gradients_of_micro_batch && plan.overlap_gradients) {
    refuse(
        feasibility,
        "nanotron-overlap",
        "overlap.gradients: nanotron adds a micro batch's gradients up when its backward pass is "
        "over; sums behind the last one are not modelled yet");
  }
  resolve_experts(spec, plan, feasibility);
  fill_pipeline(spec, plan, feasibility);
  fill_batches(study, spec, plan, feasibility);
  fill_zero_parts(spec, plan, feasibility);
  fill_chunks(spec, plan, feasibility);
  fill_placement(study, spec, plan, feasibility);
  check_data_tiling(study, spec, plan, feasibility);
  check_tensor_overlap(study, plan, feasibility);
  check_rules(plan, feasibility);
  return resolution;
}

}  // namespace trireme::plan
