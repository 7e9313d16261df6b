// How much one operation computes and moves: the bridge from operations to cost formulas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "sim/cost/flops.h"
#include "sim/cost/machine_costs.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// A matrix product's extents: m tokens (or rows), n outputs, k summed over; of a grouped product
/// those of one of its groups.
struct GemmExtents {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t groups = 1;
};

/// Whether extents are one rank's (padding included) or the model's own.
enum class Extents : std::uint8_t { local, logical };

[[nodiscard]] GemmExtents gemm_extents(const program::Program& program,
                                       const program::Op& op,
                                       Extents which);

/// Of an operation whose ranks all have the same work, or that of the slowest.
[[nodiscard]] cost::AttentionShape attention_shape(const program::Program& program,
                                                   const program::Op& op,
                                                   Extents which);

/// The ranks that hold parts of the queries or keys of an attention operation, which decide by
/// their position in the ring how much of it they see; 0: none do.
[[nodiscard]] program::AxisMask ring_of_attention(const program::Program& program,
                                                  const program::Op& op);

/// Whether those ranks have different work.
[[nodiscard]] bool uneven_attention(const program::Program& program, const program::Op& op);

/// What the rank at a position of the ring computes: at most two kernels. Those of no tokens are
/// not launched.
struct AttentionKernels {
  std::array<cost::AttentionShape, 2> shape;
  std::size_t count = 0;

  /// Of a variable only: in a loop over a temporary's, the shapes would be gone.
  [[nodiscard]] std::span<const cost::AttentionShape> all() const& {
    return std::span(shape).first(count);
  }

  void all() const&& = delete;
};

/// EQ ring-attention-work: contiguous i = 0: the causal square c x c; 0 < i <= r: c x c; i > r:
/// none;
///   zigzag i = 0: the causal square; 0 < i <= r: c x c/2; i > r: c/2 x c; striped: the causal
///   square; gathered keys, contiguous: c queries from r c on; zigzag: c/2 from r c/2 and c/2 from
///   (2 R - 1 - r) c/2 on
///   i  rotation: the block is that of rank r - i                     [1]
///   r  position of the rank in the ring                              [1]
///   R  ranks of the ring                                             [1]
///   c  tokens of one rank                                            [tokens]
/// Source: ring-flash-attention, ring_flash_attn.py, zigzag_ring_flash_attn.py,
///   stripe_flash_attn.py; transformer-engine, AttnFuncWithCPAndKVAllGather
/// Valid:  causal; without a mask every rank has all pairs. The diagonal counts as half a query.
/// Tests:  tests/property/context_test.cpp
[[nodiscard]] AttentionKernels attention_kernels(const program::Program& program,
                                                 const program::Op& op,
                                                 Extents which,
                                                 std::int64_t position);

/// Operations that a kernel of one rank executes, padding and a fused attention's recomputation
/// included, on average where ranks have different work; zero for what is neither a matrix product
/// nor attention.
[[nodiscard]] Flops executed_flops(const program::Program& program, const program::Op& op);

/// Operations that the model requires of an operation over all ranks, attention's backward twice
/// its forward; zero for what is neither a matrix product nor attention.
struct ModelFlops {
  Flops causal_halved;
  Flops causal_in_full;
};

[[nodiscard]] ModelFlops model_flops(const program::Program& program, const program::Op& op);

/// Whether a matrix product adds to a buffer in fp32, as a weight gradient does.
[[nodiscard]] bool accumulates_in_fp32(const program::Program& program, const program::Op& op);

/// The coefficients of the attention kernel that an operation names; empty when they are unknown.
[[nodiscard]] const std::optional<cost::AttentionKernelCosts>& attention_kernel_costs(
    const cost::AttentionCosts& costs, program::AttentionImplementation kernel);

/// Bytes that a kernel reads and writes.
///
/// EQ moved-bytes: M = sum over operands of t b
///   b  local_bytes of an operand; of an embedding's table the rows of its tokens alone  [bytes]
///   t  passes: 1 for what is read or written, 2 for updates   [1]
///   M  result                                                 [bytes]
/// Source: derived: each operand passes through memory once, an update both ways
/// Valid:  fused kernels on tensors larger than the cache
/// Tests:  tests/unit/engine/work_test.cpp
[[nodiscard]] Bytes moved_bytes(const program::Program& program, const program::Op& op);

/// Bytes that a copy between GPU and host carries over their link.
///
/// EQ host-copied-bytes: C = b
///   b  local_bytes of what is copied                           [bytes]
///   C  result                                                  [bytes]
/// Source: derived: every element crosses once, in its own type
/// Valid:  one rank; copies are never packed or padded further
/// Tests:  tests/property/verify_test.cpp
[[nodiscard]] Bytes host_copied_bytes(const program::Program& program, const program::Op& op);

}  // namespace trireme::engine
