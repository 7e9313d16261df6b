#include "sim/cost/pointwise.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

TEST_CASE("a memory-bound kernel takes its launch and its bytes at its class's rate", "[cost]") {
  const PointwiseCosts costs{.memory_peak = BytesPerSecond(2e12),
                             .efficiency = {0.5, 0.25, 0.4, 0.8, 0.1, 0.2}};
  const Seconds launch(2e-6);
  // 2 us + 1e6 B / (0.5 * 2e12 B/s) = 2 us + 1 us
  CHECK(pointwise_time(Bytes(1'000'000), PointwiseClass::norm_forward, launch, costs)->value() ==
        Approx(3e-6));
  // 2 us + 1e6 / (0.1 * 2e12) = 2 us + 5 us
  CHECK(pointwise_time(Bytes(1'000'000), PointwiseClass::adam, launch, costs)->value() ==
        Approx(7e-6));
  // the last class: 2 us + 1e6 / (0.2 * 2e12) = 2 us + 2.5 us
  CHECK(pointwise_time(Bytes(1'000'000), PointwiseClass::cross_entropy, launch, costs)->value() ==
        Approx(4.5e-6));
  // a class that was not measured
  const PointwiseCosts some{.memory_peak = BytesPerSecond(2e12), .efficiency = {0.5}};
  CHECK_FALSE(pointwise_time(Bytes(1), PointwiseClass::adam, launch, some).has_value());
  CHECK(pointwise_time(Bytes(0), PointwiseClass::copy, launch, costs) == Seconds(0));
}

}  // namespace
}  // namespace trireme::cost
