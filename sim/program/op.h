// Operations of a step program, with their numeric meaning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/core/vocabulary.h"
#include "sim/program/mesh.h"
#include "sim/program/tensor.h"

namespace trireme::program {

using OpId = std::uint32_t;

/// What an operation computes. Its operands, in order, stand in function_table() (op.cpp).
enum class Function : std::uint8_t {
  gemm_forward,
  gemm_input_gradient,
  gemm_weight_gradient,
  grouped_gemm_forward,
  grouped_gemm_input_gradient,
  grouped_gemm_weight_gradient,
  attention_forward,
  attention_backward,
  merge_log_sum_exp,
  correct_output,
  merge_attention,
  assemble_keys,
  assemble_keys_backward,
  norm_forward,
  norm_backward,
  gelu,
  gelu_backward,
  swiglu,
  swiglu_backward,
  rotary,
  rotary_backward,
  add,
  bias_gradient,
  cast,
  copy,
  zero,
  accumulate,
  place_block,
  sum_blocks,
  take_heads,
  return_heads,
  repeat_heads,
  sum_repeated_heads,
  select_experts,
  expert_weights,
  expert_weights_backward,
  dispatch_tokens,
  dispatch_tokens_backward,
  combine_tokens,
  combine_tokens_backward,
  embedding_forward,
  embedding_backward,
  logits_max,
  softmax_statistics,
  shard_statistics,
  cross_entropy,
  cross_entropy_backward,
  cross_entropy_in_place,
  parallel_cross_entropy,
  parallel_cross_entropy_backward,
  half_square_loss,
  square_sum,
  adam,
  load_batch,
  to_host,
  to_device,
  collective,
  stage_send,
  stage_receive,
  stage_sum,
  keep
};

/// How a family of operations is costed, executed and drawn.
enum class Family : std::uint8_t {
  gemm,
  attention,
  pointwise,
  optimizer,
  host_copy,
  collective,
  bookkeeping
};

/// How placements of operands must fit together; checked by the builder.
enum class LayoutRule : std::uint8_t {
  gemm_forward,
  gemm_input_gradient,
  gemm_weight_gradient,
  grouped_gemm_forward,
  grouped_gemm_input_gradient,
  grouped_gemm_weight_gradient,
  attention_forward,
  attention_backward,
  assemble_keys,
  assemble_keys_backward,
  norm_forward,
  norm_backward,
  same,    // all operands placed alike, none partial: the function is not linear
  linear,  // all operands placed alike; partial values may be copied, cast and accumulated
  bias_add,
  bias_gradient,
  place_block,
  sum_blocks,
  take_heads,
  return_heads,
  expert_weights,
  dispatch,
  combine,
  embedding_forward,
  embedding_backward,
  loss,
  square_sum,
  adam,
  collective,
  any
};

inline constexpr std::uint16_t kManyOperands = 0xffff;

struct FunctionInfo {
  Function function;
  std::string_view name;
  Family family;
  LayoutRule rule;
  std::string_view operands;  // "reads -> writes", in order
  std::uint16_t least_operands = 1;
  std::uint16_t most_operands = kManyOperands;
};

inline constexpr std::size_t kFunctions = static_cast<std::size_t>(Function::keep) + 1;

/// Every function's row, in the order of the enumeration (op.cpp).
extern const std::array<FunctionInfo, kFunctions> kFunctionTable;

[[nodiscard]] inline std::span<const FunctionInfo> function_table() {
  return kFunctionTable;
}

/// The function's row: readers ask several times for every operation.
[[nodiscard]] inline const FunctionInfo& info(Function function) {
  return kFunctionTable[static_cast<std::size_t>(function)];
}

enum class Reduction : std::uint8_t { none, sum, max };

enum class Access : std::uint8_t {
  read,
  write,   // defines the instance: once, before every other use
  update,  // changes an existing instance in place
  hold     // keeps the instance alive: a framework holds it longer than its last use
};

/// A tensor's instance: the values of the enclosing loops plus an offset per index.
struct Ref {
  TensorId tensor = kNoTensor;
  std::array<std::int16_t, kIndexCount> offset{};

  constexpr Ref() = default;

  constexpr Ref(TensorId id)  // NOLINT(google-explicit-constructor): a tensor is a reference
      : tensor(id) {}

  /// The instance `shift` further along `index`: layer l writes x.at(Index::layer, 1).
  [[nodiscard]] constexpr Ref at(Index index, int shift) const {
    Ref shifted = *this;
    shifted.offset[static_cast<std::size_t>(index)] = static_cast<std::int16_t>(shift);
    return shifted;
  }
};

struct Operand {
  Ref ref;
  Access access = Access::read;
};

/// The compute stream, the host-copy stream, then one stream per communicator (its axis mask), and
/// one more for those that carry parameters and gradients beside the computation: frameworks give
/// data parallelism and ZeRO a communicator of their own.
using Stream = std::uint8_t;
inline constexpr Stream kComputeStream = 0;
inline constexpr Stream kHostCopyStream = 1;

constexpr Stream communicator_stream(AxisMask group) {
  return static_cast<Stream>(1U + group);
}

inline constexpr unsigned kGroups = 1U << kMaxMeshAxes;

/// The stream of the communicator that carries parameters and gradients of `group`.
constexpr Stream weights_stream(AxisMask group) {
  return static_cast<Stream>(1U + kGroups + group);
}

constexpr bool is_weights_stream(Stream stream) {
  return stream > kGroups && stream <= 2 * kGroups;
}

/// Messages between the stages of a pipeline have a stream for each direction and end, so that one
/// that waits for its other end holds up none of another kind.
inline constexpr Stream kSendForwardStream = 1 + 2 * kGroups;
inline constexpr Stream kSendBackwardStream = kSendForwardStream + 1;
inline constexpr Stream kReceiveForwardStream = kSendForwardStream + 2;
inline constexpr Stream kReceiveBackwardStream = kSendForwardStream + 3;
inline constexpr Stream kStageSumStream = kSendForwardStream + 4;

/// The group of a communicator's stream.
constexpr AxisMask group_of_stream(Stream stream) {
  return static_cast<AxisMask>(stream > 2 * kGroups ? 0 : (stream - 1U) % kGroups);
}

/// Copies between a GPU and its host go both ways at once, beside the computation and beside what
/// the host itself computes.
inline constexpr Stream kToHostStream = kStageSumStream + 1;
inline constexpr Stream kToDeviceStream = kStageSumStream + 2;
inline constexpr Stream kHostStream = kStageSumStream + 3;

inline constexpr int kStreams = kHostStream + 1;

/// Fused attention kernels: what they keep and how fast they are differs.
enum class AttentionImplementation : std::uint8_t { flash2, flash3, cudnn };

constexpr std::string_view name(AttentionImplementation kernel) {
  constexpr std::array<std::string_view, 3> kNames = {"flash2", "flash3", "cudnn"};
  return kNames[static_cast<std::size_t>(kernel)];
}

struct Op {
  std::string_view label;
  Function function = Function::keep;
  Phase phase = Phase::forward;
  Component component = Component::attention;
  Stream stream = kComputeStream;
  /// The compute stream waits for it: nothing is hidden behind it.
  bool blocking = true;
  /// The host's processors do it, on tensors in its memory.
  bool on_host = false;
  // Collectives: group, kind, and the dimensions that are split and joined (Placement::kFlat too).
  CollectiveKind collective = CollectiveKind::all_reduce;
  AxisMask group = 0;
  Reduction reduction = Reduction::none;
  std::int8_t split_dim = -1;
  std::int8_t concat_dim = -1;
  /// Of send_recv, one hop: position p sends to p + shift and receives from p - shift.
  std::int16_t shift = 1;
  /// Of a message between stages: how many stages on its other end is, around the pipeline.
  std::int16_t stages_on = 0;
  // Attention.
  bool causal = false;
  AttentionImplementation attention = AttentionImplementation::flash2;
  /// A factor of the function: 1 / (tokens of the step) of a mean loss; of a router's weights.
  double scale = 1;
  /// Of a router: how its logits become weights.
  RouterScore router = RouterScore::softmax;
  bool normalised = false;  // the weights of one token's experts sum to `scale`
  /// Of a grouped product: rows of all ranks that are a token's, not padding; 0: all are.
  std::int64_t routed_rows = 0;
  std::string_view source;  // why a framework holds a tensor (keep)
  std::uint32_t first_operand = 0;
  std::uint16_t operands = 0;
  // Derived when the program is closed: ranges of Program::births and Program::deaths.
  std::uint32_t first_birth = 0;
  std::uint32_t first_death = 0;
  std::uint16_t births = 0;
  std::uint16_t deaths = 0;
};

/// Whether an operation moves bytes between ranks.
[[nodiscard]] inline bool communicates(const Op& op) {
  return info(op.function).family == Family::collective;
}

/// Whether an operation moves bytes between a GPU and its host.
[[nodiscard]] constexpr bool crosses_host_link(const Op& op) {
  return op.function == Function::to_host || op.function == Function::to_device;
}

/// Whether an operation is one end of a message to the same place in another stage's program.
[[nodiscard]] constexpr bool crosses_stages(const Op& op) {
  return op.function == Function::stage_send || op.function == Function::stage_receive ||
         op.function == Function::stage_sum;
}

}  // namespace trireme::program
