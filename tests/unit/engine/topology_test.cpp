#include "sim/engine/network/topology.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

/// Four nodes of four GPUs in two pods of two nodes.
TopologyShape shape() {
  TopologyShape shape;
  shape.nodes = 4;
  shape.gpus_per_node = 4;
  shape.nics_per_node = 4;
  shape.link_per_gpu = BytesPerSecond(400);
  shape.nic = BytesPerSecond(50);
  shape.fabric = Fabric::rail_optimised;
  shape.nodes_per_leaf = 2;
  shape.latency_inside = Seconds(1);
  shape.latency_outside = Seconds(5);
  return shape;
}

std::vector<std::string> way(const Topology& topology, std::int64_t from, std::int64_t to) {
  std::vector<std::string> names;
  const Route route = topology.route(from, to);
  for (const LinkId link : route.links()) {
    names.push_back(topology.describe(link));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("topology: inside a node over the switches, to oneself over nothing", "[engine]") {
  const Topology topology(shape());
  CHECK(way(topology, 5, 6) ==
        Names{"NVLink of GPU 1 of node 1, out", "NVLink of GPU 2 of node 1, in"});
  CHECK(way(topology, 5, 5).empty());
  CHECK(topology.latency(5, 6) == Seconds(1));
  CHECK(topology.latency(5, 5) == Seconds(0));
  CHECK(topology.latency(0, 4) == Seconds(5));
}

TEST_CASE("topology: a rail is one switch, other rails and other pods are beyond the spine",
          "[engine]") {
  const Topology topology(shape());
  CHECK(way(topology, 1, 5) == Names{"NIC 1 of node 0, out", "NIC 1 of node 1, in"});
  // Another rail in the pod: leaf switches 1 and 2.
  CHECK(way(topology, 1, 6) == Names{"NIC 1 of node 0, out",
                                     "spine of leaf switch 1, out",
                                     "spine of leaf switch 2, in",
                                     "NIC 2 of node 1, in"});
  // The same rail in the other pod, whose leaf switches are 4 to 7.
  CHECK(way(topology, 1, 9) == Names{"NIC 1 of node 0, out",
                                     "spine of leaf switch 1, out",
                                     "spine of leaf switch 5, in",
                                     "NIC 1 of node 2, in"});
}

TEST_CASE("topology: a relay over NVLink stays on the rail", "[engine]") {
  TopologyShape relayed = shape();
  relayed.relay_to_rail = true;
  const Topology topology(relayed);
  CHECK(way(topology, 1, 6) == Names{"NVLink of GPU 1 of node 0, out",
                                     "NVLink of GPU 2 of node 0, in",
                                     "NIC 2 of node 0, out",
                                     "NIC 2 of node 1, in"});
  CHECK(way(topology, 1, 5) == Names{"NIC 1 of node 0, out", "NIC 1 of node 1, in"});
}

TEST_CASE("topology: the spine has what is below a leaf switch over the oversubscription",
          "[engine]") {
  TopologyShape narrow = shape();
  narrow.oversubscription = 2;
  const auto spine = [](const TopologyShape& of) {
    const Topology topology(of);
    const Route route = topology.route(0, 8);
    const LinkId link = route.links()[1];
    CHECK(topology.kind(link) == LinkKind::spine);
    return topology.capacity(link);
  };
  CHECK(spine(narrow) == BytesPerSecond(50));  // two nodes, one NIC of 50 each, half
  narrow.fabric = Fabric::leaf_spine;
  CHECK(spine(narrow) == BytesPerSecond(200));  // two nodes, four NICs each
  CHECK(way(Topology(narrow), 1, 6) == Names{"NIC 1 of node 0, out", "NIC 2 of node 1, in"});
  CHECK(way(Topology(narrow), 1, 10)[2] == "spine of leaf switch 1, in");
  narrow.fabric = Fabric::flat;
  CHECK(way(Topology(narrow), 1, 10) == Names{"NIC 1 of node 0, out", "NIC 2 of node 2, in"});
}

TEST_CASE("topology: NICs may be shared, links be PCIe or a mesh", "[engine]") {
  TopologyShape shared = shape();
  shared.nics_per_node = 2;
  CHECK(way(Topology(shared), 0, 5) == Names{"NIC 0 of node 0, out", "NIC 0 of node 1, in"});
  CHECK(way(Topology(shared), 3, 7) == Names{"NIC 1 of node 0, out", "NIC 1 of node 1, in"});

  TopologyShape pcie = shape();
  pcie.inside = NodeLinks::pcie;
  const Topology over_pcie(pcie);
  CHECK(way(over_pcie, 1, 5) == Names{"PCIe of GPU 1 of node 0, out",
                                      "NIC 1 of node 0, out",
                                      "NIC 1 of node 1, in",
                                      "PCIe of GPU 1 of node 1, in"});
  CHECK(over_pcie.kind(over_pcie.port_in(1)) == LinkKind::pcie);

  TopologyShape mesh = shape();
  mesh.inside = NodeLinks::nvlink_mesh;
  const Topology meshed(mesh);
  CHECK(way(meshed, 5, 6) == Names{"NVLink of node 1, GPU 1 to 2"});
  const Route route = meshed.route(5, 6);
  CHECK(meshed.capacity(route.links()[0]).value() == Approx(400.0 / 3).epsilon(1e-12));
  CHECK_THROWS_AS(meshed.port_out(0), std::logic_error);
}

TEST_CASE("topology: a shape that cannot be is refused", "[engine]") {
  TopologyShape uneven = shape();
  uneven.nics_per_node = 3;
  CHECK_THROWS_AS(Topology(uneven), std::logic_error);
  TopologyShape none = shape();
  none.nodes_per_leaf = 0;
  CHECK_THROWS_AS(Topology(none), std::logic_error);
}

}  // namespace
}  // namespace trireme::engine
