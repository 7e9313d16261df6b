// Programs and a machine whose seconds can be added up by hand.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "sim/engine/analytic.h"
#include "tests/unit/engine/small_program.h"

namespace trireme::engine {

inline constexpr program::AxisMask kGroup = program::axis_bit(0);
inline constexpr double kBytesPerSecond = 1e9;

/// Every kernel is bound by its bytes at 1 GB/s, every collective by what a rank receives.
inline Machine machine() {
  const BytesPerSecond rate(kBytesPerSecond);
  const BytesPerSecond instant(1e300);
  Machine result;
  result.gpus_per_node = 8;
  result.nic_rate = rate;
  result.host = cost::HostCosts{.link_rate = rate, .work_rate = rate};
  result.costs.streaming_multiprocessors = 1;
  result.costs.kernel_launch = Seconds(0);
  result.costs.gemm.emplace();
  result.costs.gemm->rate = FlopsPerSecond(kBytesPerSecond);
  result.costs.gemm->bandwidth = instant;
  result.costs.pointwise.memory_peak = rate;
  result.costs.pointwise.efficiency.fill(1.0);
  for (std::optional<cost::NodeCollectiveCosts>* costs : {&result.costs.collectives.all_to_all,
                                                          &result.costs.collectives.all_gather,
                                                          &result.costs.collectives.reduce_scatter,
                                                          &result.costs.collectives.all_reduce}) {
    costs->emplace();
    (*costs)->link_rate = rate;
    (*costs)->local_rate = instant;
  }
  return result;
}

/// Two ranks. `kernel(n)` takes n bytes' time on the compute stream; a gather receives 50 bytes.
class Draft {
 public:
  Draft() : builder(small_program({{"group", 2}}, 2, 4)) {}

  /// Emits a kernel that moves `bytes`.
  void kernel(std::int64_t bytes) {
    program::TensorSpec spec = resident("data", {{bytes, "n"}});
    spec.type = ElementType::fp8;
    builder.emit(program::Function::zero, "kernel", {program::write(builder.declare(spec))});
  }

  struct Gather {
    program::Op* op;
    program::Ref from;
    program::Ref to;
  };

  Gather gather() {
    program::TensorSpec spec = resident("whole", {{1, "B"}, {100, "S"}});
    spec.type = ElementType::fp8;
    const program::TensorId to = builder.declare(spec);
    spec.name = "shard";
    spec.layout = program::Layout().with(kGroup, program::Placement::shard(1));
    const program::TensorId from = builder.declare(spec);
    const std::array in{program::read(from)};
    const std::array out{program::write(to)};
    program::Op& op =
        builder.emit_collective(CollectiveKind::all_gather, "gather", kGroup, in, out);
    return {&op, from, to};
  }

  program::Program close() { return std::move(builder).close(); }

  program::Builder builder;
};

}  // namespace trireme::engine
