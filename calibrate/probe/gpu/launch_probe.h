// What the host takes to launch a kernel.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/gpu/device.h"

namespace trireme::calibrate::gpu {

/// An empty kernel, launched one after the other on a stream while the host's clock runs.
class LaunchProbe final : public Probe {
 public:
  explicit LaunchProbe(Device& device) : device_(device) {}

  [[nodiscard]] std::string_view name() const override { return "launch"; }

  [[nodiscard]] std::vector<Point> points() const override;

  /// Notes the memory of the context and of our own kernels.
  void start(MemoryStages& stages) override;

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override;

 private:
  Device& device_;
};

}  // namespace trireme::calibrate::gpu
