// Fused attention on a GPU through cuDNN.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/gpu/attention_kernel.h"
#include "calibrate/probe/gpu/device.h"

namespace trireme::calibrate::gpu {

class AttentionProbe final : public Probe {
 public:
  AttentionProbe(Device& device, std::string_view name, std::vector<AttentionPoint> points);

  [[nodiscard]] std::string_view name() const override { return name_; }

  [[nodiscard]] std::vector<Point> points() const override;

  /// Notes the memory of cuDNN's handle and of its first kernel.
  void start(MemoryStages& stages) override;

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override;

 private:
  [[nodiscard]] const CudnnHandle& handle();
  [[nodiscard]] std::shared_ptr<AttentionKernel> forward_kernel(AttentionPoint point);

  Device& device_;
  std::string_view name_;
  std::vector<AttentionPoint> points_;
  std::unique_ptr<CudnnHandle> handle_;
  // Backward points follow the forward point whose output they need: one compiled kernel is kept.
  AttentionPoint kept_point_;
  std::shared_ptr<AttentionKernel> kept_kernel_;
};

}  // namespace trireme::calibrate::gpu
