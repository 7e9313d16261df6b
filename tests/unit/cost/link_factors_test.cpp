#include "sim/cost/link_factors.h"

#include "sim/cost/multi_node.h"
#include "sim/cost/node_collectives.h"
#include "sim/cost/send_recv.h"
#include "tests/catch.h"

namespace trireme::cost {
namespace {

MachineCosts machine() {
  MachineCosts costs;
  NodeCollectiveCosts ring;
  ring.start = Seconds(1);
  ring.per_rank = Seconds(2);
  ring.link_rate = BytesPerSecond(1e6);
  ring.ramp_per_root_megabyte = Seconds(3);
  ring.local_rate = BytesPerSecond(2e6);
  costs.collectives.all_gather = ring;
  costs.collectives.all_reduce_nvls =
      SwitchReduceCosts{2, 8, Seconds(1), BytesPerSecond(1e6), Seconds(3)};
  costs.collectives.send_recv =
      SendRecvCosts{Seconds(1), BytesPerSecond(1e6), 4, Bytes(1'000'000), BytesPerSecond(3e6)};
  return costs;
}

TEST_CASE("a link of a quarter: four times the transfer, twice the fill", "[unit]") {
  const MachineCosts slow = with_links(machine(), {.inside = 0.25});
  // 5 MB of which 4 MB are received: 1 + 2 * 4 + 4 + 3 * 2 + 1 / 2 = 19.5 s before;
  // 1 + 2 * 4 + 4 * 4 + 2 * 3 * 2 + 1 / 2 = 37.5 s.
  const Bytes whole(5'000'000);
  CHECK(node_collective_time(whole, 1, 5, 5, *machine().collectives.all_gather).value() ==
        Approx(19.5));
  CHECK(node_collective_time(whole, 1, 5, 5, *slow.collectives.all_gather).value() == Approx(37.5));
  // The switches' reduction of 4 MB: 1 + 4 + 3 * 2 = 11 s; 1 + 4 * 4 + 2 * 3 * 2 = 29 s.
  const Bytes reduced(4'000'000);
  CHECK(switch_all_reduce_time(reduced, *machine().collectives.all_reduce_nvls).value() ==
        Approx(11));
  CHECK(switch_all_reduce_time(reduced, *slow.collectives.all_reduce_nvls).value() == Approx(29));
  // A message of 12 MB on 4 channels: 1 + 12 / 3 = 5 s; 1 + 12 / 0.75 = 17 s.
  const Bytes message(12'000'000);
  CHECK(send_recv_time(message, 2, *machine().collectives.send_recv).value() == Approx(5));
  CHECK(send_recv_time(message, 2, *slow.collectives.send_recv).value() == Approx(17));
}

TEST_CASE("a faster link leaves channels where they are", "[unit]") {
  const MachineCosts fast = with_links(machine(), {.inside = 100});
  // 4 channels of 1 MB/s carry 12 MB in 3 s, whatever the link: 1 + 3.
  CHECK(send_recv_time(Bytes(12'000'000), 2, *fast.collectives.send_recv).value() == Approx(4));
}

TEST_CASE("NICs enter by the cluster's line rate, but for a rate that was measured", "[unit]") {
  MachineCosts costs = machine();
  costs.multi_node.ring = MultiNodeRingCosts{{}, {}, {}, 0.9, BytesPerSecond(8e6)};
  costs.multi_node.send_recv =
      MultiNodeSendRecvCosts{0.9, CrowdedSendRecvCosts{8, BytesPerSecond(2e6)}};
  const MachineCosts half = with_links(costs, {.nic = 0.5});
  CHECK(half.multi_node.send_recv->crowded->rate == BytesPerSecond(1e6));
  CHECK(half.multi_node.send_recv->nic_efficiency == 0.9);
  CHECK(half.multi_node.ring->nvlink_rate == BytesPerSecond(8e6));
  CHECK(half.collectives.all_gather->link_rate == BytesPerSecond(1e6));
  CHECK(with_links(costs, {.inside = 0.5}).multi_node.ring->nvlink_rate == BytesPerSecond(4e6));
}

}  // namespace
}  // namespace trireme::cost
