// How a row-major matrix product of a linear layer is put to a column-major library.
#pragma once

#include <cstdint>

#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

/// A matrix as cublasLt sees it: column-major as stored, before any transposition.
struct StoredMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading_dimension = 0;
  bool transposed = false;  // op T is applied to what is stored

  friend bool operator==(const StoredMatrix&, const StoredMatrix&) = default;
};

/// D = op(A) op(B), m x n with inner dimension k, all column-major.
struct GemmLayout {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  StoredMatrix a;
  StoredMatrix b;
  StoredMatrix d;

  friend bool operator==(const GemmLayout&, const GemmLayout&) = default;
};

/// The layout of a pass of y[T, out] = x[T, in] W[out, in]^T, every matrix row-major and
/// contiguous. A row-major r x c matrix is a column-major c x r one with leading dimension c, so
/// the product is computed transposed: what is the second operand of the row-major product comes
/// first.
///
///   forward          y  = x W^T    A = W transposed, B = x              m out, n T,   k in
///   data gradient    dx = dy W     A = W,            B = dy             m in,  n T,   k out
///   weight gradient  dW = dy^T x   A = x,            B = dy transposed  m in,  n out, k T
[[nodiscard]] GemmLayout gemm_layout(const GemmPoint& point);

}  // namespace trireme::calibrate
