#include "sim/cost/interference.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr InterferenceCosts kCosts{.channels = 33, .memory = 0.2, .collective = 0.1};

TEST_CASE("interference: kernels lose multiprocessors or memory bandwidth", "[cost]") {
  CHECK(kernel_speed_beside(0, KernelBound::compute, 132, kCosts) == 1);
  CHECK(kernel_speed_beside(1, KernelBound::compute, 132, kCosts) == 0.75);  // 1 - 33 / 132
  CHECK(kernel_speed_beside(2, KernelBound::compute, 132, kCosts) == 0.5);
  CHECK(kernel_speed_beside(1, KernelBound::memory, 132, kCosts) == 0.8);
  CHECK(kernel_speed_beside(2, KernelBound::memory, 132, kCosts) == 0.6);
}

TEST_CASE("interference: something is always left to a kernel", "[cost]") {
  CHECK(kernel_speed_beside(4, KernelBound::compute, 132, kCosts) == 1.0 / 132);
  CHECK(kernel_speed_beside(9, KernelBound::memory, 132, kCosts) == 1.0 / 132);
}

TEST_CASE("interference: a collective slows beside a kernel", "[cost]") {
  CHECK(collective_speed_beside_kernel(kCosts) == 0.9);
  CHECK(collective_speed_beside_kernel({}) == 1);
}

}  // namespace
}  // namespace trireme::cost
