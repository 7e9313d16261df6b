#include "sim/engine/network/run_messages.h"

#include <array>
#include <numeric>
#include <vector>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

constexpr double kExact = 1e-9;

std::vector<std::int64_t> first_ranks(std::int64_t count) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// `nodes` nodes of `gpus` on NVSwitch at 400 bytes/s with a NIC of 50 bytes/s each; 1 s inside,
/// 5 s between nodes.
Topology cluster(std::int64_t nodes, std::int64_t gpus) {
  TopologyShape shape;
  shape.nodes = nodes;
  shape.gpus_per_node = gpus;
  shape.nics_per_node = gpus;
  shape.link_per_gpu = BytesPerSecond(400);
  shape.nic = BytesPerSecond(50);
  shape.latency_inside = Seconds(1);
  shape.latency_outside = Seconds(5);
  return Topology(shape);
}

double seconds(const Topology& topology,
               std::string_view collective,
               std::string_view algorithm,
               std::int64_t payload,
               std::int64_t pieces = 1) {
  return run_alone(topology,
                   find_algorithm(collective, algorithm),
                   Bytes(payload),
                   first_ranks(topology.shape().gpus()),
                   pieces)
      .value();
}

TEST_CASE("rings and direct exchanges on an idle node equal their formulas", "[engine]") {
  const Topology node = cluster(1, 8);
  // 8 ranks, N = 64,000: a ring has 7 steps of 1 s and 8,000 / 400 = 20 s.
  CHECK(seconds(node, "all_gather", "ring", 64'000) == Approx(7 * 21).epsilon(kExact));
  CHECK(seconds(node, "reduce_scatter", "ring", 64'000) == Approx(7 * 21).epsilon(kExact));
  CHECK(seconds(node, "all_reduce", "ring", 64'000) == Approx(14 * 21).epsilon(kExact));
  CHECK(seconds(node, "send_recv", "ring", 64'000) == Approx(7 * 21).epsilon(kExact));
  // An all-to-all sends 7 chunks of 1,000 at once: 1 + 7,000 / 400.
  CHECK(seconds(node, "all_to_all", "direct", 64'000) == Approx(1 + 17.5).epsilon(kExact));
  CHECK(seconds(node, "all_to_all", "pairwise", 64'000) == Approx(7 * 3.5).epsilon(kExact));
  // Doubling: 3 steps, 1 + 2 + 4 chunks of 8,000.
  CHECK(seconds(node, "all_gather", "recursive_doubling", 64'000) ==
        Approx(3 + 7 * 20).epsilon(kExact));
  CHECK(seconds(node, "all_reduce", "recursive_doubling", 64'000) ==
        Approx(3 * (1 + 160)).epsilon(kExact));
  CHECK(seconds(node, "gather", "linear", 64'000) == Approx(7 * 21).epsilon(kExact));
}

TEST_CASE("all-to-all over nodes: direct by the NICs, hierarchical in two steps", "[engine]") {
  // 2 x 4 ranks, N = 64,000: chunks of 1,000. Direct: 4 remote chunks of 1,000 over 50: 80 s + 5.
  const Topology cluster_of_two = cluster(2, 4);
  CHECK(seconds(cluster_of_two, "all_to_all", "direct", 64'000) == Approx(85).epsilon(kExact));
  // Inside: 3 peers, 2 chunks each: 6,000 / 400 = 15 s + 1; then 4 chunks to one peer: 80 s + 5.
  CHECK(seconds(cluster_of_two, "all_to_all", "hierarchical", 64'000) ==
        Approx(16 + 85).epsilon(kExact));
}

TEST_CASE("one ring uses one NIC of a node, a ring for each NIC all of them", "[engine]") {
  // 2 x 4 ranks, N = 64,000. One ring: 7 steps of 8,000 / 50 + 5 between the nodes. Four rings of
  // 16,000: chunks of 2,000; between the nodes 40 + 5; inside, a rank sends for 3 rings: 15 + 1.
  const Topology cluster_of_two = cluster(2, 4);
  CHECK(seconds(cluster_of_two, "all_gather", "ring", 64'000) == Approx(7 * 165).epsilon(kExact));
  CHECK(seconds(cluster_of_two, "all_gather", "rings", 64'000) == Approx(7 * 45).epsilon(kExact));
}

TEST_CASE("trees stream: the next piece follows one step behind", "[engine]") {
  // Two nodes of one GPU: each tree has a root and a leaf, 32,000 each: up in step 0, down in step
  // 1. The trees' roots differ, so that each NIC sends one half at a time: 2 x (5 + 640).
  CHECK(seconds(cluster(2, 1), "all_reduce", "double_binary_tree", 64'000) ==
        Approx(2 * 645).epsilon(kExact));
  // In four pieces: step 0 sends a piece of 8,000 up, 3 steps one up and one down at once (those of
  // the other tree the other way: 16,000 over each NIC), step 4 one down.
  CHECK(seconds(cluster(2, 1), "all_reduce", "double_binary_tree", 64'000, 4) ==
        Approx(2 * 165 + 3 * 325).epsilon(kExact));
}

TEST_CASE("switches add and copy: a rank sends and receives its data once and its slice once",
          "[engine]") {
  // 4 ranks, N = 64,000, slices of 16,000. Added: each rank sends its part of 4 slices: 64,000 over
  // 400 = 160 s + 1. Copied: each receives 4 slices.
  const Topology node = cluster(1, 4);
  CHECK(seconds(node, "all_reduce", "nvls", 64'000) == Approx(2 * 161).epsilon(kExact));
  CHECK(seconds(node, "all_gather", "nvls", 64'000) == Approx(161).epsilon(kExact));
  CHECK(seconds(node, "reduce_scatter", "nvls", 64'000) == Approx(161).epsilon(kExact));
  const std::vector<std::int64_t> ranks = first_ranks(4);
  const auto loads = link_loads(find_algorithm("all_reduce", "nvls"), Bytes(64'000), ranks, node);
  REQUIRE(loads.size() == 8);
  for (const LinkLoad& load : loads) {
    CHECK(load.amount == Bytes(64'000 + 16'000));
  }
}

TEST_CASE("two collectives on the same links take turns by halves", "[engine]") {
  const Topology node = cluster(1, 2);
  const std::vector<std::int64_t> ranks = first_ranks(2);
  const auto messages =
      find_algorithm("all_to_all", "direct").expand(Bytes(16'000), ranks, node, 1);
  REQUIRE(messages.size() == 2);
  // 4,000 each way at 400: 10 s alone. The second begins 4 s later: from 5 to 1 + 4 s its first
  // second of latency is over; then both have 200 until the first, with 6 s left, ends after 12 s.
  const std::array running{RunningCollective{messages, ranks, Seconds(0)},
                           RunningCollective{messages, ranks, Seconds(4)}};
  const auto ends = run_messages(node, running);
  CHECK(ends[0].value() == Approx(5 + 12).epsilon(kExact));
  CHECK(ends[1].value() == Approx(17 + (4000 - 12 * 200) / 400.0).epsilon(kExact));
}

TEST_CASE("a group of one sends nothing, at once", "[engine]") {
  const Topology node = cluster(1, 1);
  const std::vector<std::int64_t> alone{0};
  for (const Algorithm& algorithm : algorithm_table()) {
    CAPTURE(algorithm.collective, algorithm.name);
    CHECK(run_alone(node, algorithm, Bytes(1000), alone) == Seconds(0));
    CHECK(link_loads(algorithm, Bytes(1000), alone, node).empty());
  }
}

}  // namespace
}  // namespace trireme::engine
