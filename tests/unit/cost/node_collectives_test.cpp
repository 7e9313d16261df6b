#include "sim/cost/node_collectives.h"

#include "sim/cost/collectives.h"
#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr NodeCollectiveCosts kCosts{.start = Seconds(5e-6),
                                     .per_rank = Seconds(1e-6),
                                     .link_rate = BytesPerSecond(400e9),
                                     .ramp_per_root_megabyte = Seconds(6e-6),
                                     .local_rate = BytesPerSecond(1000e9)};
constexpr BytesPerSecond kNoNic(0);

MachineCosts example_machine() {
  MachineCosts machine;
  machine.collectives.all_to_all = kCosts;
  machine.collectives.all_gather = kCosts;
  machine.collectives.reduce_scatter = kCosts;
  machine.collectives.all_reduce = kCosts;
  machine.collectives.all_reduce_nvls = SwitchReduceCosts{.least_ranks = 8,
                                                          .most_ranks = 8,
                                                          .start = Seconds(15e-6),
                                                          .rate = BytesPerSecond(250e9),
                                                          .ramp_per_root_megabyte = Seconds(9e-6)};
  return machine;
}

TEST_CASE("the five terms of a collective inside a node", "[cost]") {
  // 4 ranks, S = 12 MB: V = 9 MB, S / n = 3 MB
  // 5 + 1 * 3 + 9e6 / 400e9 (22.5) + 6 * sqrt(9) (18) + 3e6 / 1000e9 (3) = 51.5 us
  const MachineCosts machine = example_machine();
  const Group group{.ranks = 4, .ranks_per_node = 4};
  // The same four as part of 8 ranks that share 24 MB.
  CHECK(node_collective_time(Bytes(24'000'000), 1, 4, 8, kCosts).value() == Approx(51.5e-6));
  CHECK(node_collective_time(Bytes(12'000'000), 1, 4, 4, kCosts).value() == Approx(51.5e-6));
  CHECK(all_gather_time(Bytes(12'000'000), group, kNoNic, machine)->value() == Approx(51.5e-6));
  CHECK(reduce_scatter_time(Bytes(12'000'000), group, kNoNic, machine)->value() == Approx(51.5e-6));
  CHECK(all_to_all_time(Bytes(12'000'000), group, kNoNic, machine)->value() == Approx(51.5e-6));
  // all-reduce: V = 18 MB: 5 + 3 + 45 + 6 * sqrt(18) + 3 = 56 + 25.4558 us
  CHECK(all_reduce_time(Bytes(12'000'000), ElementType::fp32, group, kNoNic, machine)->value() ==
        Approx(81.4558e-6).epsilon(1e-6));
}

TEST_CASE("switches reduce for the groups and types that they can", "[cost]") {
  const MachineCosts machine = example_machine();
  const Group eight{.ranks = 8, .ranks_per_node = 8};
  const Bytes payload(25'000'000);
  // 15 + 25e6 / 250e9 (100) + 9 * sqrt(25) (45) = 160 us
  CHECK(all_reduce_time(payload, ElementType::bf16, eight, kNoNic, machine)->value() ==
        Approx(160e-6));
  CHECK(all_reduce_time(payload, ElementType::fp32, eight, kNoNic, machine)->value() ==
        Approx(160e-6));
  // 8-bit values go around the ring: V = 43.75 MB, 5 + 7 + 109.375 + 6 * sqrt(43.75) + 3.125
  const double ring = 5 + 7 + 109.375 + 6 * 6.614378 + 3.125;
  CHECK(all_reduce_time(payload, ElementType::fp8, eight, kNoNic, machine)->value() ==
        Approx(ring * 1e-6).epsilon(1e-6));
  MachineCosts without = machine;
  without.collectives.all_reduce_nvls.reset();
  CHECK(all_reduce_time(payload, ElementType::bf16, eight, kNoNic, without)->value() ==
        Approx(ring * 1e-6).epsilon(1e-6));
}

}  // namespace
}  // namespace trireme::cost
