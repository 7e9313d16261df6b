// A cluster as a graph of links, and the routes between its GPUs.
//
// Every link is one direction: of a GPU towards the switches of its node and back, of a NIC
// towards its leaf switch and back, of a leaf switch towards the spine and back.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/network/flow_network.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// How the GPUs of a node reach each other.
enum class NodeLinks : std::uint8_t {
  nvswitch,     // each GPU by one port of NVLinks, to all others at once
  nvlink_mesh,  // each pair of GPUs by NVLinks of its own, equally many for each pair
  pcie          // each GPU by PCIe, as the NICs
};

/// How the NICs of different nodes reach each other.
enum class Fabric : std::uint8_t {
  flat,           // through switches that nothing fills
  leaf_spine,     // all NICs of a node on one leaf switch
  rail_optimised  // NIC i of every node on leaf switch i of its pod: a rail
};

/// The numbers that a topology is built from. Rates are line rates, one direction.
struct TopologyShape {
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
  NodeLinks inside = NodeLinks::nvswitch;
  BytesPerSecond link_per_gpu{1};  // NVLink, or PCIe where that is all there is
  std::int64_t nics_per_node = 1;  // divides gpus_per_node: neighbours share a NIC
  BytesPerSecond nic{1};           // of one NIC
  Fabric fabric = Fabric::flat;
  std::int64_t nodes_per_leaf = 1;  // nodes of a pod, where there are leaf switches
  double oversubscription = 1;  // what enters a leaf switch from below over what leaves it above
  /// Messages to a NIC on another rail go over NVLink to the GPU beside the own node's NIC on that
  /// rail, and leave from there (NCCL's PXN), instead of through the spine.
  bool relay_to_rail = false;
  Seconds latency_inside;   // of a message between GPUs of a node
  Seconds latency_outside;  // of a message between nodes

  [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }

  [[nodiscard]] std::int64_t gpus_per_nic() const { return gpus_per_node / nics_per_node; }

  /// Groups of nodes that the spine joins; 1 where nothing crosses it.
  [[nodiscard]] std::int64_t pods() const {
    return fabric == Fabric::flat ? 1 : ceil_div(nodes, nodes_per_leaf);
  }
};

enum class LinkKind : std::uint8_t { nvlink, pcie, nic, spine };

/// The links that a message crosses, in order.
class Route {
 public:
  void add(LinkId link) { links_.at(count_++) = link; }

  /// Of a variable only: in a loop over a temporary's, the links would be gone.
  [[nodiscard]] std::span<const LinkId> links() const& { return std::span(links_).first(count_); }

  void links() const&& = delete;

 private:
  static constexpr std::size_t kMostLinks = 8;  // relayed over PCIe and through the spine

  std::array<LinkId, kMostLinks> links_{};
  std::size_t count_ = 0;
};

/// Ranks fill nodes in order: rank r is GPU r mod gpus_per_node of node r / gpus_per_node.
///
/// EQ spine-capacity: C = k nic m / o
///   m    nodes_per_leaf                                                           [1]
///   k    NICs of a node on one leaf switch: nics_per_node, on a rail 1            [1]
///   nic  shape.nic                                                                [bytes/second]
///   o    oversubscription                                                         [1]
///   C    what a leaf switch has towards the spine, and from it                    [bytes/second]
/// Source: derived: the bandwidth below a leaf switch over that above it is o
/// Valid:  flows spread evenly over the links of one leaf switch to the spine; no PCIe between GPU
///   and NIC but in nodes that have only PCIe
/// Tests:  tests/unit/engine/topology_test.cpp
class Topology {
 public:
  /// Throws std::logic_error for a shape with NICs that do not divide a node's GPUs, or with
  /// numbers below one.
  explicit Topology(const TopologyShape& shape);

  [[nodiscard]] const TopologyShape& shape() const { return shape_; }

  [[nodiscard]] std::size_t links() const { return capacity_.size(); }

  [[nodiscard]] BytesPerSecond capacity(LinkId link) const { return capacity_[link]; }

  [[nodiscard]] LinkKind kind(LinkId link) const;

  /// "NVLink of GPU 3 of node 0, out"; for a person.
  [[nodiscard]] std::string describe(LinkId link) const;

  /// The first of the GPUs that a link belongs to; of one between two GPUs that which sends.
  [[nodiscard]] std::int64_t first_gpu(LinkId link) const;

  /// From one GPU to another; empty to itself.
  [[nodiscard]] Route route(std::int64_t from, std::int64_t to) const;

  /// Paid once by a message, whatever its length.
  [[nodiscard]] Seconds latency(std::int64_t from, std::int64_t to) const;

  [[nodiscard]] bool same_node(std::int64_t a, std::int64_t b) const {
    return a / shape_.gpus_per_node == b / shape_.gpus_per_node;
  }

  /// The one link of a GPU towards the switches of its node, and from them. Throws
  /// std::logic_error in a mesh, where there is none.
  [[nodiscard]] LinkId port_out(std::int64_t gpu) const;
  [[nodiscard]] LinkId port_in(std::int64_t gpu) const;

  /// A network with the same links, under the same ids.
  [[nodiscard]] FlowNetwork network() const;

 private:
  void add_links(std::int64_t count, BytesPerSecond capacity);
  void route_inside(std::int64_t from, std::int64_t to, Route& route) const;
  void route_outside(std::int64_t from, std::int64_t to, Route& route) const;

  [[nodiscard]] std::int64_t nic_of(std::int64_t gpu) const { return gpu / shape_.gpus_per_nic(); }

  [[nodiscard]] std::int64_t leaf_of(std::int64_t nic) const;

  TopologyShape shape_;
  std::vector<BytesPerSecond> capacity_;
  // First of each kind; then two for each GPU, NIC, leaf switch (out, in), or one for each ordered
  // pair of GPUs of a node.
  LinkId first_nic_ = 0;
  LinkId first_leaf_ = 0;
};

}  // namespace trireme::engine
