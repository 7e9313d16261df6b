#include "sim/engine/network/flow_network.h"

#include <array>
#include <vector>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

constexpr double kExact = 1e-12;

TEST_CASE("flows: one flow fills its narrowest link, two halve it", "[engine]") {
  FlowNetwork network;
  const LinkId wide = network.add_link(BytesPerSecond(100));
  const LinkId narrow = network.add_link(BytesPerSecond(10));
  const std::array both{wide, narrow};
  const FlowId first = network.start(both, Bytes(100));
  CHECK(network.rate(first).value() == Approx(10).epsilon(kExact));
  const FlowId second = network.start(both, Bytes(50));
  CHECK(network.rate(first).value() == Approx(5).epsilon(kExact));
  CHECK(network.rate(second).value() == Approx(5).epsilon(kExact));

  // The second ends after 50 / 5 = 10 s; the first has 50 left, alone: 5 s more.
  REQUIRE(network.next_end());
  CHECK(network.next_end()->value() == Approx(10).epsilon(kExact));
  const auto ended = network.advance(*network.next_end());
  REQUIRE(ended.size() == 1);
  CHECK(ended[0] == second);
  CHECK(network.next_end()->value() == Approx(15).epsilon(kExact));
  CHECK(network.advance(*network.next_end()).size() == 1);
  CHECK_FALSE(network.next_end());
}

TEST_CASE("flows: what a bottleneck leaves goes to the others", "[engine]") {
  // Links of 10 and 100: one flow over both, two over the narrow, one over the wide.
  FlowNetwork network;
  const LinkId narrow = network.add_link(BytesPerSecond(10));
  const LinkId wide = network.add_link(BytesPerSecond(100));
  const std::array on_both{narrow, wide};
  const std::array on_narrow{narrow};
  const std::array on_wide{wide};
  const FlowId a = network.start(on_both, Bytes(1000));
  const FlowId b = network.start(on_narrow, Bytes(1000));
  const FlowId c = network.start(on_wide, Bytes(1000));
  CHECK(network.rate(a).value() == Approx(5).epsilon(kExact));
  CHECK(network.rate(b).value() == Approx(5).epsilon(kExact));
  CHECK(network.rate(c).value() == Approx(95).epsilon(kExact));
}

TEST_CASE("flows: time may stop between ends, and a later flow starts then", "[engine]") {
  FlowNetwork network;
  const std::array link{network.add_link(BytesPerSecond(10))};
  network.start(link, Bytes(100));
  CHECK(network.advance(Seconds(4)).empty());  // 60 left
  const FlowId later = network.start(link, Bytes(20));
  CHECK(network.next_end()->value() == Approx(4 + 4).epsilon(kExact));  // 20 at 5
  CHECK(network.advance(*network.next_end())[0] == later);
  CHECK(network.next_end()->value() == Approx(8 + 4).epsilon(kExact));  // 40 at 10
}

TEST_CASE("flows: equal flows end together, and nothing takes no time", "[engine]") {
  FlowNetwork network;
  const std::array link{network.add_link(BytesPerSecond(30))};
  for (int i = 0; i < 3; ++i) {
    network.start(link, Bytes(10));
  }
  CHECK(network.advance(*network.next_end()).size() == 3);
  CHECK(network.now().value() == Approx(1).epsilon(kExact));
  network.start({}, Bytes(1000));  // from a rank to itself
  network.start(link, Bytes(0));
  CHECK(network.next_end()->value() == Approx(1).epsilon(kExact));
  CHECK(network.advance(*network.next_end()).size() == 2);
}

TEST_CASE("flows: ends closer than the clock can tell apart are one end", "[engine]") {
  FlowNetwork network;
  const std::array slow{network.add_link(BytesPerSecond(1))};
  const std::array fast{network.add_link(BytesPerSecond(3e15))};
  network.start(slow, Bytes(1000));
  network.advance(Seconds(999.9999999999999));
  network.start(fast, Bytes(1));  // 3e-16 s: less than the clock's step at 1,000 s
  int rounds = 0;
  while (const auto end = network.next_end()) {
    network.advance(*end);
    REQUIRE(++rounds < 10);
  }
  CHECK(network.now().value() == Approx(1000).epsilon(kExact));
}

}  // namespace
}  // namespace trireme::engine
