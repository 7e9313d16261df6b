#include "sim/engine/network/flow_network.h"

#include <algorithm>
#include <array>
#include <stdexcept>
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

TEST_CASE("flows: a cap leaves the rest to the others", "[engine]") {
  FlowNetwork network;
  const std::array link{network.add_link(BytesPerSecond(10))};
  const FlowId capped = network.start(link, Bytes(100), BytesPerSecond(2));
  const FlowId other = network.start(link, Bytes(100));
  CHECK(network.rate(capped).value() == Approx(2).epsilon(kExact));
  CHECK(network.rate(other).value() == Approx(8).epsilon(kExact));
  network.advance(*network.next_end());  // the other, after 100 / 8 = 12.5 s
  CHECK(network.rate(capped).value() == Approx(2).epsilon(kExact));
  CHECK(network.next_end()->value() == Approx(50).epsilon(kExact));
  CHECK_THROWS_AS(network.start(link, Bytes(1), BytesPerSecond(0)), std::logic_error);
}

TEST_CASE("jobs: one that nothing slows ends exactly when it would alone", "[engine]") {
  FlowNetwork network;
  const LinkId a = network.add_link(BytesPerSecond(100));
  const LinkId b = network.add_link(BytesPerSecond(7));
  const Seconds alone(0.1 + 0.2);
  network.advance(Seconds(0.7));
  const FlowId first = network.start_job(std::array{LinkLoad{a, Bytes(9)}}, alone);
  // Asks more of its link than there is: fills it, as fast as alone.
  network.start_job(std::array{LinkLoad{b, Bytes(1000)}}, alone);
  CHECK(network.speed(first) == 1);
  // Shares a link with the first, 30 + 50 of 100: neither is slowed.
  network.advance(Seconds(0.8));
  network.start_job(std::array{LinkLoad{a, Bytes(50)}}, Seconds(1));
  CHECK(*network.next_end() == Seconds(0.7) + alone);
  CHECK(network.advance(*network.next_end()).size() == 2);
  CHECK(*network.next_end() == Seconds(0.8) + Seconds(1));
}

TEST_CASE("jobs: of a full link each has its share, and what it does not need is the others'",
          "[engine]") {
  // Alone: the first takes 80 of 100 for 10 s, the second 60 for 10 s, the third 5 for 100 s.
  FlowNetwork network;
  const LinkId link = network.add_link(BytesPerSecond(100));
  const LinkId idle = network.add_link(BytesPerSecond(1000));
  const FlowId first = network.start_job(
      std::array{LinkLoad{idle, Bytes(900)}, LinkLoad{link, Bytes(800)}}, Seconds(10));
  const FlowId second = network.start_job(std::array{LinkLoad{link, Bytes(600)}}, Seconds(10));
  const FlowId third = network.start_job(std::array{LinkLoad{link, Bytes(500)}}, Seconds(100));
  // 95 for two that want more: 47.5 each.
  CHECK(network.speed(first) == Approx(47.5 / 80).epsilon(kExact));
  CHECK(network.speed(second) == Approx(47.5 / 60).epsilon(kExact));
  CHECK(network.speed(third) == 1);
  // The second ends at 600 / 47.5; the first has 800 - 600 left at 80 a second: 2.5 s more.
  CHECK(network.next_end()->value() == Approx(600 / 47.5).epsilon(kExact));
  CHECK(network.advance(*network.next_end())[0] == second);
  CHECK(network.speed(first) == 1);
  CHECK(network.next_end()->value() == Approx(600 / 47.5 + 2.5).epsilon(kExact));
  CHECK(network.advance(*network.next_end())[0] == first);
  CHECK(*network.next_end() == Seconds(100));
}

TEST_CASE("jobs: without links or without time they end by themselves", "[engine]") {
  FlowNetwork network;
  const LinkId link = network.add_link(BytesPerSecond(10));
  network.start_job({}, Seconds(3));
  const FlowId nothing = network.start_job(std::array{LinkLoad{link, Bytes(0)}}, Seconds(0));
  CHECK(*network.next_end() == Seconds(0));
  CHECK(network.advance(Seconds(0))[0] == nothing);
  CHECK(*network.next_end() == Seconds(3));
}

TEST_CASE("flows: what an ended flow held is used again", "[engine]") {
  FlowNetwork network;
  const LinkId a = network.add_link(BytesPerSecond(10));
  const LinkId b = network.add_link(BytesPerSecond(10));
  const std::array both{a, b};
  FlowId highest = 0;
  for (int i = 0; i < 1000; ++i) {
    highest = std::max(highest, network.start(both, Bytes(10)));
    highest = std::max(highest, network.start_job(std::array{LinkLoad{a, Bytes(1)}}, Seconds(1)));
    while (const auto end = network.next_end()) {
      network.advance(*end);
    }
  }
  CHECK(highest == 1);
}

}  // namespace
}  // namespace trireme::engine
