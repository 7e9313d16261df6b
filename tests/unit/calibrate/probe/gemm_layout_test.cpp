#include "calibrate/probe/gemm_layout.h"

#include <cstdint>
#include <vector>

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

using Matrix = std::vector<double>;  // row-major

/// What a column-major library computes: D = op(A) op(B), each where the layout says.
Matrix column_major_product(const GemmLayout& layout, const Matrix& a, const Matrix& b) {
  const auto at = [](const StoredMatrix& stored, std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(stored.transposed ? column + row * stored.leading_dimension
                                                      : row + column * stored.leading_dimension);
  };
  Matrix d(static_cast<std::size_t>(layout.m * layout.n));
  for (std::int64_t i = 0; i < layout.m; ++i) {
    for (std::int64_t j = 0; j < layout.n; ++j) {
      for (std::int64_t k = 0; k < layout.k; ++k) {
        d[at(layout.d, i, j)] += a[at(layout.a, i, k)] * b[at(layout.b, k, j)];
      }
    }
  }
  return d;
}

// T = 5 tokens, in = 3, out = 2.
TEST_CASE("a linear layer is put to a column-major library in three ways", "[calibrate]") {
  const GemmLayout forward = gemm_layout({.m = 5, .n = 2, .k = 3, .pass = GemmPass::forward});
  CHECK(forward.m == 2);                             // out
  CHECK(forward.n == 5);                             // T
  CHECK(forward.k == 3);                             // in
  CHECK(forward.a == StoredMatrix{3, 2, 3, true});   // W: in x out, transposed
  CHECK(forward.b == StoredMatrix{3, 5, 3, false});  // x: in x T
  CHECK(forward.d == StoredMatrix{2, 5, 2, false});

  const GemmLayout data = gemm_layout({.m = 5, .n = 3, .k = 2, .pass = GemmPass::data_gradient});
  CHECK(data.m == 3);                             // in
  CHECK(data.n == 5);                             // T
  CHECK(data.k == 2);                             // out
  CHECK(data.a == StoredMatrix{3, 2, 3, false});  // W
  CHECK(data.b == StoredMatrix{2, 5, 2, false});  // dy: out x T
  CHECK(data.d == StoredMatrix{3, 5, 3, false});

  const GemmLayout weight =
      gemm_layout({.m = 2, .n = 3, .k = 5, .pass = GemmPass::weight_gradient});
  CHECK(weight.m == 3);                             // in
  CHECK(weight.n == 2);                             // out
  CHECK(weight.k == 5);                             // T
  CHECK(weight.a == StoredMatrix{3, 5, 3, false});  // x
  CHECK(weight.b == StoredMatrix{2, 5, 2, true});   // dy, transposed
  CHECK(weight.d == StoredMatrix{3, 2, 3, false});
}

// x = [1 2; 3 4; 5 6] (T = 3, in = 2), W = [1 0; 2 1] (out = 2), dy = [1 1; 0 2; 3 0].
TEST_CASE("the layouts give the products of a linear layer", "[calibrate]") {
  const Matrix x = {1, 2, 3, 4, 5, 6};
  const Matrix weight = {1, 0, 2, 1};
  const Matrix gradient = {1, 1, 0, 2, 3, 0};

  // y = x W^T: rows (1, 4), (3, 10), (5, 16).
  CHECK(column_major_product(gemm_layout({.m = 3, .n = 2, .k = 2, .pass = GemmPass::forward}),
                             weight,
                             x) == Matrix{1, 4, 3, 10, 5, 16});
  // dx = dy W: rows (3, 1), (4, 2), (3, 0).
  CHECK(column_major_product(gemm_layout({.m = 3, .n = 2, .k = 2, .pass = GemmPass::data_gradient}),
                             weight,
                             gradient) == Matrix{3, 1, 4, 2, 3, 0});
  // dW = dy^T x: rows (1 + 15, 2 + 18), (1 + 6, 2 + 8).
  CHECK(
      column_major_product(gemm_layout({.m = 2, .n = 2, .k = 3, .pass = GemmPass::weight_gradient}),
                           x,
                           gradient) == Matrix{16, 20, 7, 10});
}

}  // namespace
}  // namespace trireme::calibrate
