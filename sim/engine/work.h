// How much one operation computes and moves: the bridge from operations to cost formulas.
#pragma once

#include <cstdint>

#include "sim/cost/flops.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// A matrix product's extents: m tokens (or rows), n outputs, k summed over.
struct GemmExtents {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// Whether extents are one rank's (padding included) or the model's own.
enum class Extents : std::uint8_t { local, logical };

[[nodiscard]] GemmExtents gemm_extents(const program::Program& program,
                                       const program::Op& op,
                                       Extents which);

[[nodiscard]] cost::AttentionShape attention_shape(const program::Program& program,
                                                   const program::Op& op,
                                                   Extents which);

/// Bytes that a kernel reads and writes.
///
/// EQ moved-bytes: M = sum over operands of t b; of an embedding's table only the rows of its tokens
///   b  local_bytes of an operand                              [bytes]
///   t  passes: 1 for what is read or written, 2 for updates   [1]
///   M  result                                                 [bytes]
/// Source: derived: each operand passes through memory once, an update both ways
/// Valid:  fused kernels on tensors larger than the cache
/// Tests:  tests/unit/engine/work_test.cpp
[[nodiscard]] Bytes moved_bytes(const program::Program& program, const program::Op& op);

}  // namespace trireme::engine
