// Fused attention as cuDNN's graphs: forward, and backward with its scratch memory.
//
// Activations are [batch, sequence, heads, head dim] in memory, as frameworks keep them in
// training; the log-sum-exp ("stats") is packed fp32 [batch, heads, sequence].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "calibrate/probe/gpu/cudnn_graph.h"

namespace trireme::calibrate::gpu {

/// The kernel names of attention points that run on cuDNN: the graph of elementary operations,
/// which cuDNN fuses, and its single operation, which 9.19 has forward and without a mask only.
inline constexpr std::string_view kCompositeAttention = "cudnn";
inline constexpr std::string_view kUnifiedAttention = "cudnn unified";

/// Ids of what memory, or a host scalar, is bound to.
namespace attention_id {
inline constexpr std::int64_t q = 1;
inline constexpr std::int64_t k = 2;
inline constexpr std::int64_t v = 3;
inline constexpr std::int64_t output = 4;
inline constexpr std::int64_t stats = 5;
inline constexpr std::int64_t output_gradient = 6;
inline constexpr std::int64_t q_gradient = 7;
inline constexpr std::int64_t k_gradient = 8;
inline constexpr std::int64_t v_gradient = 9;
inline constexpr std::int64_t softmax_sum = 10;     // fp32 scratch: gradient . output of each row
inline constexpr std::int64_t q_accumulator = 11;   // fp32 scratch: the query's gradient
inline constexpr std::int64_t scale = 12;           // fp32 on the host
inline constexpr std::int64_t minus_infinity = 13;  // fp32 on the host
inline constexpr std::int64_t one = 14;             // fp32 on the host
inline constexpr std::int64_t key_tokens = 15;      // int32 on the host
inline constexpr std::int64_t query_tokens = 16;    // int32 on the host
}  // namespace attention_id

/// A finalised operation graph with what it refers to.
struct AttentionGraph {
  std::vector<Descriptor> parts;  // before `graph`, so that it goes first
  Descriptor graph;
  std::size_t operations = 0;
};

/// Top-left masks of equal lengths are causal squares; with fewer queries than keys the last query
/// sees all keys, as a context-parallel rank's do. Throws CudnnError where the operations do not
/// fit together, and std::logic_error for a kernel that is none of the two above.
[[nodiscard]] AttentionGraph build_attention(const AttentionPoint& point);

/// Device memory of a point, without the workspace of cuDNN.
///
/// EQ attention-backward-scratch: W = 4 b a s d + 4 b a s
///   b  sequences   [1]
///   a  heads       [1]
///   s  query_tokens  [tokens]
///   d  head_dim    [1]
///   W  scratch: an fp32 accumulator of the query's gradient, and a sum of each row  [bytes]
/// Source: cudnn-frontend, composite attention backward
/// Valid:  cuDNN 9.6 to 9.19, not the deterministic form
/// Tests:  tests/gpu/attention_graph_test.cpp
[[nodiscard]] Bytes attention_scratch(const AttentionPoint& point);

/// What cuDNN reports as its workspace for the first configuration on an H100 or H200.
///
/// EQ cudnn-attention-workspace: forward and backward of a = g: W = 256; backward of a > g:
///     W = 256 + 4 b a s d
///   b  sequences      [1]
///   a  heads          [1]
///   g  kv_heads       [1]
///   s  key_tokens     [tokens]
///   d  head_dim       [1]
///   W  result: the gradients of K and V of every query head in bf16  [bytes]
/// Source: cudnn, reported by version 9.19.0 for sm_90
/// Valid:  cuDNN 9.19 on sm_90
/// Tests:  tests/gpu/attention_graph_test.cpp
[[nodiscard]] Bytes cudnn_attention_workspace(const AttentionPoint& point);

}  // namespace trireme::calibrate::gpu
