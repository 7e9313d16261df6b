// What runs beside each other: collectives that share links, kernels and collectives on one GPU.
#include <algorithm>
#include <vector>

#include "sim/engine/event/event.h"
#include "sim/engine/event/link_loads.h"
#include "tests/catch.h"
#include "tests/unit/engine/timed_program.h"

namespace trireme::engine {
namespace {

using program::AxisMask;
using program::Program;

constexpr AxisMask kInner = program::axis_bit(0);
constexpr AxisMask kOuter = program::axis_bit(1);

/// Emits an asynchronous gather over `group`, of two ranks, that receives `bytes`.
void gather(program::Builder& builder, AxisMask group, std::int64_t bytes) {
  program::TensorSpec spec = resident("whole", {{1, "B"}, {2 * bytes, "S"}});
  spec.type = ElementType::fp8;
  const program::TensorId to = builder.declare(spec);
  spec.name = "shard";
  spec.layout = program::Layout().with(group, program::Placement::shard(1));
  const program::TensorId from = builder.declare(spec);
  const std::array in{program::read(from)};
  const std::array out{program::write(to)};
  builder.emit_collective(CollectiveKind::all_gather, "gather", group, in, out).blocking = false;
}

void kernel(program::Builder& builder, std::int64_t bytes) {
  program::TensorSpec spec = resident("data", {{bytes, "n"}});
  spec.type = ElementType::fp8;
  builder.emit(program::Function::zero, "kernel", {program::write(builder.declare(spec))});
}

/// Two gathers in flight at once, over the neighbours of a row and of a column of 2 x 2 ranks.
Program two_gathers(std::int64_t inner_bytes, std::int64_t outer_bytes) {
  program::Builder builder = small_program({{"inner", 2}, {"outer", 2}});
  gather(builder, kInner, inner_bytes);
  gather(builder, kOuter, outer_bytes);
  return std::move(builder).close();
}

/// As `machine()`; NICs as fast as its links inside a node.
Machine machine_of_nodes(std::int64_t gpus_per_node) {
  Machine result = machine();
  result.gpus_per_node = gpus_per_node;
  result.costs.streaming_multiprocessors = 100;
  cost::MultiNodeRingCosts& ring = result.costs.multi_node.ring.emplace();
  ring.nic_efficiency = 1;
  ring.all_gather_step = Seconds(0);
  ring.nvlink_rate = BytesPerSecond(1e300);
  return result;
}

/// The largest part of a link that operation 0 takes when it takes `alone`.
double fullest_link(const Program& program, const Machine& machine, double alone) {
  const Schedule schedule(program);
  const RankClasses classes = classes_of(std::span(&program, 1), machine, {});
  const Meetings meetings(schedule, classes);
  const std::vector<Seconds> seconds(program.ops().size(), Seconds(alone / kBytesPerSecond));
  const LinkLoads loads(schedule, machine, classes, meetings, seconds);
  double most = 0;
  loads.for_each_link(0, 0, [&](std::uint32_t, double use) { most = std::max(most, use); });
  CHECK(most == loads.fullest(0, 0));
  return most;
}

std::vector<double> ends(const Program& program,
                         const Machine& machine,
                         const EventOptions& options = {}) {
  const Schedule schedule(program);
  std::vector<double> ends(schedule.tasks().size());
  REQUIRE(simulate(schedule, machine, options, [&](const TaskRecord& record) {
    ends[record.task] = record.end.value() * kBytesPerSecond;
  }));
  return ends;
}

TEST_CASE("contention: two collectives on one port share it", "[engine]") {
  const Program program = two_gathers(50, 100);
  const std::vector<double> shared = ends(program, machine_of_nodes(8));
  // Half the port each until the first has its 50, at 100; the other has 50 left and the port.
  CHECK(shared[0] == Approx(100).epsilon(1e-12));
  CHECK(shared[1] == Approx(150).epsilon(1e-12));
  EventOptions alone;
  alone.contention = false;
  CHECK(ends(program, machine_of_nodes(8), alone)[1] == Approx(100).epsilon(1e-12));
}

TEST_CASE("contention: what shares no link takes its closed form, exactly", "[engine]") {
  const Program program = two_gathers(50, 100);
  // The inner group is a node: its gather uses the switches, the outer one the NIC.
  const Machine machine = machine_of_nodes(2);
  const std::vector<double> apart = ends(program, machine);
  CHECK(apart[0] == op_time(program, program.op(0), machine)->value() * kBytesPerSecond);
  CHECK(apart[1] == op_time(program, program.op(1), machine)->value() * kBytesPerSecond);
}

TEST_CASE("contention: a collective that waits for its latency leaves the link to others",
          "[engine]") {
  const Program program = two_gathers(50, 50);
  Machine machine = machine_of_nodes(8);
  machine.costs.collectives.all_gather->start = Seconds(50 / kBytesPerSecond);
  // 100 each alone, the port busy half the time: both fit.
  const std::vector<double> fit = ends(program, machine);
  CHECK(fit[0] == Approx(100).epsilon(1e-12));
  CHECK(fit[1] == Approx(100).epsilon(1e-12));
  CHECK(fullest_link(program, machine, 100) == Approx(0.5).epsilon(1e-12));
}

TEST_CASE("contention: a ring over nodes loads each NIC with its part", "[engine]") {
  program::Builder builder = small_program({{"ring", 8}});
  program::TensorSpec spec = resident("whole", {{1, "B"}, {800, "S"}});
  spec.type = ElementType::fp8;
  program::TensorSpec shard = spec;
  shard.layout = program::Layout().with(kInner, program::Placement::shard(1));
  emit_collective(builder, CollectiveKind::all_gather, kInner, shard, spec);
  const Program program = std::move(builder).close();
  const Machine machine = machine_of_nodes(4);
  // Each rank sends 700; one rank in four sends them off the node, over four NICs: 175 each.
  CHECK(fullest_link(program, machine, 350) == Approx(0.5).epsilon(1e-12));
}

TEST_CASE("contention: folded ranks share as all ranks do", "[engine]") {
  program::Builder builder = small_program({{"inner", 2}, {"outer", 2}});
  kernel(builder, 20);
  gather(builder, kInner, 50);
  kernel(builder, 40);
  gather(builder, kOuter, 100);
  gather(builder, kInner, 30);
  const Program program = std::move(builder).close();
  const Schedule schedule(program);
  for (const double factor : {1.0, 2.5}) {
    EventOptions folded;
    folded.variation.stragglers = {{3, factor, {}}};
    EventOptions unfolded = folded;
    unfolded.unfolded = true;
    const auto few = simulate(schedule, machine_of_nodes(8), folded);
    const auto all = simulate(schedule, machine_of_nodes(8), unfolded);
    REQUIRE(few.has_value());
    REQUIRE(all.has_value());
    CHECK(all->classes == 4);
    CHECK(few->classes == (factor == 1 ? 1 : 4));
    CHECK(few->time.step.value() == Approx(all->time.step.value()).epsilon(1e-12));
  }
}

/// A gather of 50 beside a kernel of 100 that memory bounds.
Program beside() {
  program::Builder builder = small_program({{"inner", 2}, {"outer", 2}});
  gather(builder, kInner, 50);
  kernel(builder, 100);
  return std::move(builder).close();
}

TEST_CASE("interference: a kernel loses memory bandwidth to a collective", "[engine]") {
  const Program program = beside();
  Machine machine = machine_of_nodes(8);
  machine.costs.interference = cost::InterferenceCosts{.channels = 0, .memory = 0.5};
  const std::vector<double> slowed = ends(program, machine);
  CHECK(slowed[0] == Approx(50).epsilon(1e-12));
  CHECK(slowed[1] == Approx(125).epsilon(1e-12));  // 25 done at 50, then 75 at full speed
  EventOptions off;
  off.interference = false;
  CHECK(ends(program, machine, off)[1] == Approx(100).epsilon(1e-12));
}

TEST_CASE("interference: a collective loses speed to a kernel, and holds it up longer",
          "[engine]") {
  const Program program = beside();
  Machine machine = machine_of_nodes(8);
  machine.costs.interference =
      cost::InterferenceCosts{.channels = 0, .memory = 0.5, .collective = 0.5};
  const std::vector<double> slowed = ends(program, machine);
  CHECK(slowed[0] == Approx(100).epsilon(1e-12));  // at half its speed beside the kernel
  CHECK(slowed[1] == Approx(150).epsilon(1e-12));  // 50 done at 100, then 50 at full speed
  const Schedule schedule(program);
  const auto result = simulate(schedule, machine);
  CHECK(result->interference);
  CHECK(result->time.compute_busy.value() * kBytesPerSecond == Approx(150).epsilon(1e-12));
  CHECK(result->time.exposed_communication == Seconds(0));
  CHECK_FALSE(simulate(schedule, machine_of_nodes(8))->interference);
}

}  // namespace
}  // namespace trireme::engine
