// What a simulated step is taken apart into: idle time, launches, hops, the critical path, seeds.
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "sim/engine/event/critical_path.h"
#include "sim/engine/event/event.h"
#include "sim/engine/event/monte_carlo.h"
#include "tests/catch.h"
#include "tests/unit/engine/timed_program.h"

namespace trireme::engine {
namespace {

using program::Index;
using program::Program;
using program::read;

constexpr auto kGather = static_cast<std::size_t>(CollectiveKind::all_gather);
constexpr auto kAttention = static_cast<std::size_t>(Component::attention);

double units(Seconds seconds) {
  return seconds.value() * kBytesPerSecond;
}

EventResult simulated(const Program& program,
                      const Machine& machine,
                      const EventOptions& options = {}) {
  const Schedule schedule(program);
  const auto result = simulate(schedule, machine, options);
  REQUIRE(result.has_value());
  return *result;
}

TEST_CASE("event: idle time is booked under what the compute stream waits for", "[engine]") {
  Draft draft;
  const auto gathered = draft.gather();  // until 50
  gathered.op->blocking = false;
  draft.kernel(30);                                                         // until 30
  draft.builder.emit(program::Function::zero, "use", {read(gathered.to)});  // 50 to 150
  draft.gather();                                                           // 150 to 200
  const ledger::TimeLedger time = simulated(draft.close(), machine()).time;
  CHECK(units(time.step) == Approx(200).epsilon(1e-12));
  CHECK(units(time.compute_busy) == Approx(130).epsilon(1e-12));
  CHECK(units(time.exposed_by_collective[kGather]) == Approx(20 + 50).epsilon(1e-12));
  CHECK(time.exposed_communication == time.exposed_by_collective[kGather]);
  CHECK(time.exposed_launch == Seconds(0));
}

TEST_CASE("event: a collective at the end of the step is exposed", "[engine]") {
  Draft draft;
  draft.kernel(30);
  draft.gather().op->blocking = false;  // beside the kernel, until 50
  const EventResult result = simulated(draft.close(), machine());
  CHECK(units(result.time.exposed_by_collective[kGather]) == Approx(20).epsilon(1e-12));
  REQUIRE(result.busy_of_stream.size() == 2);
  CHECK(units(result.busy_of_stream[0]) == Approx(30).epsilon(1e-12));
  CHECK(units(result.busy_of_stream[1]) == Approx(50).epsilon(1e-12));
}

TEST_CASE("event: a stream runs at the slower of device and host, not at their sum", "[engine]") {
  Draft draft;
  draft.gather();
  draft.gather();
  draft.gather();
  const Program program = draft.close();
  Machine host = machine();
  host.costs.kernel_launch = Seconds(60 / kBytesPerSecond);
  const ledger::TimeLedger time = simulated(program, host).time;
  CHECK(units(time.step) == Approx(170).epsilon(1e-12));  // issued at 0, 60 and 120; 50 each
  CHECK(units(time.exposed_launch) == Approx(20).epsilon(1e-12));
  CHECK(units(time.exposed_communication) == Approx(150).epsilon(1e-12));
  // In closed form the host has to have issued all: 3 x 60.
  const auto analytic = read_time(program, host);
  CHECK(units(analytic->step) == Approx(180).epsilon(1e-12));
  CHECK(units(analytic->exposed_launch) == Approx(30).epsilon(1e-12));
  CHECK(units(analytic->exposed_communication) == Approx(150).epsilon(1e-12));
  host.costs.kernel_launch = Seconds(50 / kBytesPerSecond);
  CHECK(units(simulated(program, host).time.step) == Approx(150).epsilon(1e-12));
  CHECK(units(read_time(program, host)->step) == Approx(150).epsilon(1e-12));
}

/// Four ranks: a kernel of 10, then two hops of 10 around the ring.
Program two_hops() {
  program::Builder builder = small_program({{"ring", 4}});
  program::TensorSpec spec = resident("data", {{10, "n"}});
  spec.type = ElementType::fp8;
  builder.emit(program::Function::zero, "kernel", {program::write(builder.declare(spec))});
  program::TensorSpec block = resident("block", {{1, "B"}, {40, "S"}});
  block.type = ElementType::fp8;
  block.layout = program::Layout().with(kGroup, program::Placement::shard(1));
  const program::TensorId from = builder.declare(block);
  block.name = "received";
  const program::TensorId to = builder.declare(block);
  builder.emit_hop("hop", kGroup, from, to);
  builder.emit_hop("hop", kGroup, to, from);
  return std::move(builder).close();
}

Machine machine_with_hops() {
  Machine result = machine();
  cost::SendRecvCosts& hop = result.costs.collectives.send_recv.emplace();
  hop.channels = 1;
  hop.channel_rate = BytesPerSecond(kBytesPerSecond);
  hop.link_rate = BytesPerSecond(kBytesPerSecond);
  return result;
}

TEST_CASE("event: a hop waits for its neighbours only", "[engine]") {
  const Program program = two_hops();
  const Schedule schedule(program);
  EventOptions options;
  options.variation.stragglers = {{1, 4.0, {}}};
  std::map<std::pair<std::int64_t, TaskId>, TaskRecord> records;
  const auto result =
      simulate(schedule, machine_with_hops(), options, [&](const TaskRecord& record) {
        records[{record.rank, record.task}] = record;
      });
  REQUIRE(result.has_value());
  CHECK(result->classes == 3);  // the slow rank, its two neighbours, the one opposite
  CHECK(units(records.at({3, 1}).start) == Approx(10).epsilon(1e-12));
  CHECK(units(records.at({3, 1}).end) == Approx(20).epsilon(1e-12));
  CHECK(units(records.at({0, 1}).start) == Approx(40).epsilon(1e-12));  // waits for rank 1
  CHECK(units(records.at({3, 2}).start) == Approx(50).epsilon(1e-12));  // for rank 0 or 2
  CHECK(units(result->time.step) == Approx(60).epsilon(1e-12));
  options.unfolded = true;
  CHECK(simulate(schedule, machine_with_hops(), options)->time.step == result->time.step);
}

TEST_CASE("critical path: it runs through the slowest rank and sums to the step", "[engine]") {
  const Program program = two_hops();
  const Schedule schedule(program);
  EventOptions options;
  options.variation.stragglers = {{1, 4.0, {}}};
  const auto path = critical_path(schedule, machine_with_hops(), options, 2);
  REQUIRE(path.has_value());
  REQUIRE(path->terms.size() == 2);
  CHECK(path->terms[0].work == ledger::Work::memory_bound);
  CHECK(units(path->terms[0].on_path) == Approx(40).epsilon(1e-12));
  CHECK(path->terms[0].executions == 1);
  CHECK(path->terms[1].work == ledger::Work::send_recv);
  CHECK(path->terms[1].executions == 2);
  CHECK(units(path->terms[1].on_path) == Approx(20).epsilon(1e-12));
  CHECK(units(path->kernels[kAttention]) == Approx(40).epsilon(1e-12));
  CHECK(path->launch == Seconds(0));
  // Kernels of 5, the slow one 20, and hops of 10; no kernels; hops of 5; no hops.
  CHECK(units(*path->terms[0].step_at_half) == Approx(40).epsilon(1e-12));
  CHECK(units(*path->terms[0].step_without) == Approx(20).epsilon(1e-12));
  CHECK(units(*path->terms[1].step_at_half) == Approx(50).epsilon(1e-12));
  CHECK(units(*path->terms[1].step_without) == Approx(40).epsilon(1e-12));
}

TEST_CASE("critical path: a hidden collective is not on it, the host may be", "[engine]") {
  Draft draft;
  draft.gather().op->blocking = false;  // until 50
  draft.kernel(80);
  const Program hidden = draft.close();
  const auto path = critical_path(Schedule(hidden), machine());
  REQUIRE(path.has_value());
  REQUIRE(path->terms.size() == 1);
  CHECK(path->terms[0].work == ledger::Work::memory_bound);
  CHECK(path->collectives[kGather] == Seconds(0));
  CHECK_FALSE(path->terms[0].step_at_half.has_value());  // none was asked for

  draft = Draft();
  draft.gather();
  draft.gather();
  const Program gathers = draft.close();
  Machine host = machine();
  host.costs.kernel_launch = Seconds(60 / kBytesPerSecond);
  const auto launched = critical_path(Schedule(gathers), host);
  CHECK(units(launched->launch) == Approx(60).epsilon(1e-12));
  CHECK(units(launched->collectives[kGather]) == Approx(50).epsilon(1e-12));
}

TEST_CASE("sample quantiles lie between the values", "[engine]") {
  const std::array ascending = {Seconds(1), Seconds(2), Seconds(4)};
  CHECK(sample_quantile(ascending, 0) == Seconds(1));
  CHECK(sample_quantile(ascending, 0.25) == Seconds(1.5));
  CHECK(sample_quantile(ascending, 0.5) == Seconds(2));
  CHECK(sample_quantile(ascending, 0.75) == Seconds(3));
  CHECK(sample_quantile(ascending, 1) == Seconds(4));
}

TEST_CASE("monte carlo: each seed is its own step, whatever ran beside it", "[engine]") {
  Draft draft;
  draft.kernel(30);
  draft.gather();
  draft.kernel(20);
  const Program program = draft.close();
  const Schedule schedule(program);
  EventOptions options;
  options.variation.jitter = 0.1;
  std::array<std::uint64_t, 40> seeds{};
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    seeds[i] = 100 + i;
  }
  const auto found = monte_carlo(schedule, machine(), options, seeds);
  REQUIRE(found.has_value());
  REQUIRE(found->steps.size() == seeds.size());
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    options.variation.seed = seeds[i];
    CHECK(found->steps[i] == simulate(schedule, machine(), options)->time.step);
  }
  CHECK(found->quantile_05 < found->median);
  CHECK(found->median < found->quantile_95);
  CHECK(found->longest == *std::max_element(found->steps.begin(), found->steps.end()));
  CHECK_FALSE(monte_carlo(schedule, machine(), options, {}).has_value());
}

}  // namespace
}  // namespace trireme::engine
