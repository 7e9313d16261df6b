// What every lowering needs while it emits a step: the builder, the plan, shapes and layouts.
#pragma once

#include <string_view>

#include "sim/plan/plan.h"
#include "sim/program/builder.h"

namespace trireme::plan {

using program::AxisMask;
using program::Layout;
using program::Placement;
using program::Ref;
using program::Shape;
using program::TensorId;

/// The plan's mesh: the group that splits sequence, heads and features is innermost, so that it
/// sits on neighbouring ranks; then the ranks that split tokens beside it (the exchange of heads
/// next to tensor parallelism, the ring outside the exchange); data parallelism is outside. Where
/// experts are spread over, or ZeRO shards over, a part of the data-parallel ranks, these are two
/// axes, of which that part is the inner one.
inline constexpr int kGroupAxis = 0;
inline constexpr int kExchangeAxis = 1;
inline constexpr int kRingAxis = 2;
inline constexpr int kDataAxis = 3;
inline constexpr int kOuterDataAxis = 4;
inline constexpr int kPipelineAxis = 5;  // only where there is a pipeline
inline constexpr AxisMask kGroup = program::axis_bit(kGroupAxis);
inline constexpr AxisMask kExchange = program::axis_bit(kExchangeAxis);
inline constexpr AxisMask kRing = program::axis_bit(kRingAxis);
inline constexpr AxisMask kExpertData = program::axis_bit(kDataAxis);
inline constexpr AxisMask kOuterData = program::axis_bit(kOuterDataAxis);
inline constexpr AxisMask kData = kExpertData | kOuterData;
inline constexpr AxisMask kPipeline = program::axis_bit(kPipelineAxis);

/// Ranks that hold other tokens than those of the group: everywhere but inside attention.
inline constexpr AxisMask kContext = static_cast<AxisMask>(kExchange | kRing);

/// Ranks that hold the same part of a weight that the group splits, and other tokens.
inline constexpr AxisMask kReplicas = static_cast<AxisMask>(kContext | kData);

/// The ranks between which Ulysses exchanges heads for tokens.
[[nodiscard]] constexpr AxisMask exchange_group(const Plan& plan) {
  return plan.attention == AttentionLowering::megatron ? kExchange : kGroup;
}

/// Whether copies between GPU and host hold up the computation.
[[nodiscard]] constexpr program::Completion host_copies(const Plan& plan) {
  return plan.overlap_offload ? program::Completion::asynchronous : program::Completion::blocking;
}

[[nodiscard]] program::Mesh mesh_of(const Plan& plan);

/// One emission of a step program.
class Step {
 public:
  Step(program::Builder& builder, const Plan& of_plan) : b(builder), plan(of_plan) {}

  program::Builder& b;
  const Plan& plan;
  /// The forward pass that is emitted leaves nothing: its layer runs again.
  bool runs_again = false;
  /// Where every gather of the head's input goes; kNoTensor: each into a tensor of its own.
  TensorId head_input = program::kNoTensor;
  /// Likewise, of what products read going forward, and of the gradients of what they wrote.
  TensorId gathered_inputs = program::kNoTensor;
  TensorId gathered_gradients = program::kNoTensor;

  // Dimensions, logical: the batch counts the sequences of all data-parallel ranks.
  [[nodiscard]] program::Dim batch() const { return {plan.micro_batch * plan.data_degree, "B"}; }

  [[nodiscard]] program::Dim sequence() const { return {plan.sequence, "S"}; }

  [[nodiscard]] program::Dim hidden() const { return {plan.model.hidden, "h"}; }

  [[nodiscard]] program::Dim groups() const { return {plan.model.kv_heads, "g"}; }

  [[nodiscard]] program::Dim heads_per_group() const {
    return {plan.model.heads / plan.model.kv_heads, "a/g"};
  }

  /// Key/value heads as they are exchanged (see Plan::exchanged_kv_heads), and query heads of each.
  [[nodiscard]] program::Dim exchanged_groups() const {
    const std::int64_t groups = plan.exchanged_kv_heads();
    return {groups, groups == plan.model.kv_heads ? "g" : "g'"};
  }

  [[nodiscard]] program::Dim head_dim() const { return {plan.model.head_dim, "d"}; }

  [[nodiscard]] Shape hidden_shape() const { return {batch(), sequence(), hidden()}; }

  /// Batch over the data axis, sequences over the ranks beside the group, in which every rank has
  /// the same tokens.
  [[nodiscard]] static Layout whole_sequences() {
    return Layout()
        .with(kData, Placement::shard(program::kBatchDim))
        .with(kContext, Placement::shard(program::kSequenceDim));
  }

  /// As whole_sequences, the sequence sharded over the group.
  [[nodiscard]] static Layout sequence_shards() {
    return whole_sequences().with(kGroup, Placement::shard(program::kSequenceDim));
  }

  /// As whole_sequences, heads or features sharded over the group.
  [[nodiscard]] static Layout feature_shards() {
    return whole_sequences().with(kGroup, Placement::shard(program::kFeatureDim));
  }

  /// As whole_sequences, a sum over the group still due.
  [[nodiscard]] static Layout partial_sums() {
    return whole_sequences().with(kGroup, Placement::partial_sum());
  }

  /// The residual stream between blocks.
  [[nodiscard]] Layout between_blocks() const {
    return plan.sequence_sharded ? sequence_shards() : whole_sequences();
  }

  /// A value of the current phase inside a layer: an activation when it goes forward, a temporary
  /// when it is a gradient that goes backward.
  TensorId value(std::string_view name,
                 const Shape& shape,
                 const Layout& layout,
                 ElementType type = ElementType::bf16) {
    return declare(name, shape, layout, type, value_role(), program::kPerLayerAndMicroBatch);
  }

  /// The same outside the layers.
  TensorId micro_batch_value(std::string_view name,
                             const Shape& shape,
                             const Layout& layout,
                             ElementType type = ElementType::bf16) {
    return declare(name, shape, layout, type, value_role(), program::kPerMicroBatch);
  }

  /// A value of the current phase inside a layer, of one chunk of tokens.
  TensorId chunk_value(std::string_view name, const Shape& shape, const Layout& layout) {
    constexpr auto kPerChunkToo = static_cast<program::IndexMask>(
        program::kPerLayerAndMicroBatch | program::index_bit(program::Index::chunk));
    return declare(name, shape, layout, ElementType::bf16, value_role(), kPerChunkToo);
  }

  /// A buffer that a collective sends from or receives into.
  TensorId buffer(std::string_view name, const Shape& shape, const Layout& layout) {
    return declare(name,
                   shape,
                   layout,
                   ElementType::bf16,
                   program::Role::communication_buffer,
                   program::kPerLayerAndMicroBatch);
  }

  /// One block of [B, S, h] in a ring of the group, in a buffer.
  TensorId block_buffer(std::string_view name, const program::Block& block, const Layout& layout) {
    const std::int64_t ranks = b.mesh().group_size(block.group);
    program::TensorSpec spec;
    spec.name = name;
    spec.role = program::Role::communication_buffer;
    spec.component = b.component();
    spec.varies = program::kPerLayerAndMicroBatch;
    spec.shape = hidden_shape().with(program::kSequenceDim, {plan.sequence / ranks, "S'"});
    spec.layout = layout;
    spec.block = block;
    return b.declare(spec);
  }

  TensorId workspace(std::string_view name,
                     const Shape& shape,
                     const Layout& layout,
                     ElementType type) {
    return declare(
        name, shape, layout, type, program::Role::workspace, program::kPerLayerAndMicroBatch);
  }

 private:
  [[nodiscard]] program::Role value_role() const {
    return b.phase() == Phase::backward ? program::Role::temporary : program::Role::activation;
  }

  TensorId declare(std::string_view name,
                   const Shape& shape,
                   const Layout& layout,
                   ElementType type,
                   program::Role role,
                   program::IndexMask varies) {
    program::TensorSpec spec;
    spec.name = name;
    spec.role = role;
    spec.component = b.component();
    spec.type = type;
    spec.varies = varies;
    spec.shape = shape;
    spec.layout = layout;
    return b.declare(spec);
  }
};

}  // namespace trireme::plan
