#include "sim/cost/flops.h"

#include "sim/cost/attention.h"

namespace trireme::cost {

// EQ gemm-flops: F = 2 m n k
//   m, n  rows and columns of the result                                      [1]
//   k     inner dimension                                                     [1]
//   F     result: a multiply and an add for each term                         [flop]
// Source: narayanan2021, appendix "Floating-point operations"
// Valid:  dense.
// Tests:  tests/unit/cost/flops_test.cpp
Flops gemm_flops(std::int64_t m, std::int64_t n, std::int64_t k) {
  return Flops(2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
}

// EQ attention-flops: F = 2 B a (d + v) A, A = Sq Skv, causal A = Sq (q0 + Sq / 2)
//   B    shape.sequences                                                      [1]
//   a    shape.query_heads                                                    [1]
//   d    shape.head_dim, v value_dim(shape)                                   [1]
//   Sq   shape.query_tokens                                                   [tokens]
//   Skv  shape.key_tokens                                                     [tokens]
//   q0   shape.first_query: keys that even the first query sees whole         [tokens]
//   A    pairs of a query and a key; half the square when q0 = 0 and Sq = Skv [tokens^2]
//   F    result: two matrix products forward                                  [flop]
// Source: dao2023-flash2, section 4.1 (halved when causal, a kernel's backward 2.5 times);
//   narayanan2021, appendix "Floating-point operations" (a model's backward twice)
// Valid:  the diagonal counted as half a query's width, softmax left out.
// Tests:  tests/unit/cost/flops_test.cpp
Flops attention_forward_flops(const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.query_tokens.value());
  const double keys = shape.causal ? static_cast<double>(shape.first_query.value()) + queries / 2
                                   : static_cast<double>(shape.key_tokens.value());
  return Flops(2 * static_cast<double>(shape.sequences) * static_cast<double>(shape.query_heads) *
               static_cast<double>(shape.head_dim + value_dim(shape)) * queries * keys);
}

Flops attention_backward_model_flops(const AttentionShape& shape) {
  return 2.0 * attention_forward_flops(shape);
}

Flops attention_backward_kernel_flops(const AttentionShape& shape) {
  return attention_backward_work(shape) * attention_forward_flops(shape);
}

}  // namespace trireme::cost
