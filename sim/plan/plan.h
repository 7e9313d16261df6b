// A plan with every degree and option known: a composition of lowerings for one model and workload.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/model_spec.h"
#include "sim/config/study_spec.h"
#include "sim/core/feasibility.h"
#include "sim/units/units.h"

namespace trireme::plan {

enum class AttentionLowering : std::uint8_t { megatron, ulysses, sequence_gather };
enum class MlpLowering : std::uint8_t { megatron, replicated, tiled };
enum class PipelineSchedule : std::uint8_t { none, one_forward_one_backward, interleaved };

/// The model's dimensions, as numbers.
struct ModelShape {
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;     // a, query heads
  std::int64_t kv_heads = 1;  // g
  std::int64_t head_dim = 1;
  std::int64_t mlp_width = 1;
  std::int64_t vocabulary = 0;         // 0: no embedding and no head
  std::int64_t learned_positions = 0;  // 0: none
  config::MlpKind mlp_kind = config::MlpKind::swiglu;
  config::NormKind norm = config::NormKind::rmsnorm;
  bool rotary = true;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool tied_embeddings = false;
  std::optional<config::LatentAttention> latent;
  /// In the place of the MLP, of all layers but the first `dense_layers`.
  std::optional<config::Experts> experts;

  [[nodiscard]] std::int64_t dense_layers() const {
    return experts ? std::min(experts->dense_layers, layers) : layers;
  }
};

/// Where a framework collects gradients before it reduces them together.
struct ReduceBucket {
  std::int64_t elements = 0;  // 0: it reduces them where they are
  ElementType type = ElementType::bf16;
  std::int64_t buffers = 1;  // one is filled while another is reduced
  bool sorted = false;       // a copy in which each rank's shards follow one another
};

/// How a framework's modules are made, as far as it decides what is in memory: a row of
/// recipe_table().
struct Modules {
  /// SiLU and the product with the other half of the projection are two operations: the product
  /// keeps the output of the first.
  bool activation_in_two = false;
  /// Keys and values are packed into a tensor of their own for the kernel, whose queries stay where
  /// they were projected, with the keys and values beside them.
  bool copies_key_values = false;
  /// A norm is computed in fp32 operation by operation: products keep its input in fp32 and the
  /// normed input in 16 bits, in the place of the input in 16 bits.
  bool norms_in_parts = false;
  /// Tokens of tensor-parallel ranks are gathered into two buffers that stay: inputs of products
  /// into one, gradients of outputs into the other.
  bool gathers_into_buffers = false;
  /// The loss over a split vocabulary computes the softmax beside the logits in fp32, not in place.
  bool softmax_beside_logits = false;
  /// Gradients of a micro batch, in the weights' type, are added to those of the step when its
  /// backward pass is over.
  bool gradients_of_micro_batch = false;
  /// Whole gradients are copied into buckets to be summed over the data-parallel ranks.
  bool reduction_buckets = false;
};

/// What an optimizer holds of a parameter beside the weights themselves.
struct OptimizerStates {
  bool main_weights = true;  // in fp32; else the weights themselves are updated
  ElementType moments = ElementType::fp32;
};

struct Plan {
  std::string name;
  ModelShape model;

  std::int64_t sequence = 1;       // tokens per sequence
  std::int64_t micro_batch = 1;    // sequences per micro batch on one data-parallel rank
  std::int64_t micro_batches = 1;  // per step
  bool causal = true;

  /// Ranks of the one group that attention and MLP split over, each in its own way.
  std::int64_t group_degree = 1;
  /// Ranks of Ulysses beside a tensor-parallel group. Without one it is the group.
  std::int64_t exchange_degree = 1;
  /// Ranks outside both that pass keys and values on, or gather them.
  std::int64_t ring_degree = 1;
  std::int64_t data_degree = 1;
  /// Stages of the pipeline. The model is cut into `virtual_stages` chunks for each, of which stage
  /// i has chunks i, i + pipeline_degree, ...
  std::int64_t pipeline_degree = 1;
  std::int64_t virtual_stages = 1;
  PipelineSchedule schedule = PipelineSchedule::none;
  std::vector<std::int64_t> chunk_layers;  // of each chunk; empty: equal ones
  /// Stages that have a part of the model, where a split leaves the last ones none. 0: all have.
  std::int64_t working_stages = 0;
  /// Axes of the mesh (step.h) in the order in which ranks are numbered along them; empty: theirs.
  std::vector<int> placement;
  AttentionLowering attention = AttentionLowering::ulysses;
  MlpLowering mlp = MlpLowering::replicated;
  /// Tokens are sharded over the group between blocks.
  bool sequence_sharded = true;
  /// Backward passes gather tokens that forward passes gathered; else these keep them.
  bool gathers_again = true;
  /// Parts of a rank's tokens that a tiled MLP works on one after the other.
  std::int64_t mlp_tiles = 1;
  config::ExchangeKind exchange = config::ExchangeKind::packed;
  config::KvRepeat kv_repeat = config::KvRepeat::minimal;
  config::RingImplementation ring = config::RingImplementation::ring_flash_attention;
  config::RingOrder order = config::RingOrder::contiguous;

  /// Ranks that one layer's experts are spread over: neighbours, whole groups where experts are
  /// not split over the group themselves.
  std::int64_t expert_degree = 1;
  /// Whether a group that splits the MLP's features splits those of every expert too.
  bool expert_tensor = true;
  /// Slots of an expert over its mean number of tokens; tokens beyond are dropped. 0: none is, and
  /// routing is balanced.
  double expert_capacity = 0;

  std::int64_t zero_stage = 0;
  config::ZeroScope zero_scope = config::ZeroScope::all;
  /// Parts of the data-parallel ranks within which ZeRO-3 gathers parameters: each has every shard.
  std::int64_t zero_parts = 1;
  /// What the parts share. Replicas have whole sets of shards, and sum their gradients; else
  /// gradients and optimizer states are sharded over all ranks, forward passes gather over them,
  /// and a part keeps shards of what they gathered for its backward passes.
  bool zero_replicated = true;
  /// Replicas sum the shards of every micro batch, not those of the step.
  bool sum_replicas_early = false;
  config::GradientReduce gradient_reduce = config::GradientReduce::reduce_scatter;
  bool reshard_after_forward = true;
  /// Backward gathers what recomputation has just used again; PyTorch FSDP2 keeps it.
  bool gather_after_recompute = true;
  ElementType gradient_type = ElementType::fp32;
  /// Shards of a parameter are rows (PyTorch FSDP2) or flat pieces (DeepSpeed).
  bool shard_rows = false;

  /// Parameters of the next block are gathered while a block computes.
  bool overlap_parameters = false;
  /// Gradients of a block are reduced while the blocks before it compute theirs.
  bool overlap_gradients = false;
  config::TensorParallelOverlap overlap_tensor = config::TensorParallelOverlap::none;
  /// Every collective makes computing wait, also where a framework always hides it.
  bool overlap_nothing = false;

  /// Whole layers run again before they go backward, as `recompute_choice` says.
  bool recompute_layers = false;
  config::LayerChoice recompute_choice = config::LayerChoice::every;
  std::int64_t recompute_number = 1;
  /// What of every layer runs again, where not layers do.
  config::RecomputeModules recompute_modules;
  /// What lies on the host: the inputs of units that run again, optimizer states, shards of ZeRO-3.
  bool offload_activations = false;
  bool offload_optimizer = false;
  bool offload_parameters = false;
  /// Copies to and from the host go beside the computation, inputs of units a unit ahead.
  bool overlap_offload = false;
  config::LossKind loss = config::LossKind::fused;
  std::int64_t loss_chunks = 1;                 // of the chunked loss
  ElementType logits_type = ElementType::fp32;  // in which eager and chunked losses are computed
  config::AttentionKernel kernel = config::AttentionKernel::flash2;
  bool clip_gradients = true;
  /// Layers are modules of TransformerEngine, as Megatron Core builds them by default.
  bool transformer_engine = false;
  Modules modules;
  /// What libraries ask the framework's allocator for; none where no recipe says so.
  Bytes library_workspaces;
  ReduceBucket reduce_bucket;
  /// Weights of that many elements at most stay gathered under ZeRO-3; the optimizer's step gathers
  /// what it has updated.
  std::int64_t persistent_elements = 0;
  /// Elements whose gradients the optimizer has in fp32 at a time; 0: it takes them as they are.
  std::int64_t sub_group_elements = 0;
  OptimizerStates states;
  config::Framework framework = config::Framework::generic;

  [[nodiscard]] std::int64_t ranks() const {
    return ranks_of_replica() * data_degree * pipeline_degree;
  }

  /// Ranks of a stage that work on the same sequences.
  [[nodiscard]] std::int64_t ranks_of_replica() const {
    return group_degree * exchange_degree * ring_degree;
  }

  /// Parts into which the sequence is cut between blocks.
  [[nodiscard]] std::int64_t sequence_shards() const {
    return (sequence_sharded ? group_degree : 1) * exchange_degree * ring_degree;
  }

  /// What the sequence has to be a multiple of: zigzag order cuts a ring rank's part in two.
  [[nodiscard]] std::int64_t sequence_multiple() const {
    const bool halves = ring_degree > 1 && order == config::RingOrder::zigzag;
    return (halves ? 2 : 1) * sequence_shards();
  }

  /// Ranks that exchange heads for tokens.
  [[nodiscard]] std::int64_t ulysses_degree() const {
    return attention == AttentionLowering::ulysses    ? group_degree
           : attention == AttentionLowering::megatron ? exchange_degree
                                                      : 1;
  }

  /// Key/value heads of the whole model as they are exchanged: repeated just so often that every
  /// rank has one, or to as many as query heads.
  ///
  /// EQ exchanged-kv-heads: g' = max(g, t U); a where all heads are repeated and U > 1
  ///   g   kv_heads                                                    [1]
  ///   a   heads                                                       [1]
  ///   t   tensor-parallel ranks that split heads before the exchange  [ranks]
  ///   U   ranks of the exchange                                       [ranks]
  ///   g'  result                                                      [1]
  /// Source: deepspeed, runtime/sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF; verl,
  ///   models/transformers/monkey_patch.py, repeat_kv
  /// Valid:  g is a multiple of t U, or t U of g
  /// Tests:  tests/property/plan_test.cpp
  [[nodiscard]] std::int64_t exchanged_kv_heads() const {
    if (ulysses_degree() == 1) {
      return model.kv_heads;
    }
    const std::int64_t tensor = attention == AttentionLowering::megatron ? group_degree : 1;
    return kv_repeat == config::KvRepeat::all_heads
               ? model.heads
               : std::max(model.kv_heads, tensor * ulysses_degree());
  }

  [[nodiscard]] std::int64_t chunks() const { return pipeline_degree * virtual_stages; }

  [[nodiscard]] std::int64_t layers_of_chunk(std::int64_t chunk) const {
    return chunk_layers.empty() ? model.layers / chunks()
                                : chunk_layers[static_cast<std::size_t>(chunk)];
  }

  /// The part of the data-parallel ranks that experts are spread over.
  [[nodiscard]] std::int64_t expert_data_degree() const {
    const bool split = mlp == MlpLowering::megatron && expert_tensor;
    return split ? expert_degree : std::max<std::int64_t>(1, expert_degree / group_degree);
  }

  /// The data-parallel ranks that are neighbours on an axis of their own: those that experts are
  /// spread over, or those that ZeRO shards over.
  [[nodiscard]] std::int64_t inner_data_degree() const {
    const std::int64_t experts = model.experts ? expert_data_degree() : 1;
    return experts > 1 ? experts : data_degree / zero_parts;
  }

  /// Whether the embedding and the head are split along the vocabulary: they follow the MLP.
  [[nodiscard]] bool vocabulary_parallel() const { return mlp == MlpLowering::megatron; }

  /// Tokens of one step over all ranks.
  [[nodiscard]] std::int64_t step_tokens() const {
    return sequence * micro_batch * data_degree * micro_batches;
  }
};

/// A plan, and every reason why it cannot run or is not modelled yet. Where there is a reason, the
/// plan must not be lowered.
struct Resolution {
  Plan plan;
  Feasibility feasibility;
};

/// Fills in the degrees that `spec` leaves open and checks it against model, cluster and the
/// framework's rules (cost-model: legality differs by framework).
[[nodiscard]] Resolution resolve(const config::StudySpec& study, const config::PlanSpec& spec);

}  // namespace trireme::plan
