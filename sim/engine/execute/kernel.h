// Numeric kernels: what each function of a step program computes, in double precision.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.h"

namespace trireme::engine {

/// Numbers that a step needs besides its tensors.
struct ExecutionConstants {
  double norm_epsilon = 1e-5;
  double rotary_base = 10000;
  double learning_rate = 1e-2;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double adam_epsilon = 1e-8;
  double weight_decay = 0.1;        // decoupled, of every parameter
  double clip_norm = 1.0;           // largest norm of all gradients together
  bool rmsnorm = true;              // else LayerNorm
  std::int64_t optimizer_step = 1;  // from 1, for Adam's bias correction
};

/// One operand as a kernel sees it: this rank's part, row-major over the logical dimensions in
/// order. A flat shard is one-dimensional. Padding is part of it: beyond `valid` of a dimension.
struct LocalTensor {
  const program::Tensor* tensor = nullptr;
  program::Access access = program::Access::read;
  std::vector<double> values;
  int rank = 0;
  std::array<std::int64_t, program::kMaxDims> extent{};  // of this rank, padding included
  std::array<std::int64_t, program::kMaxDims> first{};   // logical index of the first element
  std::array<std::int64_t, program::kMaxDims> valid{};   // extent without padding

  [[nodiscard]] std::int64_t elements() const { return static_cast<std::int64_t>(values.size()); }
};

struct KernelContext {
  const program::Mesh& mesh;
  std::int64_t rank = 0;
  const program::Op& op;
  const ExecutionConstants& constants;
  program::TokenOrder order{};
};

/// Operands stand in the order of the function's row in program::function_table(). A kernel reads
/// what is read or updated, and writes what is written or updated, of these operands and of nothing
/// else.
using Kernel = void (*)(const KernelContext& context, std::span<LocalTensor> operands);

/// Null for functions that the executor does itself: collectives, keep, load_batch, select_experts.
[[nodiscard]] Kernel kernel(program::Function function);

}  // namespace trireme::engine
