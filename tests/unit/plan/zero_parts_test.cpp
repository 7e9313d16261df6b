// ZeRO over a part of the data-parallel ranks: replicas of the shards, and shards that a part keeps
// for its backward passes.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/step.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

constexpr std::int64_t kRanks = 8;
constexpr std::int64_t kParts = 2;
constexpr std::int64_t kInPart = kRanks / kParts;
constexpr std::int64_t kMicroBatches = 3;

// Two layers of 12 h^2 + 4 h = 49,408 elements, h = 64: all their sizes are multiples of 8.
constexpr std::int64_t kElements = 2 * 49'408;
constexpr std::int64_t kWeights = 2 * kElements;    // W, bf16
constexpr std::int64_t kGradients = 4 * kElements;  // G, fp32

plan::Plan in_parts(std::int64_t stage, bool replicated) {
  plan::Plan plan = data_parallel(gelu_model(2, 64, 4), kRanks, 32, stage);
  plan.micro_batches = kMicroBatches;
  plan.zero_parts = kParts;
  plan.zero_replicated = replicated;
  return plan;
}

Bytes sent_of(const plan::Plan& plan, Traffic traffic) {
  return sent_where(plan::lower(plan), [&](const ledger::ByteEntry& entry) {
    return entry.account.traffic == traffic;
  });
}

Bytes sent_of(const plan::Plan& plan, Traffic traffic, Phase phase) {
  return sent_where(plan::lower(plan), [&](const ledger::ByteEntry& entry) {
    return entry.account.traffic == traffic && entry.account.phase == phase;
  });
}

/// Of a gather or scatter of `bytes` over some ranks.
constexpr std::int64_t share(std::int64_t bytes, std::int64_t ranks) {
  return bytes * (ranks - 1) / ranks;
}

// W (S - 1) / S for each gather, two in a micro batch; G (S - 1) / S for each scatter and
// 2 (G / S) (R - 1) / R for the sum of the R replicas, once a step or in every micro batch.
TEST_CASE("replicas of ZeRO-3 gather and scatter in a part, and sum shards", "[plan]") {
  const std::int64_t sum = 2 * share(kGradients / kInPart, kParts);
  for (const bool early : {false, true}) {
    plan::Plan plan = in_parts(3, true);
    plan.sum_replicas_early = early;
    CHECK(sent_of(plan, Traffic::parameters) ==
          Bytes(kMicroBatches * 2 * share(kWeights, kInPart)));
    CHECK(sent_of(plan, Traffic::gradients) ==
          Bytes(kMicroBatches * share(kGradients, kInPart) + (early ? kMicroBatches : 1) * sum));
    const program::Program program = plan::lower(plan);
    CHECK(resident(program, program::Role::parameter) == Bytes(kWeights / kInPart));
    CHECK(resident(program, program::Role::gradient) == Bytes(kGradients / kInPart));
  }
}

TEST_CASE("replicas of ZeRO-1 scatter before they sum, or all-reduce over all", "[plan]") {
  plan::Plan plan = in_parts(1, true);
  CHECK(sent_of(plan, Traffic::gradients) ==
        Bytes(share(kGradients, kInPart) + 2 * share(kGradients / kInPart, kParts)));
  CHECK(sent_of(plan, Traffic::parameters) == Bytes(share(kWeights, kInPart)));
  plan.gradient_reduce = config::GradientReduce::all_reduce;
  CHECK(sent_of(plan, Traffic::gradients) == Bytes(2 * share(kGradients, kRanks)));
  CHECK(sent_of(plan, Traffic::parameters) == Bytes(share(kWeights, kInPart)));
}

// Forward W (P - 1) / P over all ranks, backward and recomputation W (S - 1) / S in a part, of
// shards of W / S that stay beside those of W / P.
TEST_CASE("backward passes gather from the shards that a part keeps", "[plan]") {
  plan::Plan plan = in_parts(3, false);
  CHECK(sent_of(plan, Traffic::parameters, Phase::forward) ==
        Bytes(kMicroBatches * share(kWeights, kRanks)));
  CHECK(sent_of(plan, Traffic::parameters, Phase::backward) ==
        Bytes(kMicroBatches * share(kWeights, kInPart)));
  CHECK(sent_of(plan, Traffic::gradients) == Bytes(kMicroBatches * share(kGradients, kRanks)));
  const program::Program program = plan::lower(plan);
  CHECK(resident(program, program::Role::parameter) ==
        Bytes(kWeights / kRanks + kWeights / kInPart));
  CHECK(resident(program, program::Role::gradient) == Bytes(kGradients / kRanks));
  plan.recompute_layers = true;
  CHECK(sent_of(plan, Traffic::parameters, Phase::recompute) ==
        Bytes(kMicroBatches * share(kWeights, kInPart)));
  // Ranks of a part are neighbours, which a node may hold.
  CHECK(program.mesh().stride(plan::kDataAxis) == 1);
  CHECK(program.mesh().size(plan::kDataAxis) == kInPart);
}

TEST_CASE("the parts of ZeRO are stated as replicas, or as ranks of a part", "[plan]") {
  const auto resolved = [](const std::string& keys) {
    const config::StudySpec study = study_of(
                                        "version: 1\n"
                                        "model: {use: llama-3.1-8b}\n"
                                        "cluster: {use: h100-8x-nvlink, nodes: 4}\n"
                                        "workload: {sequence: 8K}\n"
                                        "plans:\n  - {name: p, " +
                                        keys + "}\n")
                                        .base();
    return plan::resolve(study, study.plans.front());
  };
  plan::Resolution found = resolved("ulysses: 4, zero: {stage: 3, replicate: 4}");
  CHECK(found.feasibility.legal());
  CHECK(found.plan.zero_parts == 4);
  CHECK(found.plan.zero_replicated);
  CHECK_FALSE(found.plan.sum_replicas_early);
  CHECK(plan::mesh_of(found.plan).size(plan::kDataAxis) == 2);
  CHECK(resolved("framework: pytorch, zero: {stage: 3, replicate: 4}").plan.sum_replicas_early);
  // 8 ranks are a Ulysses group and two data-parallel ranks.
  found = resolved("ulysses: 4, framework: deepspeed, zero: {stage: 3, hpz_partition_size: 8}");
  CHECK(found.feasibility.legal());
  CHECK(found.plan.zero_parts == 4);
  CHECK_FALSE(found.plan.zero_replicated);
  for (const char* const keys : {"ulysses: 4, zero: {stage: 1, replicate: 3}",
                                 "ulysses: 4, zero: {stage: 3, hpz_partition_size: 6}",
                                 "ulysses: 4, zero: {stage: 3, hpz_partition_size: 64}"}) {
    CAPTURE(keys);
    found = resolved(keys);
    REQUIRE(found.feasibility.refusals.size() == 1);
    CHECK(found.feasibility.refusals.front().rule == "zero-parts");
  }
}

}  // namespace
}  // namespace trireme
