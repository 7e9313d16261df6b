#include "sim/cost/framework_overheads.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

TEST_CASE("a framework slows matrix products and memory down, and nothing else", "[cost]") {
  MachineCosts alone;
  alone.gemm = GemmCosts{.start = Seconds(5e-6),
                         .rate = FlopsPerSecond(500e12),
                         .inner_overhead = 100,
                         .bandwidth = BytesPerSecond(2e12)};
  alone.pointwise.memory_peak = BytesPerSecond(3e12);
  alone.collectives.all_to_all.emplace().start = Seconds(1e-5);

  const MachineCosts in_step = in_situ_costs(alone, {1.25, Seconds(0)});
  CHECK(in_step.gemm->rate.value() == Approx(400e12));       // 500 / 1.25
  CHECK(in_step.gemm->bandwidth.value() == Approx(1.6e12));  // 2 / 1.25
  CHECK(in_step.gemm->start == Seconds(5e-6));
  CHECK(in_step.pointwise.memory_peak.value() == Approx(2.4e12));  // 3 / 1.25
  CHECK(in_step.collectives.all_to_all->start == Seconds(1e-5));
}

TEST_CASE("without overheads the costs of a machine stay", "[cost]") {
  MachineCosts alone;
  alone.pointwise.memory_peak = BytesPerSecond(3e12);
  const MachineCosts in_step = in_situ_costs(alone, {});
  CHECK_FALSE(in_step.gemm.has_value());
  CHECK(in_step.pointwise.memory_peak == alone.pointwise.memory_peak);
}

}  // namespace
}  // namespace trireme::cost
