// Kernels that memory bounds: norms, activations, copies, layout changes, the optimizer, the loss.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/gpu/device.h"

namespace trireme::calibrate::gpu {

/// Our own kernels (kernels.h), written to pass once over each operand as fused kernels do, at
/// sizes around and far beyond the cache.
class MemoryBoundProbe final : public Probe {
 public:
  explicit MemoryBoundProbe(Device& device);

  [[nodiscard]] std::string_view name() const override { return "memory-bound"; }

  [[nodiscard]] std::vector<Point> points() const override;

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override;

 private:
  Device& device_;
};

}  // namespace trireme::calibrate::gpu
