#include "sim/engine/network/least_seconds.h"

#include <array>
#include <cstdint>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

constexpr double kExact = 1e-12;

/// Eight nodes of four GPUs at 400 bytes/s, a NIC of 50 bytes/s each, pods of two nodes.
TopologyShape shape() {
  TopologyShape shape;
  shape.nodes = 8;
  shape.gpus_per_node = 4;
  shape.nics_per_node = 4;
  shape.link_per_gpu = BytesPerSecond(400);
  shape.nic = BytesPerSecond(50);
  shape.fabric = Fabric::rail_optimised;
  shape.nodes_per_leaf = 2;
  return shape;
}

SharedLinks whole_node() {
  return {.ranks = 4, .per_nic = 1, .per_node = 4, .per_pod = 4};
}

SharedLinks all() {
  return {.ranks = 32, .per_nic = 1, .per_node = 4, .per_pod = 8};
}

double least(CollectiveKind kind, const SharedLinks& shared, const TopologyShape& of) {
  return least_seconds(kind, Bytes(64'000), shared, of).seconds.value();
}

TEST_CASE("least seconds in a node: by a GPU's NVLink", "[engine]") {
  // 64,000 over 4 ranks: 48,000 must come in, or go out, of an all-to-all 12,000.
  CHECK(least(CollectiveKind::all_gather, whole_node(), shape()) == Approx(120).epsilon(kExact));
  CHECK(least(CollectiveKind::reduce_scatter, whole_node(), shape()) ==
        Approx(120).epsilon(kExact));
  CHECK(least(CollectiveKind::all_reduce, whole_node(), shape()) == Approx(160).epsilon(kExact));
  CHECK(least(CollectiveKind::all_to_all, whole_node(), shape()) == Approx(30).epsilon(kExact));
  CHECK(least(CollectiveKind::send_recv, whole_node(), shape()) == Approx(160).epsilon(kExact));
  CHECK(least_seconds(CollectiveKind::all_gather, Bytes(64'000), whole_node(), shape()).where ==
        "a GPU's NVLink");
  CHECK(least(CollectiveKind::all_gather, SharedLinks{}, shape()) == 0);
}

TEST_CASE("least seconds over nodes: by the NICs, or by an oversubscribed spine", "[engine]") {
  // A node of 4 of 32 ranks: 28/32 of 64,000 = 56,000 over 4 x 50.
  CHECK(least(CollectiveKind::all_gather, all(), shape()) == Approx(280).epsilon(kExact));
  // 4 x 28 of 32 x 32: 7,000 over 200 from a node; 8 x 24: 12,000 over 400 from a pod.
  CHECK(least(CollectiveKind::all_to_all, all(), shape()) == Approx(35).epsilon(kExact));
  TopologyShape narrow = shape();
  narrow.oversubscription = 4;
  // From a pod of 8 ranks: 48,000 over 4 rails x 2 nodes x 50 / 4.
  CHECK(least(CollectiveKind::all_gather, all(), narrow) == Approx(480).epsilon(kExact));
  CHECK(least(CollectiveKind::all_to_all, all(), narrow) == Approx(120).epsilon(kExact));
  CHECK(least_seconds(CollectiveKind::all_to_all, Bytes(1000), all(), narrow).where ==
        "the spine above a leaf switch");
  narrow.fabric = Fabric::flat;
  CHECK(least(CollectiveKind::all_to_all, all(), narrow) == Approx(35).epsilon(kExact));
}

TEST_CASE("least seconds over PCIe, in meshes and with shared NICs", "[engine]") {
  TopologyShape pcie = shape();
  pcie.inside = NodeLinks::pcie;
  pcie.link_per_gpu = BytesPerSecond(40);
  // 31/32 of 64,000 through a GPU's PCIe: 62,000 over 40.
  CHECK(least(CollectiveKind::all_gather, all(), pcie) == Approx(1550).epsilon(kExact));
  TopologyShape mesh = shape();
  mesh.inside = NodeLinks::nvlink_mesh;
  // Two of four GPUs see a third of a GPU's NVLinks: 32,000 over 400 / 3.
  const SharedLinks pair{.ranks = 2, .per_nic = 1, .per_node = 2, .per_pod = 2};
  CHECK(least(CollectiveKind::all_gather, pair, mesh) == Approx(240).epsilon(kExact));
  TopologyShape shared = shape();
  shared.nics_per_node = 2;
  const SharedLinks on_shared{.ranks = 32, .per_nic = 2, .per_node = 4, .per_pod = 8};
  CHECK(least(CollectiveKind::all_gather, on_shared, shared) == Approx(560).epsilon(kExact));
}

TEST_CASE("what ranks of a group share, whatever axes are in between", "[engine]") {
  program::Mesh mesh;
  const int inner = mesh.add_axis("inner", 2);
  const int middle = mesh.add_axis("middle", 3);
  const int outer = mesh.add_axis("outer", 4);
  TopologyShape of = shape();  // 4 GPUs a node, 8 a pod
  const auto shares = [&](program::AxisMask group) {
    const SharedLinks shared = shared_links(mesh, group, of);
    return std::array{shared.ranks, shared.per_nic, shared.per_node, shared.per_pod};
  };
  using Shares = std::array<std::int64_t, 4>;
  CHECK(shares(program::axis_bit(inner)) == Shares{2, 1, 2, 2});
  // Ranks 0, 2, 4.
  CHECK(shares(program::axis_bit(middle)) == Shares{3, 1, 2, 3});
  // Ranks 0, 6, 12, 18.
  CHECK(shares(program::axis_bit(outer)) == Shares{4, 1, 1, 2});
  // Ranks 0, 1, 6, 7, 12, 13, ...
  CHECK(shares(static_cast<program::AxisMask>(program::axis_bit(inner) |
                                              program::axis_bit(outer))) == Shares{8, 1, 2, 4});
  of.nics_per_node = 2;
  CHECK(shares(mesh.all_axes()) == Shares{24, 2, 4, 8});
}

}  // namespace
}  // namespace trireme::engine
