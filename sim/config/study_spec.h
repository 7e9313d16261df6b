// A study as its YAML file states it: model, cluster, workload, plans, sweep, requirements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/config/cluster_spec.h"
#include "sim/config/model_spec.h"
#include "sim/config/node.h"
#include "sim/config/profile_spec.h"
#include "sim/core/error.h"
#include "sim/units/units.h"

namespace trireme::config {

struct WorkloadSpec {
  Located<Tokens> sequence;
  Located<std::int64_t> micro_batch;  // sequences per micro batch and data-parallel rank
  std::optional<Located<std::int64_t>>
      global_batch;  // sequences per step; absent: one micro batch each
  bool causal = true;
};

enum class Recompute : std::uint8_t { none, selective, full, offload_host };
enum class LossKind : std::uint8_t { eager, chunked, fused, vocabulary_parallel };
enum class AttentionKernel : std::uint8_t { flash2, flash3, cudnn, unfused };
enum class ExchangeKind : std::uint8_t { packed, separate };
enum class GradientReduce : std::uint8_t { reduce_scatter, all_reduce };
/// Whether ZeRO-3 keeps gathered parameters between forward and backward.
enum class Reshard : std::uint8_t { keep, after_forward, framework };
enum class ZeroScope : std::uint8_t { all, attention };
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

struct OverlapSpec {
  std::optional<bool> parameters;  // absent: as the framework does by default
  std::optional<bool> gradients;
  TensorParallelOverlap tensor_parallel = TensorParallelOverlap::none;
};

struct OptimizerSpec {
  std::string name = "adamw";
  std::string recipe = "bf16-fp32-main";
  bool clip_gradients = true;
};

struct ZeroSpec {
  Located<std::int64_t> stage;  // 0 to 3
  Reshard reshard = Reshard::after_forward;
  ElementType gradient_type = ElementType::fp32;
  std::optional<GradientReduce> reduce;  // absent: the framework's own way
  ZeroScope only = ZeroScope::all;
};

/// One plan: degrees and options. Degrees that a plan does not name are 1.
struct PlanSpec {
  std::string name;
  SourceLocation where;
  std::string preset;  // of `use:`; empty without
  Located<std::int64_t> ulysses;
  ExchangeKind exchange = ExchangeKind::packed;
  Located<std::int64_t> sequence_gather;
  Located<std::int64_t> ring;
  Located<std::int64_t> tensor_parallel;
  bool tensor_parallel_sequence = true;
  Located<std::int64_t> mlp_tensor_parallel;
  std::optional<Located<std::int64_t>> data_parallel;  // absent: GPUs / the other degrees
  ZeroSpec zero;
  Framework framework = Framework::generic;
  // What `defaults` gives to every plan and a plan may override.
  OptimizerSpec optimizer;
  Recompute recompute = Recompute::none;
  LossKind loss = LossKind::fused;
  AttentionKernel attention = AttentionKernel::flash2;
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

struct StudySpec {
  std::string name;
  std::string file;
  ModelSpec model;
  ClusterSpec cluster;
  WorkloadSpec workload;
  std::vector<PlanSpec> plans;
  std::vector<SweepPoint> sweep;  // every point of the grid, or the rows of a list of maps
  std::vector<RequireSpec> require;
  /// Every default that was used, as "key: value", in the order in which the study asked.
  std::vector<std::string> defaults_used;
};

}  // namespace trireme::config
