// Key/value heads repeated before an exchange that needs more of them, and the way back.
#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

/// Calls `visit(head, repeated)` with the place of every element of a head [batch, sequence, heads,
/// head dim] and with that of each of its copies, which follow each other.
template <class Visit>
void for_each_copy(const LocalTensor& heads, const LocalTensor& repeated, Visit visit) {
  ensure(heads.rank == 4 && repeated.rank == 4 && heads.extent[3] == repeated.extent[3] &&
             token_count(heads) == token_count(repeated) &&
             repeated.extent[2] % heads.extent[2] == 0,
         "repeat_heads: not the same heads several times");
  const std::int64_t times = repeated.extent[2] / heads.extent[2];
  const std::int64_t head_dim = heads.extent[3];
  const std::int64_t all = repeated.elements() / head_dim;
  for (std::int64_t copy = 0; copy < all; ++copy) {
    for (std::int64_t i = 0; i < head_dim; ++i) {
      visit(static_cast<std::size_t>(copy / times * head_dim + i),
            static_cast<std::size_t>(copy * head_dim + i));
    }
  }
}

}  // namespace

// Source: pytorch, torch.repeat_interleave
void repeat_heads(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& heads = operands[0];
  LocalTensor& repeated = operands[1];
  for_each_copy(heads, repeated, [&](std::size_t head, std::size_t copy) {
    repeated.values[copy] = heads.values[head];
  });
}

void sum_repeated_heads(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& repeated = operands[0];
  LocalTensor& heads = operands[1];
  std::fill(heads.values.begin(), heads.values.end(), 0.0);
  for_each_copy(heads, repeated, [&](std::size_t head, std::size_t copy) {
    heads.values[head] += repeated.values[copy];
  });
}

}  // namespace trireme::engine
