#include "sim/cost/multi_node.h"

#include "sim/cost/collectives.h"
#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr BytesPerSecond kNic(50e9);
constexpr MultiNodeAllToAllCosts kExchange{
    .start = Seconds(100e-6), .per_remote_rank = Seconds(5e-6), .nic_efficiency = 0.8};
constexpr NodeCollectiveCosts kInside{.start = Seconds(5e-6),
                                      .per_rank = Seconds(0),
                                      .link_rate = BytesPerSecond(400e9),
                                      .ramp_per_root_megabyte = Seconds(0),
                                      .local_rate = BytesPerSecond(1000e9)};

TEST_CASE("an all-to-all over nodes waits for its NICs", "[cost]") {
  // 16 ranks, 8 on a node, 160 MB held: 80 MB leave at 40 GB/s, 2000 us; inside 70 MB at 400 GB/s
  // and 10 MB at 1000 GB/s, 190 us, are hidden; latency 100 + 8 * 5
  CHECK(multi_node_all_to_all_time(Bytes(160'000'000), 16, 8, kNic, kExchange, kInside).value() ==
        Approx(2140e-6));
  // a NIC as fast as the link shows the local part: 100 + 40 + max(80 MB / 800 GB/s, 190 us)
  CHECK(multi_node_all_to_all_time(
            Bytes(160'000'000), 16, 8, BytesPerSecond(1000e9), kExchange, kInside)
            .value() == Approx(330e-6));
  // one rank on each node: 4 ranks, 40 MB held, 30 MB leave: 100 + 15 + 750
  CHECK(multi_node_all_to_all_time(Bytes(40'000'000), 4, 1, kNic, kExchange, kInside).value() ==
        Approx(865e-6));
}

TEST_CASE("a ring over nodes runs at the fourth-power mean of NICs and NVLink", "[cost]") {
  const MultiNodeRingCosts ring{.all_gather_step = Seconds(5e-6),
                                .reduce_scatter_step = Seconds(6e-6),
                                .all_reduce_step = Seconds(4e-6),
                                .nic_efficiency = 1,
                                .nvlink_rate = BytesPerSecond(400e9)};
  MachineCosts machine;
  machine.multi_node.ring = ring;
  const Group group{.ranks = 16, .ranks_per_node = 8};
  // 8 NICs of 50 GB/s equal NVLink: B = 400 / 2^(1/4) = 336.3586 GB/s; V = 1.6 GB * 15 / 16 = 1.5
  // GB: 4459.5263 us, and 15 steps
  const double moved = 1.5e9 / 336.358566e9;
  CHECK(all_gather_time(Bytes(1'600'000'000), group, kNic, machine)->value() ==
        Approx(15 * 5e-6 + moved).epsilon(1e-8));
  CHECK(reduce_scatter_time(Bytes(1'600'000'000), group, kNic, machine)->value() ==
        Approx(15 * 6e-6 + moved).epsilon(1e-8));
  CHECK(all_reduce_time(Bytes(1'600'000'000), ElementType::bf16, group, kNic, machine)->value() ==
        Approx(2 * (15 * 4e-6 + moved)).epsilon(1e-8));
  // one NIC of 50 GB/s against NVLink's 400: (1 + 8^-4)^(-1/4) of 50 GB/s, which is 49.996949 GB/s
  const Group spread{.ranks = 16, .ranks_per_node = 1};
  CHECK(all_gather_time(Bytes(1'600'000'000), spread, kNic, machine)->value() ==
        Approx(15 * 5e-6 + 1.5e9 / 49.996949e9).epsilon(1e-7));
}

}  // namespace
}  // namespace trireme::cost
