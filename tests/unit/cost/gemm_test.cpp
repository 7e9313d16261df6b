#include "sim/cost/gemm.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr GemmCosts kCosts{.start = Seconds(5e-6),
                           .rate = FlopsPerSecond(500e12),
                           .inner_overhead = 100,
                           .bandwidth = BytesPerSecond(2e12),
                           .fp32_accumulation = 1.25};

TEST_CASE("a large product is bound by its operations", "[cost]") {
  // 5 us + 2 * 1000 * 1000 * (900 + 100) / 500e12 = 5 us + 4 us
  CHECK(gemm_time(1000, 1000, 900, ElementType::bf16, false, kCosts).value() == Approx(9e-6));
  // the weight gradient: 5 us + 1.25 * 4 us
  CHECK(gemm_time(1000, 1000, 900, ElementType::bf16, true, kCosts).value() == Approx(10e-6));
}

TEST_CASE("a thin product is bound by memory", "[cost]") {
  // moved 2 * (1000 + 1e6 + 1000) = 2.004e6 B: 1.002 us; operations 2e3 * 1100 / 500e12 = 4.4 ns
  CHECK(gemm_time(1, 1000, 1000, ElementType::bf16, false, kCosts).value() ==
        Approx(5e-6 + 1.002e-6));
}

TEST_CASE("an empty product takes no time", "[cost]") {
  CHECK(gemm_time(0, 1000, 1000, ElementType::bf16, false, kCosts) == Seconds(0));
  CHECK(gemm_time(1000, 0, 1000, ElementType::bf16, false, kCosts) == Seconds(0));
  CHECK(gemm_time(1000, 1000, 0, ElementType::bf16, false, kCosts) == Seconds(0));
}

}  // namespace
}  // namespace trireme::cost
