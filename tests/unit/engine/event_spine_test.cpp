// Collectives that share what is above leaf switches, and those that do not reach it.
#include <algorithm>
#include <vector>

#include "sim/engine/event/event.h"
#include "sim/engine/network/near_loads.h"
#include "tests/catch.h"
#include "tests/unit/engine/timed_program.h"

namespace trireme::engine {
namespace {

using program::AxisMask;
using program::Program;

constexpr AxisMask kLocal = program::axis_bit(0);
constexpr AxisMask kNodes = program::axis_bit(1);

/// Two nodes of two GPUs, each with a NIC of 1 GB/s; every node has leaf switches of its own.
Machine two_nodes(Fabric fabric, double oversubscription) {
  Machine result = machine();
  result.gpus_per_node = 2;
  cost::MultiNodeRingCosts& ring = result.costs.multi_node.ring.emplace();
  ring.nic_efficiency = 1;
  ring.all_gather_step = Seconds(0);
  ring.nvlink_rate = BytesPerSecond(1e300);
  TopologyShape& shape = result.topology.emplace();
  shape.nodes = 2;
  shape.gpus_per_node = 2;
  shape.link_per_gpu = BytesPerSecond(1e300);
  shape.nics_per_node = 2;
  shape.nic = BytesPerSecond(kBytesPerSecond);
  shape.fabric = fabric;
  shape.nodes_per_leaf = 1;
  shape.oversubscription = oversubscription;
  shape.relay_to_rail = true;
  return result;
}

/// Emits an asynchronous gather to `bytes`.
void gather(program::Builder& builder, AxisMask group, std::int64_t bytes) {
  program::TensorSpec spec = resident("whole", {{1, "B"}, {bytes, "S"}});
  spec.type = ElementType::fp8;
  const program::TensorId to = builder.declare(spec);
  spec.name = "shard";
  spec.layout = program::Layout().with(group, program::Placement::shard(1));
  const program::TensorId from = builder.declare(spec);
  const std::array in{program::read(from)};
  const std::array out{program::write(to)};
  builder.emit_collective(CollectiveKind::all_gather, "gather", group, in, out).blocking = false;
}

/// Gathers of the pairs of GPUs at equal places of the nodes: a rank receives 60.
Program between_nodes() {
  program::Builder builder = small_program({{"local", 2}, {"nodes", 2}});
  gather(builder, kNodes, 120);
  return std::move(builder).close();
}

std::vector<double> ends(const Program& program, const Machine& machine, bool unfolded = false) {
  const Schedule schedule(program);
  std::vector<double> ends(schedule.tasks().size());
  EventOptions options;
  options.unfolded = unfolded;
  REQUIRE(simulate(schedule, machine, options, [&](const TaskRecord& record) {
    ends[record.task] = record.end.value() * kBytesPerSecond;
  }));
  return ends;
}

double alone(const Program& program, const Machine& machine, program::OpId op = 0) {
  return op_time(program, program.op(op), machine)->value() * kBytesPerSecond;
}

TEST_CASE("spine: two collectives on one that is oversubscribed have half of it each", "[engine]") {
  const Program program = between_nodes();
  for (const bool unfolded : {false, true}) {
    // Both NICs of a node at full rate are what the leaf switch has towards the spine.
    const Machine wide = two_nodes(Fabric::leaf_spine, 1);
    CHECK(alone(program, wide) == Approx(60).epsilon(1e-12));
    CHECK(ends(program, wide, unfolded)[0] == alone(program, wide));
    // At half of that each pair has the spine at the rate of its NIC alone, and half of it beside
    // the other.
    const Machine crowded = two_nodes(Fabric::leaf_spine, 2);
    CHECK(alone(program, crowded) == alone(program, wide));
    CHECK(ends(program, crowded, unfolded)[0] == Approx(120).epsilon(1e-12));
  }
}

TEST_CASE("spine: what stays on its rail does not reach it", "[engine]") {
  const Program program = between_nodes();
  Machine one_pod = two_nodes(Fabric::rail_optimised, 8);
  one_pod.topology->nodes_per_leaf = 2;
  CHECK(ends(program, one_pod)[0] == Approx(60).epsilon(1e-12));
}

TEST_CASE("spine: alone a collective takes its closed form, and two take each other's time",
          "[engine]") {
  // Rails of different pods are joined by spines of their own: the pairs do not meet.
  const Machine machine = two_nodes(Fabric::rail_optimised, 2);
  CHECK(alone(between_nodes(), machine) == Approx(120).epsilon(1e-12));
  CHECK(ends(between_nodes(), machine)[0] == alone(between_nodes(), machine));

  program::Builder builder = small_program({{"local", 2}, {"nodes", 2}});
  gather(builder, kNodes, 120);
  gather(builder, static_cast<AxisMask>(kLocal | kNodes), 160);
  const Program both = std::move(builder).close();
  // 80 must cross from node to node over two spines of 0.5 GB/s.
  CHECK(alone(both, machine, 1) == Approx(80).epsilon(1e-12));
  for (const bool unfolded : {false, true}) {
    const std::vector<double> shared = ends(both, machine, unfolded);
    CHECK(shared[1] == Approx(160).epsilon(1e-12));
    CHECK(shared[0] == Approx(200).epsilon(1e-12));
  }
}

TEST_CASE("spine: PXN moves an exchange from the spine to NVLink and the rail's NIC", "[engine]") {
  const Algorithm& direct = find_algorithm("all_to_all", "direct");
  const std::vector<std::int64_t> ranks = {0, 1, 2, 3};
  const auto load_by_kind = [&](bool relayed) {
    TopologyShape shape = *two_nodes(Fabric::rail_optimised, 2).topology;
    shape.nodes_per_leaf = 2;
    shape.relay_to_rail = relayed;
    const Topology topology(shape);
    const NearGpus near(topology, ranks);
    std::array<Bytes, 4> sums;
    for (const LinkLoad& load : near_loads(direct, Bytes(160), ranks, topology, near)) {
      sums[static_cast<std::size_t>(topology.kind(load.link))] += load.amount;
    }
    return sums;
  };
  const auto nvlink = static_cast<std::size_t>(LinkKind::nvlink);
  const auto nic = static_cast<std::size_t>(LinkKind::nic);
  const auto spine = static_cast<std::size_t>(LinkKind::spine);
  // Of 12 messages of 10, 8 pass between the nodes, 4 each way; 4 stay in theirs.
  const std::array<Bytes, 4> through_spine = load_by_kind(false);
  const std::array<Bytes, 4> relayed = load_by_kind(true);
  CHECK(through_spine[nic].value() == 160);  // both ends of each
  CHECK(relayed[nic].value() == 160);
  // Half of those change rails: through the spine, up and down again, or first over NVLink.
  CHECK(through_spine[spine].value() == 80);
  CHECK(relayed[spine].value() == 0);
  CHECK(through_spine[nvlink].value() == 80);
  CHECK(relayed[nvlink].value() == 160);
}

TEST_CASE("spine: ranks split into classes where their groups lie differently over pods",
          "[engine]") {
  program::Builder builder = small_program({{"pair", 2}, {"nodes", 3}});
  gather(builder, kLocal, 120);
  const Program program = std::move(builder).close();
  Machine machine = two_nodes(Fabric::leaf_spine, 2);
  machine.gpus_per_node = 1;
  machine.topology->gpus_per_node = 1;
  machine.topology->nics_per_node = 1;
  machine.topology->nodes = 6;
  machine.topology->nodes_per_leaf = 3;
  // Ranks 0 and 1, and 4 and 5, are in one pod; 2 and 3 are in two.
  CHECK(classes_of(std::span(&program, 1), machine, {}).first_rank ==
        std::vector<std::int64_t>{0, 2});
  machine.topology->nodes_per_leaf = 2;
  CHECK(classes_of(std::span(&program, 1), machine, {}).first_rank == std::vector<std::int64_t>{0});
}

}  // namespace
}  // namespace trireme::engine
