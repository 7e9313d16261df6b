#include "sim/cost/send_recv.h"

#include <cstdint>

#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr std::int64_t kQuantum = 16'000'000;
constexpr SendRecvCosts kCosts{.start = Seconds(10e-6),
                               .channel_rate = BytesPerSecond(20e9),
                               .channels = 32,
                               .channel_bytes = Bytes(kQuantum),
                               .link_rate = BytesPerSecond(400e9)};

double microseconds(std::int64_t message, std::int64_t ranks) {
  return send_recv_time(Bytes(message), ranks, kCosts).value() * 1e6;
}

TEST_CASE("messages take more channels as they grow", "[cost]") {
  // 8 ranks: a small message has 32 / 8 = 4 channels, 80 GB/s: 8 MB in 100 us
  CHECK(microseconds(8'000'000, 8) == Approx(10 + 100));
  // 4 quanta on 4 channels and 8 quanta on 8: 16 MB / 20 GB/s = 800 us both, and between them
  CHECK(microseconds(4 * kQuantum, 8) == Approx(10 + 800));
  CHECK(microseconds(5 * kQuantum, 8) == Approx(10 + 800));
  CHECK(microseconds(8 * kQuantum, 8) == Approx(10 + 800));
  // 32 quanta = 512 MB on the link, 400 GB/s: 1280 us
  CHECK(microseconds(32 * kQuantum, 8) == Approx(10 + 1280));
}

TEST_CASE("two ranks share all channels, many have one each", "[cost]") {
  // 16 channels of 20 GB/s: 32 MB / 320 GB/s = 100 us
  CHECK(microseconds(32'000'000, 2) == Approx(10 + 100));
  // 64 ranks: one channel, 8 MB / 20 GB/s = 400 us
  CHECK(microseconds(8'000'000, 64) == Approx(10 + 400));
  CHECK(microseconds(8'000'000, 1) == 0.0);
}

TEST_CASE("a message to another node", "[cost]") {
  const MultiNodeSendRecvCosts costs{
      .nic_efficiency = 0.9,
      .crowded = CrowdedSendRecvCosts{.ranks = 64, .rate = BytesPerSecond(18e9)}};
  const BytesPerSecond nic(50e9);
  // 45 MB / (0.9 * 50 GB/s) = 1 ms; 45 MB / 18 GB/s = 2.5 ms; a NIC slower than that stays slower
  CHECK(send_recv_off_node_time(Bytes(45'000'000), 16, nic, costs).value() == Approx(1e-3));
  CHECK(send_recv_off_node_time(Bytes(45'000'000), 64, nic, costs).value() == Approx(2.5e-3));
  CHECK(send_recv_off_node_time(Bytes(45'000'000), 64, BytesPerSecond(10e9), costs).value() ==
        Approx(5e-3));
  // no large communicator was measured: 45 MB / (0.9 * 50 GB/s)
  const MultiNodeSendRecvCosts small{.nic_efficiency = 0.9, .crowded = {}};
  CHECK(send_recv_off_node_time(Bytes(45'000'000), 64, nic, small).value() == Approx(1e-3));
}

}  // namespace
}  // namespace trireme::cost
