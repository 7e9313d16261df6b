#include "sim/engine/work.h"

#include <stdexcept>

namespace trireme::engine {

using program::Access;
using program::Family;
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

Flops gemm_flops(const GemmExtents& extents) {
  return static_cast<double>(extents.groups) * cost::gemm_flops(extents.m, extents.n, extents.k);
}

/// Rows that one expert computes for all source ranks of [source rank, expert, slot, ...].
std::int64_t rows_of_expert(const Program& program, TensorId id, Extents which) {
  return extent(program, id, program::kSourceDim, which) *
         extent(program, id, program::kSlotDim, which);
}

/// A grouped product by the rows that are tokens: padding of slots is no work of the model.
Flops routed_flops(const Op& op, const GemmExtents& extents, bool weight_gradient) {
  GemmExtents all = extents;
  (weight_gradient ? all.k : all.m) = op.routed_rows;
  all.groups = 1;
  return gemm_flops(all);
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
    case Function::grouped_gemm_forward:  // y[m, n] = x[m, k] weight[n, k], expert by expert
      return {rows_of_expert(program, tensor(0), which),
              extent(program, tensor(1), 1, which),
              extent(program, tensor(1), 2, which),
              extent(program, tensor(1), 0, which)};
    case Function::grouped_gemm_input_gradient:  // dx[m, n] = dy[m, k] weight[k, n]
      return {rows_of_expert(program, tensor(0), which),
              extent(program, tensor(1), 2, which),
              extent(program, tensor(1), 1, which),
              extent(program, tensor(1), 0, which)};
    case Function::grouped_gemm_weight_gradient:  // dweight[m, n] = dy[k, m] x[k, n]
      return {extent(program, tensor(2), 1, which),
              extent(program, tensor(2), 2, which),
              rows_of_expert(program, tensor(0), which),
              extent(program, tensor(2), 0, which)};
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
  shape.value_dim = extent(program, operands[2].ref.tensor, 3, which);
  shape.causal = op.causal;
  // Where ranks own parts of the queries, the rank of the last part is the slowest.
  shape.first_query = shape.key_tokens - shape.query_tokens;
  return shape;
}

program::AxisMask ring_of_attention(const Program& program, const Op& op) {
  const program::TokenOrder& order = program.token_order();
  const auto operands = program.operands(op);
  const Tensor& q = program.tensor(operands[0].ref.tensor);
  const bool splits_queries =
      order.group != 0 && order.ranks > 1 && q.layout.axes_where([](program::Placement placement) {
        return placement == program::Placement::shard(program::kSequenceDim);
      }) == order.group;
  return splits_queries ? order.group : program::AxisMask{0};
}

bool uneven_attention(const Program& program, const Op& op) {
  return op.causal && ring_of_attention(program, op) != 0 &&
         program.token_order().kind != program::OrderKind::striped;
}

AttentionKernels attention_kernels(const Program& program,
                                   const Op& op,
                                   Extents which,
                                   std::int64_t position) {
  using program::OrderKind;
  AttentionKernels kernels;
  const auto launch = [&](const cost::AttentionShape& shape) {
    kernels.shape[kernels.count++] = shape;
  };
  cost::AttentionShape whole = attention_shape(program, op, which);
  if (ring_of_attention(program, op) == 0) {
    launch(whole);
    return kernels;
  }
  const auto operands = program.operands(op);
  const program::Block& block = program.tensor(operands[1].ref.tensor).block;
  const program::TokenOrder& order = program.token_order();
  const std::int64_t own = program.local_extent(operands[0].ref.tensor, program::kSequenceDim);
  whole.query_tokens = Tokens(own);
  whole.first_query = Tokens(0);
  if (!op.causal) {
    launch(whole);
  } else if (block.whole() && order.kind == OrderKind::zigzag) {
    for (const std::int64_t part : {position, 2 * order.ranks - 1 - position}) {
      cost::AttentionShape half = whole;
      half.query_tokens = Tokens(own / 2);
      half.first_query = Tokens(part * (own / 2));
      launch(half);
    }
  } else if (block.whole()) {
    ensure(order.kind == OrderKind::contiguous, "attention: striped tokens with gathered keys");
    whole.first_query = Tokens(position * own);
    launch(whole);
  } else if (block.rotation == 0 || order.kind == OrderKind::striped) {
    launch(whole);
  } else {
    const bool earlier = block.rotation <= position;  // the block is that of an earlier rank
    whole.causal = false;
    if (order.kind == OrderKind::zigzag) {
      (earlier ? whole.key_tokens : whole.query_tokens) = Tokens(own / 2);
      launch(whole);
    } else if (earlier) {
      launch(whole);
    }
  }
  return kernels;
}

namespace {

/// The sum over the positions of the ring of what `count` says of each kernel.
template <class Count>
Flops over_ring(const Program& program, const Op& op, Extents which, Count count) {
  const std::int64_t positions = program.mesh().group_size(ring_of_attention(program, op));
  Flops sum;
  for (std::int64_t position = 0; position < positions; ++position) {
    const AttentionKernels kernels = attention_kernels(program, op, which, position);
    for (const cost::AttentionShape& shape : kernels.all()) {
      sum += count(shape);
    }
  }
  return sum;
}

}  // namespace

Flops executed_flops(const Program& program, const Op& op) {
  switch (program::info(op.function).family) {
    case Family::gemm:
      return gemm_flops(gemm_extents(program, op, Extents::local));
    case Family::attention: {
      const auto of_kernel = op.function == Function::attention_forward
                                 ? cost::attention_forward_flops
                                 : cost::attention_backward_kernel_flops;
      if (const program::AxisMask ring = ring_of_attention(program, op); ring != 0) {
        const auto ranks = static_cast<double>(program.mesh().group_size(ring));
        return 1 / ranks * over_ring(program, op, Extents::local, of_kernel);
      }
      cost::AttentionShape shape = attention_shape(program, op, Extents::local);
      // Equal parts of the queries start at 0, q, 2 q, ...: on average half as far as the last.
      shape.first_query = Tokens(shape.first_query.value() / 2);
      return of_kernel(shape);
    }
    default:
      return {};
  }
}

ModelFlops model_flops(const Program& program, const Op& op) {
  switch (program::info(op.function).family) {
    case Family::gemm: {
      const GemmExtents extents = gemm_extents(program, op, Extents::logical);
      const Flops flops =
          op.routed_rows == 0
              ? gemm_flops(extents)
              : routed_flops(op, extents, op.function == Function::grouped_gemm_weight_gradient);
      return {flops, flops};
    }
    case Family::attention: {
      cost::AttentionShape shape = attention_shape(program, op, Extents::logical);
      const auto of_pass = op.function == Function::attention_forward
                               ? cost::attention_forward_flops
                               : cost::attention_backward_model_flops;
      if (ring_of_attention(program, op) != 0) {
        // The kernels of a ring have its ranks' tokens, and together all heads and sequences.
        const auto in_full = [&](const cost::AttentionShape& kernel) {
          cost::AttentionShape full = kernel;
          full.causal = false;
          full.query_tokens = Tokens(
              program.local_extent(program.operands(op)[0].ref.tensor, program::kSequenceDim));
          full.key_tokens = shape.key_tokens;
          return of_pass(full);
        };
        const auto ranks = static_cast<double>(program.token_order().ranks);
        return {over_ring(program, op, Extents::logical, of_pass), ranks * in_full(shape)};
      }
      const Flops halved = of_pass(shape);
      shape.causal = false;
      return {halved, of_pass(shape)};
    }
    default:
      return {};
  }
}

bool accumulates_in_fp32(const Program& program, const Op& op) {
  const program::Operand& output = program.operands(op).back();
  return output.access == Access::update &&
         program.tensor(output.ref.tensor).type == ElementType::fp32;
}

const std::optional<cost::AttentionKernelCosts>& attention_kernel_costs(
    const cost::AttentionCosts& costs, program::AttentionImplementation kernel) {
  switch (kernel) {
    case program::AttentionImplementation::flash2:
      return costs.flash2;
    case program::AttentionImplementation::flash3:
      return costs.flash3;
    case program::AttentionImplementation::cudnn:
      return costs.cudnn;
  }
  throw std::logic_error("attention_kernel_costs: not a kernel");
}

Bytes host_copied_bytes(const Program& program, const Op& op) {
  return program.tensor(program.operands(op).front().ref.tensor).local_bytes();
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
