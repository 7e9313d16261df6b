// Every algorithm of the table, on topologies drawn at random.
#include "sim/engine/network/expansion.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "sim/engine/network/least_seconds.h"
#include "sim/engine/network/near_loads.h"
#include "sim/engine/network/run_messages.h"
#include "tests/catch.h"

namespace trireme::engine {
namespace {

struct Drawn {
  Topology topology;
  std::vector<std::int64_t> ranks;
  Bytes payload;
};

template <class T>
T one_of(std::mt19937_64& random, std::initializer_list<T> choices) {
  return *(choices.begin() + random() % choices.size());
}

/// A cluster, and every `stride`-th GPU of it, or all GPUs of the first nodes.
Drawn draw(std::mt19937_64& random) {
  TopologyShape shape;
  shape.nodes = one_of(random, {1, 2, 3, 4});
  shape.gpus_per_node = one_of(random, {1, 2, 4, 8});
  shape.inside = one_of(random, {NodeLinks::nvswitch, NodeLinks::nvlink_mesh, NodeLinks::pcie});
  shape.nics_per_node = one_of(random, {std::int64_t{1}, shape.gpus_per_node});
  shape.link_per_gpu = BytesPerSecond(static_cast<double>(100 + random() % 400));
  shape.nic = BytesPerSecond(static_cast<double>(10 + random() % 100));
  shape.fabric = one_of(random, {Fabric::flat, Fabric::leaf_spine, Fabric::rail_optimised});
  shape.nodes_per_leaf = one_of(random, {1, 2, 4});
  shape.oversubscription = one_of(random, {1.0, 2.0, 3.5});
  shape.relay_to_rail = random() % 2 == 0;
  const std::int64_t stride = one_of(random, {1, 1, 2, 4});
  std::vector<std::int64_t> ranks;
  for (std::int64_t gpu = 0; gpu < shape.gpus(); gpu += stride) {
    ranks.push_back(gpu);
  }
  const auto payload = static_cast<std::int64_t>(random() % 100'000);
  return {Topology(shape), std::move(ranks), Bytes(payload)};
}

using Pair = std::tuple<std::int32_t, std::int32_t, Delivery>;

std::map<Pair, Bytes> sum_of(const std::vector<Message>& messages) {
  std::map<Pair, Bytes> sums;
  for (const Message& message : messages) {
    sums[{message.from, message.to, message.delivery}] += message.amount;
  }
  return sums;
}

/// What cost/ and the links say that it needs at least; zero for a gather.
Seconds least_of(const Algorithm& algorithm, const Drawn& drawn) {
  const auto found =
      std::find(kCollectiveNames.begin(), kCollectiveNames.end(), algorithm.collective);
  if (found == kCollectiveNames.end()) {
    return Seconds(0);
  }
  const auto kind = static_cast<CollectiveKind>(found - kCollectiveNames.begin());
  const TopologyShape& shape = drawn.topology.shape();
  const auto n = static_cast<std::int64_t>(drawn.ranks.size());
  const auto below = [&](std::int64_t gpus) {
    return std::count_if(
        drawn.ranks.begin(), drawn.ranks.end(), [gpus](std::int64_t gpu) { return gpu < gpus; });
  };
  const SharedLinks shared{.ranks = n,
                           .per_nic = below(shape.gpus_per_nic()),
                           .per_node = below(shape.gpus_per_node),
                           .per_pod = below(shape.gpus_per_node * shape.nodes_per_leaf)};
  // In whole bytes a rank may have one less than its equal part of everything.
  const Bytes payload(std::max<std::int64_t>(0,
                                             kind == CollectiveKind::send_recv
                                                 ? drawn.payload.value() / n
                                                 : drawn.payload.value() - 2 * n * n));
  return least_seconds(kind, payload, shared, shape).seconds;
}

TEST_CASE("an expansion adds up to its totals, is in order, and takes as long as its fullest link",
          "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed());
  for (int round = 0; round < 40; ++round) {
    const Drawn drawn = draw(random);
    const auto pieces = static_cast<std::int64_t>(1 + random() % 4);
    for (const Algorithm& algorithm : algorithm_table()) {
      if (!algorithm.applies(drawn.ranks, drawn.topology)) {
        continue;
      }
      CAPTURE(round, algorithm.collective, algorithm.name, drawn.ranks.size());
      const auto messages = algorithm.expand(drawn.payload, drawn.ranks, drawn.topology, pieces);
      CHECK(sum_of(messages) ==
            sum_of(algorithm.add_up(drawn.payload, drawn.ranks, drawn.topology)));
      CHECK(std::is_sorted(messages.begin(), messages.end(), [](const auto& a, const auto& b) {
        return a.step < b.step;
      }));
      const RunningCollective running{messages, drawn.ranks, Seconds(0)};
      const Seconds took = run_messages(drawn.topology, std::span(&running, 1)).front();
      double fullest = 0;
      for (const LinkLoad& load :
           link_loads(algorithm, drawn.payload, drawn.ranks, drawn.topology)) {
        fullest = std::max(fullest, (load.amount / drawn.topology.capacity(load.link)).value());
      }
      CHECK(took.value() >= fullest * (1 - 1e-9));
      CHECK(took >= (1 - 1e-9) * least_of(algorithm, drawn));
    }
  }
}

/// Bytes that a rank must receive at least from the others, whoever adds up.
Bytes least_received(std::string_view collective,
                     Bytes payload,
                     std::int64_t n,
                     std::int64_t rank) {
  const auto part = [](std::int64_t total, std::int64_t parts, std::int64_t index) {
    return total / parts + (index < total % parts ? 1 : 0);
  };
  const std::int64_t total = payload.value();
  if (collective == "all_gather" || collective == "send_recv") {
    return Bytes(total - part(total, n, rank));
  }
  if (collective == "reduce_scatter") {
    return Bytes(part(total, n, rank));
  }
  if (collective == "all_reduce") {
    return payload;
  }
  if (collective == "all_to_all") {
    Bytes received;
    for (std::int64_t from = 0; from < n; ++from) {
      if (from != rank) {
        received += Bytes(part(part(total, n, from), n, rank));
      }
    }
    return received;
  }
  return rank == 0 ? Bytes(total - part(total, n, 0)) : Bytes(0);
}

TEST_CASE("the loads near some GPUs are those of all links, restricted to theirs",
          "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed());
  for (int round = 0; round < 40; ++round) {
    const Drawn drawn = draw(random);
    const std::array<std::int64_t, 1> gpu = {static_cast<std::int64_t>(
        random() % static_cast<std::uint64_t>(drawn.topology.shape().gpus()))};
    const NearGpus near(drawn.topology, gpu);
    CHECK(near.has(gpu[0]));
    for (const Algorithm& algorithm : algorithm_table()) {
      if (!algorithm.applies(drawn.ranks, drawn.topology)) {
        continue;
      }
      CAPTURE(round, algorithm.collective, algorithm.name, drawn.ranks.size());
      std::vector<LinkLoad> loads =
          link_loads(algorithm, drawn.payload, drawn.ranks, drawn.topology);
      std::erase_if(loads, [&](const LinkLoad& load) { return !near.has_link(load.link); });
      CHECK(near_loads(algorithm, drawn.payload, drawn.ranks, drawn.topology, near) == loads);
    }
  }
}

TEST_CASE("every rank receives what it has to", "[property][engine]") {
  CAPTURE(Catch::getSeed());
  std::mt19937_64 random(Catch::getSeed() + 1);
  for (int round = 0; round < 40; ++round) {
    const Drawn drawn = draw(random);
    const auto n = static_cast<std::int64_t>(drawn.ranks.size());
    for (const Algorithm& algorithm : algorithm_table()) {
      if (n == 1 || !algorithm.applies(drawn.ranks, drawn.topology)) {
        continue;
      }
      CAPTURE(round, algorithm.collective, algorithm.name, n);
      std::vector<Bytes> received(drawn.ranks.size());
      for (const Message& message : algorithm.add_up(drawn.payload, drawn.ranks, drawn.topology)) {
        if (message.delivery != Delivery::switch_copies) {
          received[static_cast<std::size_t>(message.to)] += message.amount;
          continue;
        }
        for (std::size_t rank = 0; rank < drawn.ranks.size(); ++rank) {
          if (drawn.topology.same_node(drawn.ranks[rank],
                                       drawn.ranks[static_cast<std::size_t>(message.from)])) {
            received[rank] += message.amount;
          }
        }
      }
      for (std::int64_t rank = 0; rank < n; ++rank) {
        CHECK(received[static_cast<std::size_t>(rank)] >=
              least_received(algorithm.collective, drawn.payload, n, rank));
      }
    }
  }
}

}  // namespace
}  // namespace trireme::engine
