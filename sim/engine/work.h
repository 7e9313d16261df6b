// How much one operation computes and moves: the bridge from operations to cost formulas.
#pragma once

#include <cstdint>
#include <optional>

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

[[nodiscard]] cost::AttentionShape attention_shape(const program::Program& program,
                                                   const program::Op& op,
                                                   Extents which);

/// Operations that a kernel of one rank executes, padding and a fused attention's recomputation
/// included, on average where ranks attend with different queries; zero for what is neither a
/// matrix product nor attention.
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

}  // namespace trireme::engine
