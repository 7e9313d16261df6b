// Collectives over NCCL on the groups that plans use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/gpu/device.h"
#include "calibrate/probe/gpu/nccl_communicator.h"
#include "calibrate/probe/gpu/nccl_watch.h"
#include "calibrate/probe/groups.h"

namespace trireme::calibrate::gpu {

/// How NCCL was asked to run a collective, as points name it. The last two need memory in symmetric
/// windows and are left out where NCCL runs something else there.
inline constexpr std::string_view kNccl = "nccl";                 // kernels, ordinary memory
inline constexpr std::string_view kNcclGrouped = "nccl grouped";  // sends and receives in a group
inline constexpr std::string_view kNcclSymmetric = "nccl symmetric kernel";
inline constexpr std::string_view kNcclCopyEngines = "nccl copy engines";

/// The communicators of a process: one of all ranks, and for each shape one with kernels and one
/// that may use the copy engines, made when they are first asked for. All ranks ask for the same.
class CommunicatorSet {
 public:
  CommunicatorSet(CallWatch& watch, std::int64_t ranks_per_node);

  [[nodiscard]] CallWatch& watch() const { return watch_; }

  [[nodiscard]] std::vector<GroupShape> shapes() const;

  [[nodiscard]] Communicator& of(const GroupShape& shape, CopyBy copy_by);

 private:
  struct Made {
    GroupShape shape;
    CopyBy copy_by;
    std::unique_ptr<Communicator> communicator;
  };

  CallWatch& watch_;
  std::int64_t ranks_per_node_;
  std::unique_ptr<Communicator> all_;
  std::vector<Made> made_;
};

/// One collective with its buffers on one rank. Throws PointRefused where NCCL does not run it the
/// way that `method` says.
class CollectiveBuffers {
 public:
  CollectiveBuffers(CommunicatorSet& communicators, const CollectivePoint& point);

  [[nodiscard]] Communicator& communicator() const { return communicator_; }

  void issue(const Stream& stream) const;

  /// Fills, runs once and compares all of it. Throws WrongResult.
  void verify(Device& device) const;

  /// Throws PointRefused unless NCCL runs what the point's method names. Called by all ranks.
  void check_path(Device& device) const;

 private:
  [[nodiscard]] void* input() const;
  [[nodiscard]] void* output() const;

  CollectivePoint point_;
  Communicator& communicator_;
  CallWatch& watch_;
  CollectiveExtents extents_;
  Buffer own_;
  std::unique_ptr<SymmetricWindow> window_;
};

class CollectiveProbe final : public Probe {
 public:
  /// `communicators` and `device` outlive the probe.
  CollectiveProbe(Device& device, CommunicatorSet& communicators);

  [[nodiscard]] std::string_view name() const override { return "collectives"; }

  /// On one rank a point of each kind that prepare() refuses, so that it is said why.
  [[nodiscard]] std::vector<Point> points() const override;

  /// Makes every communicator and runs each kind of collective once on it; notes the most memory
  /// of any rank before, after each communicator and after each first run.
  void start(MemoryStages& stages) override;

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override;

 private:
  Device& device_;
  CommunicatorSet& communicators_;
};

}  // namespace trireme::calibrate::gpu
