// Matrix products on a GPU through cublasLt.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/gpu/device.h"
#include "calibrate/probe/gpu/matmul.h"

namespace trireme::calibrate::gpu {

/// Compares elements of a product of set 0 of fill_gemm() with their sums in double precision.
/// Throws WrongResult.
void verify_gemm(const GemmPoint& point, const GemmBuffers& buffers);

/// Operands of uniform_value(), a result of zero; `set` chooses the seeds.
void fill_gemm(const Stream& stream, const GemmBuffers& buffers, std::uint64_t set);

class GemmProbe final : public Probe {
 public:
  GemmProbe(Device& device, std::string_view name, std::vector<GemmPoint> points);

  [[nodiscard]] std::string_view name() const override { return name_; }

  [[nodiscard]] std::vector<Point> points() const override;

  /// Notes the memory of cublasLt's handle and workspace.
  void start(MemoryStages& stages) override;

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override;

 private:
  Device& device_;
  std::string_view name_;
  std::vector<GemmPoint> points_;
  std::unique_ptr<BlasHandle> handle_;
};

}  // namespace trireme::calibrate::gpu
