// A study as its YAML file states it: model, cluster, workload, plans, sweep, requirements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/config/cluster_spec.h"
#include "sim/config/memory_spec.h"
#include "sim/config/model_spec.h"
#include "sim/config/node.h"
#include "sim/config/profile_spec.h"
#include "sim/core/error.h"
#include "sim/core/vocabulary.h"
#include "sim/units/units.h"

namespace trireme::config {

struct WorkloadSpec {
  Located<Tokens> sequence;
  Located<std::int64_t> micro_batch;  // sequences per micro batch and data-parallel rank
  std::optional<Located<std::int64_t>>
      global_batch;  // sequences per step; absent: one micro batch each
  bool causal = true;
};

enum class Recompute : std::uint8_t { none, selective, full };

/// Parts of a layer that run again on their own. Megatron Core calls them core_attn, layernorm, mlp
/// and, of experts, moe_act.
struct RecomputeModules {
  bool core_attention = false;  // from queries, keys and values to the kernel's output
  bool layernorm = false;       // both norms' outputs
  bool mlp = false;             // all of the MLP behind its norm
  bool mlp_activation = false;  // the activation function's output

  [[nodiscard]] bool any() const { return core_attention || layernorm || mlp || mlp_activation; }

  friend bool operator==(const RecomputeModules&, const RecomputeModules&) = default;
};

/// Which layers run again whole: the last of every so many, so many at the beginning, or all, in
/// units of so many of which the input alone is kept.
enum class LayerChoice : std::uint8_t { every, block, uniform };

struct RecomputeSpec {
  Recompute granularity = Recompute::none;
  RecomputeModules modules;  // of selective
  LayerChoice layers = LayerChoice::every;
  std::int64_t number = 1;  // of layers, as `layers` means it
  bool offload_to_host = false;
};
enum class LossKind : std::uint8_t { eager, chunked, fused, vocabulary_parallel };
enum class AttentionKernel : std::uint8_t { flash2, flash3, cudnn, unfused };
enum class ExchangeKind : std::uint8_t { packed, separate };
/// How often key/value heads are repeated where an exchange needs more of them than there are.
enum class KvRepeat : std::uint8_t { minimal, all_heads };
/// How the ranks of a ring get each other's keys and values, and the gradients back.
enum class RingImplementation : std::uint8_t {
  transformer_engine,    // passed on in 16 bits, gradients too
  ring_flash_attention,  // passed on, gradients in fp32
  pytorch,               // gathered, gradients passed on in fp32
  all_gather             // gathered in both passes, gradients reduce-scattered
};
/// In which order its ranks hold the tokens: program::OrderKind.
enum class RingOrder : std::uint8_t { contiguous, zigzag, striped };
/// Megatron's words for ways to exchange between context-parallel ranks.
enum class ContextCommunication : std::uint8_t { p2p, all_gather, a2a, a2a_p2p };
enum class GradientReduce : std::uint8_t { reduce_scatter, all_reduce };
/// Whose modules layers are built of: Megatron Core asks. `none` under other frameworks.
enum class TransformerImpl : std::uint8_t { none, local, transformer_engine };
/// The groups that ranks are numbered along; context parallelism is a sequence group.
enum class RankGroup : std::uint8_t { tensor, sequence, exchange, ring, data, pipeline };
/// Whether ZeRO-3 keeps gathered parameters between forward and backward.
enum class Reshard : std::uint8_t { keep, after_forward, framework };
enum class ZeroScope : std::uint8_t { all, attention };
enum class PipelineScheduleKind : std::uint8_t { one_forward_one_backward, interleaved };
/// What stages have equal parts of: layers, or operations; or as many layers as are listed.
enum class PipelineSplit : std::uint8_t { count, cost, listed };
enum class TensorParallelOverlap : std::uint8_t { none, bulk, ring_exchange };
enum class Framework : std::uint8_t {
  generic,
  megatron,
  deepspeed,
  deepspeed_legacy,
  pytorch,
  torchtitan,
  nanotron,
  huggingface,
  verl,
  prime_rl
};

/// A number of chunks or tiles that follows from the sizes: `auto`.
inline constexpr std::int64_t kAutomatic = 0;

struct OverlapSpec {
  std::optional<bool> parameters;  // absent: as the framework does by default
  std::optional<bool> gradients;
  TensorParallelOverlap tensor_parallel = TensorParallelOverlap::none;
  /// Every collective makes computing wait, whatever the others say: `what_if: {overlap: off}`.
  bool nothing = false;
};

/// Types of what the optimizer holds: main weights and moments.
enum class OptimizerRecipe : std::uint8_t {
  bf16_fp32_main,   // both in fp32
  precision_aware,  // main weights in fp32, moments in bf16
  adam_8bit,        // main weights in fp32, moments of a byte
  bf16              // no main weights: the bf16 ones are updated; moments in bf16
};

/// What lies in the host's memory and comes to the GPU where it is used. Inputs of layers that run
/// again are recompute's own.
struct OffloadSpec {
  bool optimizer = false;   // states, and the optimizer's work
  bool parameters = false;  // of ZeRO-3, the shards
  bool overlap = false;     // copies go beside the computation

  [[nodiscard]] bool any() const { return optimizer || parameters; }
};

struct OptimizerSpec {
  std::string name = "adamw";
  OptimizerRecipe recipe = OptimizerRecipe::bf16_fp32_main;
  bool clip_gradients = true;
};

struct ZeroSpec {
  Located<std::int64_t> stage;  // 0 to 3
  Reshard reshard = Reshard::after_forward;
  ElementType gradient_type = ElementType::fp32;
  std::optional<GradientReduce> reduce;  // absent: the framework's own way
  ZeroScope only = ZeroScope::all;
  /// Sets of shards, each spread over a part of the data-parallel ranks; absent: one.
  std::optional<Located<std::int64_t>> replicate;
  /// Ranks that share the shards from which backward passes gather; absent: all, the optimizer's.
  std::optional<Located<std::int64_t>> hpz_partition_size;
  // DeepSpeed's, in elements; absent: its defaults.
  std::optional<Located<std::int64_t>> reduce_bucket_size;
  std::optional<Located<std::int64_t>> param_persistence_threshold;
  std::optional<Located<std::int64_t>> sub_group_size;
};

struct PipelineSpec {
  Located<std::int64_t> degree{1, {}};  // stages
  PipelineScheduleKind schedule = PipelineScheduleKind::one_forward_one_backward;
  Located<std::int64_t> virtual_stages{1, {}};  // of each stage, interleaved
  PipelineSplit split = PipelineSplit::count;
  std::vector<Located<std::int64_t>> layers;  // listed: of each part of the model, in its order
};

struct ExpertParallelSpec {
  Located<std::int64_t> degree{1, {}};  // ranks that experts are spread over
  /// Ranks that split each expert's features; absent: those that split the MLP's.
  std::optional<Located<std::int64_t>> tensor_parallel;
  std::optional<double> capacity_factor;  // absent: no token is dropped
};

/// One plan: degrees and options. Degrees that a plan does not name are 1.
struct PlanSpec {
  std::string name;
  SourceLocation where;
  std::string preset;  // of `use:`; empty without
  Located<std::int64_t> ulysses;
  ExchangeKind exchange = ExchangeKind::packed;
  KvRepeat kv_repeat = KvRepeat::minimal;
  Located<std::int64_t> sequence_gather;
  Located<std::int64_t> ring;
  std::optional<RingImplementation> ring_implementation;  // absent: the framework's own
  std::optional<RingOrder> ring_order;                    // absent: zigzag where causal
  Located<std::int64_t> context_parallel;
  ContextCommunication context_communication = ContextCommunication::p2p;
  Located<std::int64_t> context_exchange;  // of a2a+p2p: ranks of the exchange
  Located<std::int64_t> tensor_parallel;
  bool tensor_parallel_sequence = true;
  /// Backward passes gather inputs of products again; else forward passes keep them.
  bool tensor_parallel_gather_again = true;
  Located<std::int64_t> mlp_tensor_parallel;
  std::optional<Located<std::int64_t>> mlp_tiles;  // absent: the MLP is not tiled
  PipelineSpec pipeline;
  /// From the group whose ranks are neighbours outwards; empty: tensor or sequence, data, pipeline.
  std::vector<Located<RankGroup>> placement;
  ExpertParallelSpec experts;
  std::optional<Located<std::int64_t>> data_parallel;  // absent: GPUs / the other degrees
  ZeroSpec zero;
  Framework framework = Framework::generic;
  TransformerImpl transformer_impl = TransformerImpl::none;
  // What `defaults` gives to every plan and a plan may override.
  OptimizerSpec optimizer;
  RecomputeSpec recompute;
  LossKind loss = LossKind::fused;
  std::int64_t loss_chunks = kAutomatic;        // of the chunked loss
  ElementType logits_type = ElementType::fp32;  // in which eager and chunked losses are computed
  AttentionKernel attention = AttentionKernel::flash2;
  Allocator allocator = Allocator::native;
  OffloadSpec offload;
  OverlapSpec overlap;
};

/// One value of a swept key, as text and located: applied by reading the study again with it.
struct SweepValue {
  std::string key;  // such as "workload.sequence" or "plans.uly8.ulysses"
  std::string text;
  Position key_position;
  Position position;  // of the value; small, as a sweep has many points

  [[nodiscard]] SourceLocation where() const { return position.location(); }
};

using SweepPoint = std::vector<SweepValue>;

/// `require: [{plan: p, fits: true}, {plan: p, exposed_communication: "< 20 %"}]`
struct RequireSpec {
  std::string plan;
  SourceLocation where;
  std::optional<bool> fits;
  std::optional<double> exposed_communication_below;  // fraction of the step time
};

/// A rank whose kernels, or those of one component, take longer than the others'.
struct SlowRankSpec {
  Located<std::int64_t> rank;
  double factor = 1;
  std::optional<Component> component;
};

enum class JitterDistribution : std::uint8_t { log_normal, exponential };

/// How kernels' seconds scatter; `runs` steps are simulated, with the seeds from `seed` on.
struct JitterSpec {
  JitterDistribution distribution = JitterDistribution::log_normal;
  double relative = 0;       // standard deviation of each kernel's seconds, over their mean
  double between_ranks = 0;  // the same of a factor that a rank keeps for the whole step
  std::int64_t seed = 0;
  std::int64_t runs = 1;
};

/// What is asked to be otherwise than cluster and plans are.
struct WhatIfSpec {
  double nvlink = 1;  // factors on bandwidths
  double pcie = 1;
  double nic = 1;
  std::vector<SlowRankSpec> slow_ranks;
  std::optional<JitterSpec> jitter;
  bool overlap = true;       // false: every collective makes computing wait
  bool contention = true;    // false: each collective runs as if it were alone on its links
  bool interference = true;  // false: kernels and collectives do not slow each other
};

struct StudySpec {
  std::string name;
  std::string file;
  ModelSpec model;
  ClusterSpec cluster;
  MemorySpec memory;
  WorkloadSpec workload;
  std::vector<PlanSpec> plans;
  std::vector<SweepPoint> sweep;  // every point of the grid, or the rows of a list of maps
  std::vector<RequireSpec> require;
  WhatIfSpec what_if;  // in place where it changes links and plans
  /// Every default that was used, as "key: value", in the order in which the study asked.
  std::vector<std::string> defaults_used;
};

}  // namespace trireme::config
