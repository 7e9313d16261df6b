// What max-min fair sharing means, on networks drawn at random.
#include "sim/engine/network/flow_network.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

/// A flow or a job: what it loads its links with, in bytes for each of its own bytes (seconds).
struct DrawnFlow {
  std::vector<LinkId> links;
  std::vector<double> loads;
  std::vector<LinkLoad> amounts;  // of a job
  std::int64_t bytes = 0;         // of a flow
  double alone = 0;               // of a job
  double cap = 0;
  double share = 1;

  [[nodiscard]] bool is_job() const { return alone > 0; }
};

struct Drawn {
  FlowNetwork network;
  std::vector<double> capacity;
  std::vector<DrawnFlow> flows;
};

FlowId start(FlowNetwork& network, const DrawnFlow& flow) {
  return flow.is_job() ? network.start_job(flow.amounts, Seconds(flow.alone))
                       : network.start(flow.links, Bytes(flow.bytes), BytesPerSecond(flow.cap));
}

double rate_of(FlowNetwork& network, const DrawnFlow& flow, FlowId id) {
  return flow.is_job() ? network.speed(id) : network.rate(id).value();
}

void draw_links(Drawn& drawn, std::mt19937_64& random) {
  const auto links = 1 + random() % 12;
  for (std::size_t i = 0; i < links; ++i) {
    drawn.capacity.push_back(static_cast<double>(1 + random() % 100));
    drawn.network.add_link(BytesPerSecond(drawn.capacity.back()));
  }
}

/// A flow over about one link in `sparsity`: one in three is a job, one in three has a cap.
DrawnFlow draw_flow(const std::vector<double>& capacity,
                    std::uint64_t sparsity,
                    std::mt19937_64& random) {
  DrawnFlow flow;
  for (LinkId link = 0; link < capacity.size(); ++link) {
    if (random() % sparsity == 0) {
      flow.links.push_back(link);
    }
  }
  if (flow.links.empty()) {
    flow.links.push_back(static_cast<LinkId>(random() % capacity.size()));
  }
  flow.bytes = static_cast<std::int64_t>(1 + random() % 1000);
  flow.loads.assign(flow.links.size(), 1);
  const auto kind = random() % 3;
  flow.cap = kind == 0 ? static_cast<double>(1 + random() % 50) : kUncapped.value();
  if (kind != 1) {
    return flow;
  }
  flow.cap = 1;
  flow.alone = static_cast<double>(1 + random() % 50);
  double fullest = 0;
  for (std::size_t i = 0; i < flow.links.size(); ++i) {
    const double most = capacity[flow.links[i]];
    flow.amounts.push_back({flow.links[i], Bytes(static_cast<std::int64_t>(1 + random() % 900))});
    flow.loads[i] =
        std::min(static_cast<double>(flow.amounts[i].amount.value()) / flow.alone, most);
    if (flow.loads[i] / most > fullest) {
      fullest = flow.loads[i] / most;
      flow.share = 1 / flow.loads[i];
    }
  }
  return flow;
}

Drawn draw(std::mt19937_64& random) {
  Drawn drawn;
  draw_links(drawn, random);
  const auto flows = 1 + random() % 40;
  for (std::size_t i = 0; i < flows; ++i) {
    drawn.flows.push_back(draw_flow(drawn.capacity, 3, random));
    start(drawn.network, drawn.flows.back());
  }
  return drawn;
}

TEST_CASE("every flow is at its cap or crosses a saturated link on which no flow has more",
          "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed());
  for (int round = 0; round < 300; ++round) {
    Drawn drawn = draw(random);
    CAPTURE(round);
    std::vector<double> used(drawn.capacity.size(), 0);
    std::vector<double> most(drawn.capacity.size(), 0);  // of rates over their shares
    for (std::size_t i = 0; i < drawn.flows.size(); ++i) {
      const DrawnFlow& flow = drawn.flows[i];
      const double rate = rate_of(drawn.network, flow, static_cast<FlowId>(i));
      CHECK(rate <= flow.cap);
      for (std::size_t hop = 0; hop < flow.links.size(); ++hop) {
        used[flow.links[hop]] += flow.loads[hop] * rate;
        most[flow.links[hop]] = std::max(most[flow.links[hop]], rate / flow.share);
      }
    }
    for (std::size_t link = 0; link < used.size(); ++link) {
      CHECK(used[link] <= drawn.capacity[link] * (1 + 1e-9));
    }
    for (std::size_t i = 0; i < drawn.flows.size(); ++i) {
      const DrawnFlow& flow = drawn.flows[i];
      const double rate = rate_of(drawn.network, flow, static_cast<FlowId>(i));
      CHECK((rate >= flow.cap * (1 - 1e-9) ||
             std::any_of(flow.links.begin(), flow.links.end(), [&](LinkId link) {
               return used[link] >= drawn.capacity[link] * (1 - 1e-9) &&
                      rate / flow.share >= most[link] * (1 - 1e-9);
             })));
    }
  }
}

TEST_CASE("every flow ends once, no sooner than its links and its cap allow",
          "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed() + 1);
  for (int round = 0; round < 100; ++round) {
    Drawn drawn = draw(random);
    CAPTURE(round);
    std::vector<int> ended(drawn.flows.size(), 0);
    std::vector<double> carried(drawn.capacity.size(), 0);
    while (const auto end = drawn.network.next_end()) {
      for (const FlowId id : drawn.network.advance(*end)) {
        ++ended[id];
        const DrawnFlow& flow = drawn.flows[id];
        const double amount = flow.is_job() ? flow.alone : static_cast<double>(flow.bytes);
        CHECK(end->value() >= amount / flow.cap * (1 - 1e-9));
        for (std::size_t hop = 0; hop < flow.links.size(); ++hop) {
          carried[flow.links[hop]] += flow.loads[hop] * amount;
        }
      }
      for (std::size_t link = 0; link < carried.size(); ++link) {
        CHECK(carried[link] <= drawn.capacity[link] * end->value() * (1 + 1e-9));
      }
    }
    CHECK(std::all_of(ended.begin(), ended.end(), [](int count) { return count == 1; }));
    CHECK(drawn.network.active() == 0);
  }
}

TEST_CASE("rates depend on the flows under way, not on how they came about", "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed() + 2);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Drawn drawn;
    draw_links(drawn, random);
    std::map<FlowId, DrawnFlow> under_way;
    for (int step = 0; step < 30; ++step) {
      for (auto starts = random() % 3; starts > 0; --starts) {
        const DrawnFlow flow = draw_flow(drawn.capacity, 6, random);
        CHECK(under_way.emplace(start(drawn.network, flow), flow).second);
      }
      if (const auto end = drawn.network.next_end(); end && random() % 2 == 0) {
        for (const FlowId id : drawn.network.advance(*end)) {
          CHECK(under_way.erase(id) == 1);
        }
      }
      FlowNetwork afresh;
      for (const double capacity : drawn.capacity) {
        afresh.add_link(BytesPerSecond(capacity));
      }
      std::map<FlowId, FlowId> again;
      for (const auto& [id, flow] : under_way) {
        again[id] = start(afresh, flow);
      }
      for (const auto& [id, flow] : under_way) {
        CHECK(rate_of(drawn.network, flow, id) ==
              Approx(rate_of(afresh, flow, again[id])).epsilon(1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace trireme::engine
