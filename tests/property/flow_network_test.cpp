// What max-min fair sharing means, on networks drawn at random.
#include "sim/engine/network/flow_network.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

struct Drawn {
  FlowNetwork network;
  std::vector<double> capacity;
  std::vector<std::vector<LinkId>> path;  // by flow
  std::vector<std::int64_t> bytes;
};

Drawn draw(std::mt19937_64& random) {
  Drawn drawn;
  const auto links = 1 + random() % 12;
  const auto flows = 1 + random() % 40;
  for (std::size_t i = 0; i < links; ++i) {
    drawn.capacity.push_back(static_cast<double>(1 + random() % 100));
    drawn.network.add_link(BytesPerSecond(drawn.capacity.back()));
  }
  for (std::size_t i = 0; i < flows; ++i) {
    std::vector<LinkId> path;
    for (LinkId link = 0; link < links; ++link) {
      if (random() % 3 == 0) {
        path.push_back(link);
      }
    }
    if (path.empty()) {
      path.push_back(static_cast<LinkId>(random() % links));
    }
    drawn.bytes.push_back(static_cast<std::int64_t>(1 + random() % 1000));
    drawn.network.start(path, Bytes(drawn.bytes.back()));
    drawn.path.push_back(std::move(path));
  }
  return drawn;
}

TEST_CASE("every flow crosses a saturated link on which no flow is faster", "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed());
  for (int round = 0; round < 200; ++round) {
    Drawn drawn = draw(random);
    CAPTURE(round);
    std::vector<double> used(drawn.capacity.size(), 0);
    std::vector<double> fastest(drawn.capacity.size(), 0);
    for (std::size_t flow = 0; flow < drawn.path.size(); ++flow) {
      const double rate = drawn.network.rate(static_cast<FlowId>(flow)).value();
      for (const LinkId link : drawn.path[flow]) {
        used[link] += rate;
        fastest[link] = std::max(fastest[link], rate);
      }
    }
    for (std::size_t link = 0; link < used.size(); ++link) {
      CHECK(used[link] <= drawn.capacity[link] * (1 + 1e-9));
    }
    for (std::size_t flow = 0; flow < drawn.path.size(); ++flow) {
      const double rate = drawn.network.rate(static_cast<FlowId>(flow)).value();
      CHECK(std::any_of(drawn.path[flow].begin(), drawn.path[flow].end(), [&](LinkId link) {
        return used[link] >= drawn.capacity[link] * (1 - 1e-9) &&
               rate >= fastest[link] * (1 - 1e-9);
      }));
    }
  }
}

TEST_CASE("every flow ends once, no sooner than its links allow", "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed() + 1);
  for (int round = 0; round < 100; ++round) {
    Drawn drawn = draw(random);
    CAPTURE(round);
    std::vector<int> ended(drawn.path.size(), 0);
    std::vector<double> carried(drawn.capacity.size(), 0);
    while (const auto end = drawn.network.next_end()) {
      for (const FlowId flow : drawn.network.advance(*end)) {
        ++ended[flow];
        for (const LinkId link : drawn.path[flow]) {
          carried[link] += static_cast<double>(drawn.bytes[flow]);
        }
      }
      for (std::size_t link = 0; link < carried.size(); ++link) {
        CHECK(carried[link] <= drawn.capacity[link] * end->value() * (1 + 1e-9));
      }
    }
    CHECK(std::all_of(ended.begin(), ended.end(), [](int count) { return count == 1; }));
  }
}

}  // namespace
}  // namespace trireme::engine
