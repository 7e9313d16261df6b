#include "sim/cost/residuals.h"

#include "sim/cost/collectives.h"
#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr Group kFour{.ranks = 4, .ranks_per_node = 4};

std::vector<GroupResiduals> example_tables() {
  return {{kFour, {{Bytes(1000), 2.0}, {Bytes(16'000), 0.5}, {Bytes(64'000), 1.0}}}};
}

TEST_CASE("a residual is interpolated between logarithms", "[cost]") {
  const auto tables = example_tables();
  CHECK(residual_factor(tables, kFour, Bytes(1000)) == Approx(2));
  // half way from 1000 to 16,000 in logarithms: the root of 2 * 0.5
  CHECK(residual_factor(tables, kFour, Bytes(4000)) == Approx(1));
  // a quarter of the way: 2^(3/4) * 0.5^(1/4) = 2^(1/2)
  CHECK(residual_factor(tables, kFour, Bytes(2000)) == Approx(1.41421356));
  CHECK(residual_factor(tables, kFour, Bytes(16'000)) == Approx(0.5));
  // half way from 16,000 to 64,000: the root of 0.5
  CHECK(residual_factor(tables, kFour, Bytes(32'000)) == Approx(0.70710678));
}

TEST_CASE("nothing is extrapolated", "[cost]") {
  const auto tables = example_tables();
  CHECK(residual_factor(tables, kFour, Bytes(1)) == 2.0);  // the latency of the smallest measured
  CHECK(residual_factor(tables, kFour, Bytes(1'000'000'000)) == 1.0);
  CHECK(residual_factor(tables, {.ranks = 8, .ranks_per_node = 8}, Bytes(4000)) == 1.0);
  CHECK(residual_factor(tables, {.ranks = 4, .ranks_per_node = 2}, Bytes(1000)) == 1.0);
  CHECK(residual_factor({}, kFour, Bytes(4000)) == 1.0);
}

TEST_CASE("a collective takes its closed form times its residual", "[cost]") {
  MachineCosts machine;
  machine.collectives.all_gather = NodeCollectiveCosts{.start = Seconds(10e-6),
                                                       .per_rank = Seconds(0),
                                                       .link_rate = BytesPerSecond(1e9),
                                                       .ramp_per_root_megabyte = Seconds(0),
                                                       .local_rate = BytesPerSecond(1e300)};
  machine.collectives.all_reduce = machine.collectives.all_gather;
  machine.residuals.all_gather = example_tables();
  machine.residuals.all_reduce = example_tables();
  const BytesPerSecond nic(0);
  // 3/4 of 16,000 B at 1 GB/s: 10 + 12 us, halved
  CHECK(all_gather_time(Bytes(16'000), kFour, nic, machine)->value() == Approx(11e-6));
  // all-reduce moves it twice: 10 + 24, halved; of 8-bit values nothing was measured
  CHECK(all_reduce_time(Bytes(16'000), ElementType::bf16, kFour, nic, machine)->value() ==
        Approx(17e-6));
  CHECK(all_reduce_time(Bytes(16'000), ElementType::fp8, kFour, nic, machine)->value() ==
        Approx(34e-6));
  // not measured at all, with or without a table
  machine.residuals.all_to_all = example_tables();
  CHECK_FALSE(all_to_all_time(Bytes(16'000), kFour, nic, machine).has_value());
  CHECK_FALSE(all_gather_time(Bytes(16), {.ranks = 8, .ranks_per_node = 4}, nic, machine));
  CHECK(all_to_all_time(Bytes(16'000), {.ranks = 1, .ranks_per_node = 1}, nic, machine) ==
        Seconds(0));
}

}  // namespace
}  // namespace trireme::cost
