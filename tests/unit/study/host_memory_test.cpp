// What ranks hold on their hosts, and what goes there and back: closed forms, and verdicts on a
// node's memory.
#include "sim/study/host_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/report/study_tables.h"
#include "sim/study/device_memory.h"
#include "sim/study/evaluate.h"
#include "sim/study/levers.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

using ledger::Verdict;

constexpr std::int64_t kNorm = 4;  // bytes of the squared norm of the gradients

config::StudySpec study_with(const std::string& plan,
                             const std::string& cluster = "h100-8x-nvlink") {
  return test::study_of(
             "version: 1\n"
             "model: ulysses-study-8-layer\n"
             "cluster: " +
             cluster +
             "\nworkload: {sequence: 64K}\n"
             "plans:\n  - {name: p, " +
             plan + "}\n")
      .base();
}

ledger::PlanResult result_of(const std::string& plan,
                             const std::string& cluster = "h100-8x-nvlink") {
  const config::StudySpec study = study_with(plan, cluster);
  ledger::PlanResult result = evaluate(study, study.plans.front(), ledger::Engine::both);
  REQUIRE(result.numbers.has_value());
  return result;
}

/// Parameters of one rank's shard.
std::int64_t parameters_of_rank(const std::string& plan) {
  const config::StudySpec study = study_with(plan);
  const program::Program program = plan::lower(plan::resolve(study, study.plans.front()).plan);
  std::int64_t elements = 0;
  for (const program::Tensor& tensor : program.tensors()) {
    if (tensor.resident && tensor.role == program::Role::parameter) {
      elements += program.resident_instances(tensor) * tensor.local_elements.value();
    }
  }
  return elements;
}

TEST_CASE("inputs of layers on the host: one of N / P bytes each, there and back", "[unit]") {
  const std::string plan = "ulysses: 8, zero: {stage: 3}, recompute: ";
  const ledger::PlanResult kept = result_of(plan + "full");
  const ledger::PlanResult offloaded = result_of(plan + "{offload: host}");
  const Bytes inputs(std::int64_t{8} * 65536 / 8 * 6144 * 2);  // layers, tokens, hidden, bf16
  CHECK(kept.numbers->host.per_rank == Bytes(0));
  CHECK(kept.numbers->bytes.to_host == Bytes(0));
  CHECK(offloaded.numbers->host.per_rank == inputs);
  CHECK(offloaded.numbers->host.per_node == 8 * inputs);
  CHECK(offloaded.numbers->bytes.to_host == inputs);
  CHECK(offloaded.numbers->bytes.to_device == inputs);
  CHECK(offloaded.numbers->bytes.sent == kept.numbers->bytes.sent);
  // On the GPU all but the input of the layer at work are gone.
  CHECK(kept.numbers->memory.allocated - offloaded.numbers->memory.allocated ==
        Bytes(std::int64_t{7} * 65536 / 8 * 6144 * 2));
}

// Source: deepspeed, runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs: 16 and 18 bytes
// a parameter, before its factor for buffers.
TEST_CASE("the optimizer on the host takes 16 bytes a parameter, 18 with the parameters",
          "[unit]") {
  const std::string zero = "ulysses: 8, zero: {stage: 3}, ";
  const std::int64_t shard = parameters_of_rank(zero);
  const ledger::PlanResult states = result_of(zero + "offload: {optimizer: true}");
  const ledger::PlanResult all = result_of(zero + "offload: {optimizer: true, parameters: true}");
  CHECK(all.numbers->host.per_rank == Bytes(18 * shard + kNorm));
  // Beside them a layer's updated parameters, on their way to the GPU.
  CHECK(states.numbers->host.per_rank > Bytes(16 * shard));
  CHECK(states.numbers->host.per_rank <= Bytes(16 * shard + 2 * shard / 8 + kNorm));
  CHECK(states.numbers->bytes.to_host == Bytes(4 * shard + kNorm));
  CHECK(states.numbers->bytes.to_device == Bytes(2 * shard + kNorm));
  // Gathered forward and backward: a shard each time, and no parameter after the optimizer.
  CHECK(all.numbers->bytes.to_device == Bytes(2 * 2 * shard + kNorm));
  CHECK(all.numbers->bytes.to_host == states.numbers->bytes.to_host);
}

TEST_CASE("with micro batches 2 m - 1 shards of gradients go over the link", "[unit]") {
  const std::string zero = "ulysses: 8, zero: {stage: 2}, offload: {optimizer: true}";
  const std::int64_t shard = parameters_of_rank("ulysses: 8, zero: {stage: 3}");
  config::StudySpec study = study_with(zero);
  study.workload.global_batch = Located<std::int64_t>{5, {}};
  const ledger::PlanResult result = evaluate(study, study.plans.front());
  REQUIRE(result.numbers.has_value());
  CHECK(result.numbers->bytes.to_host == Bytes(5 * 4 * shard + kNorm));
  CHECK(result.numbers->bytes.to_device == Bytes(4 * 4 * shard + 2 * shard + kNorm));
}

TEST_CASE("a node's memory decides where the cluster states it", "[unit]") {
  const std::string plan = "ulysses: 8, zero: {stage: 3}, recompute: {offload: host}";
  const Bytes inputs(std::int64_t{8} * 65536 * 6144 * 2);  // of a node
  const auto with_memory = [&](Bytes memory) {
    return result_of(plan,
                     "{use: h100-8x-nvlink, node: {host: {memory: {value: " +
                         std::to_string(memory.value()) + " B, source: test}}}}");
  };
  CHECK(with_memory(inputs).verdict == Verdict::fits);
  const ledger::PlanResult less = with_memory(inputs - Bytes(1));
  CHECK(less.verdict == Verdict::does_not_fit);
  CHECK(report::reasons_of(less).at(1) == "needs 6.00 GiB of a node's host memory of 6.00 GiB");
}

TEST_CASE("copies that overlap hide behind the computation, and change no byte", "[unit]") {
  const std::string plan = "ulysses: 8, zero: {stage: 3}, recompute: {offload: host}";
  const ledger::PlanResult blocking = result_of(plan);
  const ledger::PlanResult beside = result_of(plan + ", offload: {overlap: true}");
  REQUIRE(blocking.numbers->step.has_value());
  REQUIRE(beside.numbers->step.has_value());
  const ledger::TimeLedger& waits = blocking.numbers->step->time;
  const ledger::TimeLedger& hides = beside.numbers->step->time;
  CHECK(beside.numbers->bytes.to_host == blocking.numbers->bytes.to_host);
  CHECK(beside.numbers->host.per_rank == blocking.numbers->host.per_rank);
  // Both ways over 52.8 GB/s; the last layer's input comes back behind the loss.
  const Seconds both_ways =
      2 * (blocking.numbers->bytes.to_host / study_with(plan).cluster.host.link_per_gpu);
  CHECK(waits.exposed_host_copy.value() == Approx(both_ways.value()));
  CHECK(hides.exposed_host_copy == Seconds(0));
  // The analytic reader takes all layers' inputs for one tensor, and bounds the event engine.
  CHECK(beside.numbers->by_reader.analytic->step >= hides.step);
  CHECK(beside.numbers->by_reader.analytic->step < waits.step);
  CHECK(waits.step.value() - hides.step.value() == Approx(both_ways.value()));
}

TEST_CASE("levers offer the host, one step after the other", "[unit]") {
  const auto changes_of = [](const std::string& plan) {
    const config::StudySpec study = study_with(plan);
    const auto now = plan_memory(study, study.plans.front());
    std::vector<std::string> changes;
    for (const ChangedPlan& changed : levers(study, study.plans.front(), now->device)) {
      changes.push_back(changed.lever.change);
    }
    return changes;
  };
  const auto has = [](const std::vector<std::string>& changes, std::string_view change) {
    return std::find(changes.begin(), changes.end(), change) != changes.end();
  };
  const std::vector<std::string> first = changes_of("ulysses: 8, zero: {stage: 3}");
  CHECK(has(first, "recompute: {offload: host}"));
  CHECK(has(first, "offload.optimizer: true"));
  CHECK_FALSE(has(first, "offload.parameters: true"));
  const std::vector<std::string> next =
      changes_of("ulysses: 8, zero: {stage: 3}, offload: {optimizer: true}");
  CHECK(has(next, "offload.parameters: true"));
  CHECK_FALSE(has(next, "offload.optimizer: true"));
}

}  // namespace
}  // namespace trireme::study
