// Copies between host and device.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/gpu/device.h"

namespace trireme::calibrate::gpu {

/// Both directions, from page-locked memory by the copy engines and from ordinary memory.
class HostCopyProbe final : public Probe {
 public:
  explicit HostCopyProbe(Device& device) : device_(device) {}

  [[nodiscard]] std::string_view name() const override { return "host-copy"; }

  [[nodiscard]] std::vector<Point> points() const override;

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override;

 private:
  Device& device_;
};

}  // namespace trireme::calibrate::gpu
