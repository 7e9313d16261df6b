// A collective beside a matrix product: how much both slow down.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/gpu/collective_probe.h"
#include "calibrate/probe/gpu/device.h"
#include "calibrate/probe/gpu/matmul.h"

namespace trireme::calibrate::gpu {

/// What stands in for a collective on one GPU: a copy on as many blocks as NCCL's kernels take. It
/// has their share of multiprocessors and of the memory's bandwidth, not their links.
inline constexpr std::string_view kCopyBlocks = "copy on 32 blocks";

/// Each alone and each beside the other, which runs on a stream of its own from before the first
/// until after the last of what is timed.
class InterferenceProbe final : public Probe {
 public:
  /// What it is given outlives the probe.
  InterferenceProbe(Device& device, CommunicatorSet& communicators);

  [[nodiscard]] std::string_view name() const override { return "interference"; }

  [[nodiscard]] std::vector<Point> points() const override;

  void start(MemoryStages& stages) override;

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override;

 private:
  Device& device_;
  CommunicatorSet& communicators_;
  std::unique_ptr<BlasHandle> handle_;
};

}  // namespace trireme::calibrate::gpu
