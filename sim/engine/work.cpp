#include "sim/engine/work.h"

namespace trireme::engine {

using program::Access;
using program::Function;
using program::Op;
using program::Program;
using program::Tensor;
using program::TensorId;

namespace {

std::int64_t extent(const Program& program, TensorId id, int dim, Extents which) {
  return which == Extents::local ? program.local_extent(id, dim)
                                 : program.tensor(id).shape[dim].size;
}

std::int64_t tokens(const Program& program, TensorId id, Extents which) {
  return extent(program, id, program::kBatchDim, which) *
         extent(program, id, program::kSequenceDim, which);
}

}  // namespace

GemmExtents gemm_extents(const Program& program, const Op& op, Extents which) {
  const auto operands = program.operands(op);
  const auto tensor = [&](std::size_t i) { return operands[i].ref.tensor; };
  switch (op.function) {
    case Function::gemm_forward:  // y[m, n] = x[m, k] weight[n, k]
      return {tokens(program, tensor(0), which),
              extent(program, tensor(1), 0, which),
              extent(program, tensor(1), 1, which)};
    case Function::gemm_input_gradient:  // dx[m, n] = dy[m, k] weight[k, n]
      return {tokens(program, tensor(0), which),
              extent(program, tensor(1), 1, which),
              extent(program, tensor(1), 0, which)};
    case Function::gemm_weight_gradient:  // dweight[m, n] = dy[k, m] x[k, n]
      return {extent(program, tensor(2), 0, which),
              extent(program, tensor(2), 1, which),
              tokens(program, tensor(0), which)};
    default:
      throw std::logic_error("gemm_extents: not a matrix product");
  }
}

cost::AttentionShape attention_shape(const Program& program, const Op& op, Extents which) {
  // q is [batch, sequence, key/value groups, heads per group, head dim], k has one head per group.
  const auto operands = program.operands(op);
  const TensorId q = operands[0].ref.tensor;
  const TensorId k = operands[1].ref.tensor;
  cost::AttentionShape shape;
  shape.sequences = extent(program, q, program::kBatchDim, which);
  shape.query_heads = extent(program, q, 2, which) * extent(program, q, 3, which);
  shape.query_tokens = Tokens(extent(program, q, program::kSequenceDim, which));
  shape.key_tokens = Tokens(extent(program, k, program::kSequenceDim, which));
  shape.head_dim = extent(program, q, 4, which);
  shape.causal = op.causal;
  // Where ranks own parts of the queries, the rank of the last part is the slowest.
  shape.first_query = shape.key_tokens - shape.query_tokens;
  return shape;
}

Bytes moved_bytes(const Program& program, const Op& op) {
  const auto operands = program.operands(op);
  const auto bytes = [&](std::size_t i) {
    return program.tensor(operands[i].ref.tensor).local_bytes();
  };
  if (op.function == Function::embedding_forward) {  // as many rows of the table as of the result
    return bytes(0) + 2 * bytes(operands.size() - 1);
  }
  if (op.function == Function::embedding_backward) {  // adds to the rows of its tokens
    return bytes(0) + 3 * bytes(1);
  }
  Bytes moved;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    moved += operands[i].access == Access::update ? 2 * bytes(i) : bytes(i);
  }
  return moved;
}

}  // namespace trireme::engine
