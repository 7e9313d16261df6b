#include "sim/config/what_if.h"

#include <string>

#include "sim/core/error.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::config {
namespace {

std::string study(const std::string& what_if, const std::string& cluster = "h100-8x-nvlink") {
  return "version: 1\nmodel: {use: ulysses-study-8-layer, layers: 1}\ncluster: " + cluster +
         "\nworkload: {sequence: 8K}\n"
         "plans: [{name: m, use: megatron-sp, framework: megatron}]\n" +
         what_if;
}

TEST_CASE("what_if: everything that may be asked", "[config]") {
  const StudyFile file = test::study_of(study(
      "what_if:\n"
      "  bandwidth: {nvlink: 0.5, nic: 2}\n"
      "  slow_ranks: [{rank: 3, factor: 1.2}, {rank: 9, factor: 2, component: attention}]\n"
      "  jitter: {distribution: exponential, relative: 0.02, between_ranks: 0.01, seed: 7, runs: "
      "20}\n"
      "  overlap: off\n  contention: off\n  interference: off\n",
      "{use: h100-8x-nvlink, nodes: 2}"));
  const WhatIfSpec& asked = file.base().what_if;
  CHECK(asked.nvlink == 0.5);
  CHECK(asked.nic == 2);
  REQUIRE(asked.slow_ranks.size() == 2);
  CHECK(asked.slow_ranks[0].rank == 3);
  CHECK(asked.slow_ranks[0].factor == 1.2);
  CHECK_FALSE(asked.slow_ranks[0].component.has_value());
  CHECK(asked.slow_ranks[1].component == Component::attention);
  REQUIRE(asked.jitter.has_value());
  CHECK(asked.jitter->distribution == JitterDistribution::exponential);
  CHECK(asked.jitter->relative == 0.02);
  CHECK(asked.jitter->between_ranks == 0.01);
  CHECK(asked.jitter->seed == 7);
  CHECK(asked.jitter->runs == 20);
  CHECK_FALSE(asked.overlap);
  CHECK_FALSE(asked.contention);
  CHECK_FALSE(asked.interference);
  CHECK(file.base().plans.front().overlap.nothing);
}

TEST_CASE("what_if: bandwidths change the links and what was measured of them", "[config]") {
  const std::string nodes = "{use: h100-8x-nvlink, nodes: 2}";
  const StudySpec as_it_is = test::study_of(study("", nodes)).base();
  const StudySpec half =
      test::study_of(study("what_if: {bandwidth: {nvlink: 0.5, nic: 0.25}}\n", nodes)).base();
  const ClusterSpec& before = as_it_is.cluster;
  const ClusterSpec& after = half.cluster;
  CHECK(after.gpu.nvlink_one_direction == 0.5 * before.gpu.nvlink_one_direction);
  CHECK(after.nic_per_gpu == 0.25 * before.nic_per_gpu);
  CHECK(after.profile.costs.collectives.all_gather->link_rate ==
        0.5 * before.profile.costs.collectives.all_gather->link_rate);
  CHECK(after.profile.costs.collectives.all_gather->start ==
        before.profile.costs.collectives.all_gather->start);
  CHECK_FALSE(half.plans.front().overlap.nothing);
}

TEST_CASE("what_if: runs that would all be alike are one", "[config]") {
  const StudyFile file = test::study_of(study("what_if: {jitter: {runs: 50}}\n"));
  CHECK(file.base().what_if.jitter->runs == 1);
}

TEST_CASE("what_if: a sweep reaches its keys, and the items of its lists", "[config]") {
  const StudyFile file = test::study_of(
      study("what_if: {slow_ranks: [{rank: 0, factor: 2}, {rank: 1, factor: 1}]}\n"
            "sweep: {what_if.bandwidth.nvlink: [1, 0.5], what_if.slow_ranks.1.factor: [3, 4], "
            "what_if.overlap: [on, off]}\n"));
  REQUIRE(file.points().size() == 8);
  const WhatIfSpec last = file.at(file.points().back()).what_if;
  CHECK(last.nvlink == 0.5);
  CHECK(last.slow_ranks[0].factor == 2);
  CHECK(last.slow_ranks[1].factor == 4);
  CHECK_FALSE(last.overlap);
}

TEST_CASE("points of a sweep that leave the cluster alone share it as it was read", "[config]") {
  const std::string nodes = "{use: h100-8x-nvlink, nodes: 2}";
  const StudyFile file =
      test::study_of(study("what_if: {bandwidth: {nvlink: 0.5}}\n"
                           "sweep: {workload.sequence: [8K, 16K], cluster.nodes: [2, 4]}\n",
                           nodes));
  const StudyFile of_length = test::study_of(
      study("what_if: {bandwidth: {nvlink: 0.5}}\nsweep: {workload.sequence: [8K, 16K]}\n", nodes));
  CHECK(file.at(file.points().back()).cluster.nodes.value == 4);
  const StudySpec longer = of_length.at(of_length.points().back());
  CHECK(longer.workload.sequence.value == Tokens(16 << 10));
  CHECK(longer.cluster.nodes.value == 2);
  // The what-if changes each point's own copy, once.
  CHECK(longer.cluster.gpu.nvlink_one_direction ==
        of_length.base().cluster.gpu.nvlink_one_direction);
  CHECK(longer.defaults_used == of_length.base().defaults_used);
}

}  // namespace
}  // namespace trireme::config
