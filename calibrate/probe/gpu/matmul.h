// Matrix products of linear layers by cublasLt.
#pragma once

#include <cstdint>
#include <cublasLt.h>
#include <memory>

#include "calibrate/measurement/measurement.h"
#include "calibrate/probe/gemm_layout.h"
#include "calibrate/probe/gpu/device.h"

namespace trireme::calibrate::gpu {

/// cublasLt and the workspace that its products share.
class BlasHandle {
 public:
  BlasHandle();
  ~BlasHandle();
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;

  [[nodiscard]] cublasLtHandle_t get() const { return handle_; }

  [[nodiscard]] const Buffer& workspace() const { return workspace_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
};

/// Operands of a product; the result has the element type of the point, or fp32 when it
/// accumulates.
struct GemmBuffers {
  explicit GemmBuffers(const GemmPoint& point);

  Buffer a;
  Buffer b;
  Buffer d;
};

[[nodiscard]] Bytes gemm_buffer_bytes(const GemmPoint& point);

/// A product with the algorithm that cublasLt's heuristic puts first, which is what frameworks run.
/// 16-bit operands, fp32 inside, no reduction in 16 bits.
class Matmul {
 public:
  /// Throws PointRefused where cublasLt has no algorithm.
  Matmul(const BlasHandle& handle, const GemmPoint& point);

  /// d = op(a) op(b), or d += ... when the point accumulates.
  void execute(const Stream& stream, const GemmBuffers& buffers) const;

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t operation) const;
    void operator()(cublasLtMatrixLayout_t layout) const;
  };

  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;

  [[nodiscard]] static Layout layout_of(const StoredMatrix& matrix, ElementType type);

  const BlasHandle& handle_;
  std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy> operation_;
  Layout a_;
  Layout b_;
  Layout d_;
  cublasLtMatmulAlgo_t algorithm_{};
  float beta_ = 0;
};

}  // namespace trireme::calibrate::gpu
