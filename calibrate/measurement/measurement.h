// What was measured: one point of a probe and the time that it took.
//
// Probes write these, importers read them out of other tools' files, fits take them. A point is the
// key of its row: two rows of one point are two measurements of the same thing.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "sim/core/vocabulary.h"
#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

/// Repeats of one point, in seconds.
struct Timing {
  Seconds median;
  Seconds lower_quartile;
  Seconds upper_quartile;
  std::int64_t samples = 0;  // 0: the source does not say
  bool settled = true;       // false: the time was up before the median's interval was small
};

/// A collective over ranks that fill nodes in order.
struct CollectivePoint {
  CollectiveKind collective = CollectiveKind::all_gather;
  std::string method;  // "nccl", "nccl grouped", "nccl symmetric", "mpi", ...
  std::int64_t ranks = 0;
  std::int64_t ranks_per_node = 0;
  ElementType type = ElementType::bf16;
  /// Gathered or reduced as a whole; of an all-to-all what one rank holds, its own chunk included;
  /// of a send_recv one message.
  Bytes payload;

  friend bool operator==(const CollectivePoint&, const CollectivePoint&) = default;
};

enum class Pass : std::uint8_t { forward, backward };

/// One attention kernel.
struct AttentionPoint {
  std::string kernel;  // "cudnn", "flash2", "flash3", "eigen"
  Pass pass = Pass::forward;
  std::int64_t sequences = 1;
  Tokens query_tokens;
  Tokens key_tokens;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool causal = true;
  ElementType type = ElementType::bf16;

  friend bool operator==(const AttentionPoint&, const AttentionPoint&) = default;
};

enum class GemmPass : std::uint8_t { forward, data_gradient, weight_gradient };

/// A product of an m x k and a k x n matrix.
struct GemmPoint {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmPass pass = GemmPass::forward;
  ElementType type = ElementType::bf16;
  bool fp32_accumulation = false;  // into the output, as weight gradients do

  friend bool operator==(const GemmPoint&, const GemmPoint&) = default;
};

/// A kernel that memory bounds.
struct MemoryBoundPoint {
  cost::PointwiseClass kind = cost::PointwiseClass::copy;
  std::string kernel;  // which one of its kind
  Bytes moved;         // read and written, every pass counted

  friend bool operator==(const MemoryBoundPoint&, const MemoryBoundPoint&) = default;
};

/// The host's time to launch one kernel, one after the other on a stream.
struct LaunchPoint {
  std::string kernel;

  friend bool operator==(const LaunchPoint&, const LaunchPoint&) = default;
};

enum class CopyDirection : std::uint8_t { host_to_device, device_to_host };

struct HostCopyPoint {
  CopyDirection direction = CopyDirection::host_to_device;
  bool pinned = true;
  Bytes amount;

  friend bool operator==(const HostCopyPoint&, const HostCopyPoint&) = default;
};

/// A collective beside a matrix product: each alone, and both at once.
struct InterferencePoint {
  CollectivePoint collective;
  GemmPoint gemm;
  bool collective_timed = false;  // else the product is
  bool together = false;

  friend bool operator==(const InterferencePoint&, const InterferencePoint&) = default;
};

using Point = std::variant<CollectivePoint,
                           AttentionPoint,
                           GemmPoint,
                           MemoryBoundPoint,
                           LaunchPoint,
                           HostCopyPoint,
                           InterferencePoint>;

struct Measurement {
  Point point;
  Timing timing;
  /// Key of an environment record: which machine, libraries and day.
  std::string environment;
};

/// Device memory in use after a stage of start-up, from the driver: not a time.
struct MemoryMeasurement {
  std::string stage;  // "context", "cublas", "cudnn", "communicator all_gather 8", ...
  Bytes used;
  std::string environment;
};

}  // namespace trireme::calibrate
