// What the event engine keeps whatever runs beside what, on plans drawn at random.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <tbb/global_control.h>

#include "sim/engine/event/critical_path.h"
#include "sim/engine/event/event.h"
#include "sim/engine/event/monte_carlo.h"
#include "sim/engine/network/topology.h"
#include "sim/plan/lower.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"
#include "tests/unit/engine/timed_program.h"

namespace trireme {
namespace {

using engine::EventOptions;
using engine::EventResult;
using engine::Machine;
using engine::Schedule;

/// Everything takes its bytes' time at 1 GB/s, also over nodes of one sequence group; attention
/// runs at 1 TFLOP/s.
Machine machine_of(const plan::Plan& plan) {
  Machine machine = engine::machine();
  machine.gpus_per_node = plan.group_degree;
  machine.costs.streaming_multiprocessors = 100;
  cost::AttentionKernelCosts kernel;
  kernel.head_dim_count = 1;
  kernel.head_dims[0].head_dim = 1024;
  kernel.head_dims[0].forward = cost::AttentionPassCosts{FlopsPerSecond(1e12), 100};
  kernel.head_dims[0].backward = cost::AttentionPassCosts{FlopsPerSecond(1e12), 200};
  machine.costs.attention = {kernel, kernel, kernel};
  machine.costs.multi_node.all_to_all.emplace().nic_efficiency = 0.9;
  machine.costs.multi_node.send_recv.emplace().nic_efficiency = 0.9;
  cost::MultiNodeRingCosts& ring = machine.costs.multi_node.ring.emplace();
  ring.nic_efficiency = 0.9;
  ring.all_gather_step = Seconds(1e-9);
  ring.reduce_scatter_step = Seconds(1e-9);
  ring.all_reduce_step = Seconds(1e-9);
  ring.nvlink_rate = BytesPerSecond(1e10);
  cost::SendRecvCosts& hop = machine.costs.collectives.send_recv.emplace();
  hop.channels = 1;
  hop.channel_rate = BytesPerSecond(1e9);
  hop.link_rate = BytesPerSecond(1e9);
  return machine;
}

EventResult run(const Schedule& schedule, const Machine& machine, const EventOptions& options) {
  const auto result = engine::simulate(schedule, machine, options);
  REQUIRE(result.has_value());
  return *result;
}

Seconds sum(const ledger::PerCollective<Seconds>& values) {
  return std::accumulate(values.begin(), values.end(), Seconds(0));
}

template <class Check>
void for_each_plan(int count, Check check) {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    const plan::Plan plan = test::random_plan(seed);
    CAPTURE(seed, test::describe(plan));
    const program::Program program = plan::lower(plan);
    check(seed, plan, Schedule(program), machine_of(plan));
  }
}

TEST_CASE("a step is what its compute stream does and waits for", "[property][engine]") {
  for_each_plan(
      40,
      [](std::uint64_t seed, const plan::Plan& plan, const Schedule& schedule, Machine machine) {
        machine.costs.interference = cost::InterferenceCosts{10, 0.1, 0.05};
        EventOptions options;
        options.variation.stragglers = {{static_cast<std::int64_t>(seed) % plan.ranks(), 1.5, {}}};
        const EventResult result = run(schedule, machine, options);
        const ledger::TimeLedger& time = result.time;
        CHECK(time.exposed_communication == sum(time.exposed_by_collective));
        CHECK((time.compute_busy + time.exposed_communication + time.exposed_host_copy +
               time.exposed_launch + time.pipeline_bubble)
                  .value() == Approx(time.step.value()).epsilon(1e-9));
        CHECK(result.busy_of_stream[engine::kComputeSlot] == time.compute_busy);
        for (const Seconds busy : result.busy_of_stream) {
          CHECK(busy.value() <= time.step.value() * (1 + 1e-12));
        }
      });
}

TEST_CASE("contention and interference slow a step, alike folded or not", "[property][engine]") {
  for_each_plan(25,
                [](std::uint64_t, const plan::Plan&, const Schedule& schedule, Machine machine) {
                  EventOptions alone;
                  alone.contention = false;
                  alone.interference = false;
                  machine.costs.interference = cost::InterferenceCosts{10, 0.1, 0.05};
                  const Seconds fastest = run(schedule, machine, alone).time.step;
                  const EventResult folded = run(schedule, machine, {});
                  CHECK(folded.time.step.value() >= fastest.value() * (1 - 1e-12));
                  EventOptions unfolded;
                  unfolded.unfolded = true;
                  CHECK(run(schedule, machine, unfolded).time.step.value() ==
                        Approx(folded.time.step.value()).epsilon(1e-9));
                });
}

/// Links of the machine's rates, under leaf switches that the seed chooses.
engine::TopologyShape links_of(std::uint64_t seed, const plan::Plan& plan) {
  engine::TopologyShape shape;
  shape.nodes = plan.ranks() / plan.group_degree;
  shape.gpus_per_node = plan.group_degree;
  shape.link_per_gpu = BytesPerSecond(1e10);
  shape.nics_per_node =
      seed % 2 == 0 || plan.group_degree == 1 ? plan.group_degree : plan.group_degree / 2;
  shape.nic = BytesPerSecond(static_cast<double>(shape.gpus_per_nic()) * 1e9);
  shape.fabric = seed % 3 == 0 ? engine::Fabric::rail_optimised : engine::Fabric::leaf_spine;
  shape.nodes_per_leaf = 1 + static_cast<std::int64_t>(seed / 3 % 2);
  shape.oversubscription = static_cast<double>(1U << (2 * (seed / 6 % 4)));  // 1 to 64
  shape.relay_to_rail = seed / 24 % 2 == 0;
  return shape;
}

TEST_CASE("what is above leaf switches only slows a step, alike folded or not",
          "[property][engine]") {
  int slowed = 0;
  for_each_plan(
      40,
      [&](std::uint64_t seed, const plan::Plan& plan, const Schedule& schedule, Machine machine) {
        machine.topology = links_of(seed, plan);
        EventOptions alone;
        alone.contention = false;
        const Seconds fastest = run(schedule, machine, alone).time.step;
        const EventResult folded = run(schedule, machine, {});
        CHECK(folded.time.step.value() >= fastest.value() * (1 - 1e-12));
        slowed += folded.time.step.value() > fastest.value() * (1 + 1e-9) ? 1 : 0;
        EventOptions unfolded;
        unfolded.unfolded = true;
        CHECK(run(schedule, machine, unfolded).time.step.value() ==
              Approx(folded.time.step.value()).epsilon(1e-9));
      });
  CHECK(slowed > 0);
}

TEST_CASE("the host bounds a step, and the closed form bounds both", "[property][engine]") {
  for_each_plan(40,
                [](std::uint64_t, const plan::Plan&, const Schedule& schedule, Machine machine) {
                  EventOptions alone;
                  alone.contention = false;
                  const auto tasks = static_cast<double>(schedule.tasks().size());
                  const Seconds device = run(schedule, machine, alone).time.step;
                  // Kernels that memory bounds hold the launch in their own seconds.
                  machine.costs.kernel_launch = Seconds(0.5 / tasks * device.value());
                  const auto closed_form = engine::read_time(schedule.program(), machine);
                  const Seconds both = run(schedule, machine, alone).time.step;
                  CHECK(both >= device);
                  CHECK(both.value() <= closed_form->step.value() * (1 + 1e-12));
                });
}

TEST_CASE("the critical path sums to the step, and halving all of it halves the step",
          "[property][engine]") {
  for_each_plan(
      25,
      [](std::uint64_t seed,
         const plan::Plan& plan,
         const Schedule& schedule,
         const Machine& machine) {
        EventOptions options;
        options.variation.stragglers = {{static_cast<std::int64_t>(seed) % plan.ranks(), 1.5, {}}};
        const auto path = engine::critical_path(schedule, machine, options, 1);
        REQUIRE(path.has_value());
        Seconds terms = path->launch;
        for (const ledger::CriticalTerm& term : path->terms) {
          terms += term.on_path;
        }
        CHECK(terms.value() == Approx(path->step.value()).epsilon(1e-9));
        CHECK((sum(path->collectives) +
               std::accumulate(path->kernels.begin(), path->kernels.end(), path->launch))
                  .value() == Approx(path->step.value()).epsilon(1e-9));
        // Without contention less work is never slower, and never saves more than it was on the
        // path and beside it.
        CHECK(path->step == run(schedule, machine, options).time.step);
        options.contention = false;
        const auto alone = engine::critical_path(schedule, machine, options, 1);
        CHECK(*alone->terms[0].step_at_half <= alone->step);
        CHECK(*alone->terms[0].step_without <= *alone->terms[0].step_at_half);
        EventOptions half = options;
        half.op_factors.assign(schedule.program().ops().size(), 0.5);
        CHECK(run(schedule, machine, half).time.step.value() ==
              Approx(0.5 * alone->step.value()).epsilon(1e-12));
      });
}

TEST_CASE("seeds and threads: a distribution is decided by its seeds", "[property][engine]") {
  for_each_plan(
      3, [](std::uint64_t, const plan::Plan&, const Schedule& schedule, const Machine& machine) {
        EventOptions options;
        options.variation.jitter = 0.1;
        options.variation.rank_jitter = 0.02;
        const std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6, 7, 8};
        std::vector<Seconds> by_one;
        {
          const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
          by_one = engine::monte_carlo(schedule, machine, options, seeds)->steps;
        }
        CHECK(engine::monte_carlo(schedule, machine, options, seeds)->steps == by_one);
        const std::vector<std::uint64_t> reversed(seeds.rbegin(), seeds.rend());
        std::vector<Seconds> found =
            engine::monte_carlo(schedule, machine, options, reversed)->steps;
        std::reverse(found.begin(), found.end());
        CHECK(found == by_one);
      });
}

TEST_CASE("which rank is slow does not matter where all ranks are alike", "[property][engine]") {
  for_each_plan(
      15,
      [](std::uint64_t, const plan::Plan& plan, const Schedule& schedule, const Machine& machine) {
        EventOptions options;
        if (engine::classes_of(schedule.programs(), machine, options).first_rank.size() > 1) {
          return;  // ranks of a ring differ in what they see of the sequence
        }
        options.unfolded = true;
        options.variation.stragglers = {{0, 1.5, {}}};
        const Seconds first = run(schedule, machine, options).time.step;
        options.variation.stragglers = {{plan.ranks() - 1, 1.5, {}}};
        CHECK(run(schedule, machine, options).time.step.value() ==
              Approx(first.value()).epsilon(1e-12));
      });
}

TEST_CASE("1,024 ranks of which each has its own speed run in full", "[property][engine]") {
  program::Builder builder = engine::small_program({{"inner", 8}, {"outer", 128}}, 1, 4);
  const program::AxisMask inner = program::axis_bit(0);
  const program::AxisMask outer = program::axis_bit(1);
  program::TensorSpec whole = engine::resident("whole", {{1, "B"}, {1024, "S"}});
  program::TensorSpec shard = whole;
  builder.repeat(program::Index::layer, 0, 1, 4, [&] {
    builder.begin_segment("layer");
    program::TensorSpec data = engine::resident("data", {{1000, "n"}});
    builder.emit(program::Function::zero, "kernel", {program::write(builder.declare(data))});
    shard.layout = program::Layout().with(inner, program::Placement::shard(1));
    engine::emit_collective(builder, CollectiveKind::all_gather, inner, shard, whole);
    shard.layout = program::Layout().with(outer, program::Placement::shard(1));
    engine::emit_collective(builder, CollectiveKind::all_gather, outer, shard, whole).blocking =
        false;
  });
  const program::Program program = std::move(builder).close();
  const Schedule schedule(program);
  Machine machine = engine::machine();
  cost::MultiNodeRingCosts& ring = machine.costs.multi_node.ring.emplace();
  ring.nic_efficiency = 1;
  ring.all_gather_step = Seconds(1e-9);
  ring.nvlink_rate = BytesPerSecond(1e10);
  EventOptions options;
  options.variation.rank_jitter = 0.1;
  options.variation.seed = Catch::getSeed();
  CAPTURE(Catch::getSeed());
  const EventResult result = run(schedule, machine, options);
  CHECK(result.classes == 1024);
  // 4 layers: 1,024 kernels, 128 gathers inside nodes and 8 over them.
  CHECK(result.events == 4 * (1024 + 128 + 8));
  CHECK(result.time.step > run(schedule, machine, {}).time.step);
}

}  // namespace
}  // namespace trireme
