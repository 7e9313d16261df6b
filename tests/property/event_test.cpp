// What the event reader keeps on plans drawn at random.
#include "sim/engine/event/event.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/plan/lower.h"
#include "sim/plan/step.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"
#include "tests/unit/engine/timed_program.h"

namespace trireme {
namespace {

using engine::EventOptions;
using engine::EventResult;
using engine::Machine;
using engine::Schedule;

/// As the unit tests' machine, with attention of any head dimension and several nodes.
Machine machine_of(const plan::Plan& plan) {
  Machine machine = engine::machine();
  machine.gpus_per_node = plan.group_degree;
  cost::AttentionKernelCosts kernel;
  kernel.head_dim_count = 1;
  kernel.head_dims[0] = {1024,
                         1.0,
                         cost::AttentionPassCosts{FlopsPerSecond(1e12), 100},
                         cost::AttentionPassCosts{FlopsPerSecond(1e12), 200}};
  kernel.sustained_after = Seconds(1e9);
  machine.costs.attention = {kernel, kernel, kernel};
  cost::SendRecvCosts& hop = machine.costs.collectives.send_recv.emplace();
  hop.start = Seconds(1e-9);
  hop.channel_rate = BytesPerSecond(1e9);
  hop.link_rate = BytesPerSecond(1e9);
  hop.channels = 1;
  hop.channel_bytes = Bytes(1 << 20);
  machine.costs.multi_node.send_recv.emplace().nic_efficiency = 0.9;
  cost::MultiNodeCosts& outside = machine.costs.multi_node;
  outside.all_to_all.emplace().nic_efficiency = 0.9;
  outside.ring = {.all_gather_step = Seconds(1e-9),
                  .reduce_scatter_step = Seconds(1e-9),
                  .all_reduce_step = Seconds(1e-9),
                  .nic_efficiency = 0.9,
                  .nvlink_rate = BytesPerSecond(1e10)};
  return machine;
}

/// Without contention: the closed form bounds no step whose collectives share links.
EventOptions alone() {
  EventOptions options;
  options.contention = false;
  return options;
}

Seconds step(const Schedule& schedule,
             const Machine& machine,
             const EventOptions& options = alone()) {
  const auto result = engine::simulate(schedule, machine, options);
  REQUIRE(result.has_value());
  return result->time.step;
}

bool overlaps(const program::Program& program) {
  return std::any_of(program.ops().begin(), program.ops().end(), [](const program::Op& op) {
    return !op.blocking;
  });
}

/// Seconds that the fullest stream of a program is busy; what blocks occupies compute too.
double longest_stream(const program::Program& program, const Machine& machine) {
  std::array<double, program::kStreams + 1> busy{};
  program::for_each_op(program, [&](program::OpId, const program::Op& op, std::int64_t times) {
    const double seconds =
        static_cast<double>(times) * engine::op_time(program, op, machine).value().value();
    busy[op.stream] += seconds;
    if (op.blocking && op.stream != program::kComputeStream) {
      busy[program::kComputeStream] += seconds;
    }
  });
  return *std::max_element(busy.begin(), busy.end());
}

TEST_CASE("with overlap, event lies between the longest stream and analytic",
          "[property][engine]") {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  int overlapping = 0;
  for (std::uint64_t seed = first; seed < first + 60; ++seed) {
    const plan::Plan plan = test::random_plan(seed);
    CAPTURE(seed, test::describe(plan));
    const program::Program program = plan::lower(plan);
    const Machine machine = machine_of(plan);
    const auto analytic = engine::read_time(program, machine);
    REQUIRE(analytic.has_value());
    const double event = step(Schedule(program), machine).value();
    CHECK(event >= longest_stream(program, machine) * (1 - 1e-12));
    CHECK(event <= analytic->step.value() * (1 + 1e-12));
    overlapping += overlaps(program) ? 1 : 0;
  }
  CHECK(overlapping >= 20);
}

TEST_CASE("a hidden collective is never slower than an exposed one", "[property][engine]") {
  // Parameters and gradients only: a ring exchange has other kernels than the collective it
  // replaces.
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (std::uint64_t seed = first; seed < first + 60; ++seed) {
    plan::Plan plan = test::random_plan(seed);
    plan.overlap_tensor = config::TensorParallelOverlap::none;
    CAPTURE(seed, test::describe(plan));
    const program::Program hidden = plan::lower(plan);
    const program::Program exposed = plan::lower(test::without_overlap(plan));
    const Machine machine = machine_of(plan);
    CHECK(step(Schedule(hidden), machine).value() <=
          step(Schedule(exposed), machine).value() * (1 + 1e-12));
    CHECK(engine::read_time(hidden, machine)->step.value() <=
          engine::read_time(exposed, machine)->step.value() * (1 + 1e-12));
  }
}

TEST_CASE("event equals analytic with one stream at a time, folded or not", "[property][engine]") {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (std::uint64_t seed = first; seed < first + 60; ++seed) {
    const plan::Plan plan = test::random_plan(seed);
    CAPTURE(seed, test::describe(plan));
    const program::Program program = plan::lower(plan);
    const Machine machine = machine_of(plan);
    const Schedule schedule(program);
    const auto analytic = engine::read_time(program, machine);
    REQUIRE(analytic.has_value());
    const double wanted = step(schedule, machine).value();
    if (overlaps(program)) {  // between the longest stream and the bound
      const Seconds waits = analytic->exposed_communication + analytic->exposed_host_copy;
      const double compute = (analytic->step - waits).value();
      CHECK(wanted >= compute * (1 - 1e-12));
      CHECK(wanted <= analytic->step.value() * (1 + 1e-12));
    } else {
      CHECK(wanted == Approx(analytic->step.value()).epsilon(1e-12));
    }

    EventOptions unfolded = alone();
    unfolded.unfolded = true;
    const auto every_rank = engine::simulate(schedule, machine, unfolded);
    REQUIRE(every_rank.has_value());
    CHECK(every_rank->classes == plan.ranks());
    CHECK(every_rank->time.step.value() == Approx(wanted).epsilon(1e-12));
    // Busy time is conserved, whatever the clock.
    CHECK(every_rank->time.gemm.value() == Approx(analytic->gemm.value()).epsilon(1e-12));
    CHECK(every_rank->time.memory_bound.value() ==
          Approx(analytic->memory_bound.value()).epsilon(1e-12));
  }
}

// Ranks of a stage that have less to do than the slowest reach the next one earlier.
TEST_CASE("stages of a pipeline: event lies between the longest stage and analytic, folded or not",
          "[property][engine][pipeline]") {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (std::uint64_t seed = first; seed < first + 60; ++seed) {
    const plan::Plan plan = test::random_pipeline_plan(seed);
    CAPTURE(seed, test::describe(plan));
    const std::vector<program::Program> stages = plan::lower_stages(plan);
    Machine machine = machine_of(plan);
    const int innermost = plan.placement.empty() ? plan::kGroupAxis : plan.placement.front();
    machine.gpus_per_node = stages.front().mesh().size(innermost);
    const Schedule schedule(stages);
    const auto analytic = engine::read_time(stages, machine);
    REQUIRE(analytic.has_value());
    const auto event = engine::simulate(schedule, machine, alone());
    REQUIRE(event.has_value());
    const double wanted = event->time.step.value();
    CHECK(wanted <= analytic->step.value() * (1 + 1e-12));
    for (const program::Program& stage : stages) {
      CHECK(wanted >= longest_stream(stage, machine) * (1 - 1e-12));
    }
    EventOptions unfolded = alone();
    unfolded.unfolded = true;
    const auto every_rank = engine::simulate(schedule, machine, unfolded);
    REQUIRE(every_rank.has_value());
    CHECK(every_rank->classes == plan.ranks());
    CHECK(every_rank->time.step.value() == Approx(wanted).epsilon(1e-12));
    const ledger::TimeLedger& time = event->time;
    CHECK((time.compute_busy + time.exposed_communication + time.exposed_host_copy +
           time.exposed_launch + time.pipeline_bubble)
              .value() == Approx(wanted).epsilon(1e-9));
  }
}

TEST_CASE("a slow rank slows a step by no more than its own work; folding agrees",
          "[property][engine]") {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (std::uint64_t seed = first; seed < first + 30; ++seed) {
    const plan::Plan plan = test::random_plan(seed);
    CAPTURE(seed, test::describe(plan));
    const program::Program program = plan::lower(plan);
    const Machine machine = machine_of(plan);
    const Schedule schedule(program);
    EventOptions slow = alone();
    slow.variation.stragglers = {{static_cast<std::int64_t>(seed) % plan.ranks(), 1.5, {}}};
    EventOptions unfolded = slow;
    unfolded.unfolded = true;
    const Seconds even = step(schedule, machine);
    const Seconds uneven = step(schedule, machine, slow);
    CHECK(uneven == step(schedule, machine, unfolded));
    // In contiguous order a rank of the ring may have time to spare.
    const bool spare = plan.ring_degree > 1 && plan.order == config::RingOrder::contiguous;
    CHECK((spare ? uneven >= even : uneven > even));
    CHECK(uneven.value() <= 1.5 * even.value() * (1 + 1e-12));
  }
}

TEST_CASE("jitter is decided by its seed alone", "[property][engine]") {
  const plan::Plan plan = test::random_plan(Catch::getSeed());
  CAPTURE(Catch::getSeed(), test::describe(plan));
  const program::Program program = plan::lower(plan);
  const Machine machine = machine_of(plan);
  const Schedule schedule(program);
  EventOptions options;
  options.variation.jitter = 0.1;
  options.variation.seed = 7;
  const Seconds one = step(schedule, machine, options);
  CHECK(one == step(schedule, machine, options));
  options.variation.seed = 8;
  CHECK(one != step(schedule, machine, options));
}

}  // namespace
}  // namespace trireme
