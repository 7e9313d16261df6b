#include "sim/engine/network/topology.h"

#include <fmt/format.h>

namespace trireme::engine {

namespace {

LinkId id(std::int64_t number) {
  return static_cast<LinkId>(number);
}

}  // namespace

Topology::Topology(const TopologyShape& shape) : shape_(shape) {
  ensure(shape.nodes >= 1 && shape.gpus_per_node >= 1 && shape.nics_per_node >= 1 &&
             shape.nodes_per_leaf >= 1 && shape.oversubscription >= 1,
         "topology: a number below one");
  ensure(shape.gpus_per_node % shape.nics_per_node == 0,
         "topology: the NICs do not divide the GPUs of a node");
  if (shape.inside == NodeLinks::nvlink_mesh) {
    const std::int64_t peers = shape.gpus_per_node - 1;
    add_links(shape.gpus() * shape.gpus_per_node,
              peers > 0 ? BytesPerSecond(shape.link_per_gpu.value() / static_cast<double>(peers))
                        : shape.link_per_gpu);
  } else {
    add_links(2 * shape.gpus(), shape.link_per_gpu);
  }
  first_nic_ = id(static_cast<std::int64_t>(capacity_.size()));
  const std::int64_t nics = shape.nodes * shape.nics_per_node;
  add_links(2 * nics, shape.nic);
  first_leaf_ = id(static_cast<std::int64_t>(capacity_.size()));
  if (shape.fabric == Fabric::flat) {
    return;
  }
  const bool rails = shape.fabric == Fabric::rail_optimised;
  const std::int64_t nics_of_node = rails ? 1 : shape.nics_per_node;
  const auto below = static_cast<double>(nics_of_node * shape.nodes_per_leaf) * shape.nic.value();
  add_links(2 * shape.pods() * (rails ? shape.nics_per_node : 1),
            BytesPerSecond(below / shape.oversubscription));
}

void Topology::add_links(std::int64_t count, BytesPerSecond capacity) {
  capacity_.resize(capacity_.size() + static_cast<std::size_t>(count), capacity);
}

LinkKind Topology::kind(LinkId link) const {
  if (link >= first_leaf_) {
    return LinkKind::spine;
  }
  if (link >= first_nic_) {
    return LinkKind::nic;
  }
  return shape_.inside == NodeLinks::pcie ? LinkKind::pcie : LinkKind::nvlink;
}

std::int64_t Topology::first_gpu(LinkId link) const {
  if (link >= first_leaf_) {
    const std::int64_t leaf = (link - first_leaf_) / 2;
    const bool rails = shape_.fabric == Fabric::rail_optimised;
    const std::int64_t pod = rails ? leaf / shape_.nics_per_node : leaf;
    const std::int64_t nic = rails ? leaf % shape_.nics_per_node : 0;
    return pod * shape_.nodes_per_leaf * shape_.gpus_per_node + nic * shape_.gpus_per_nic();
  }
  if (link >= first_nic_) {
    return (link - first_nic_) / 2 * shape_.gpus_per_nic();
  }
  return shape_.inside == NodeLinks::nvlink_mesh ? link / shape_.gpus_per_node : link / 2;
}

std::string Topology::describe(LinkId link) const {
  const auto direction = [](std::int64_t number) { return number % 2 == 0 ? "out" : "in"; };
  if (link >= first_leaf_) {
    const std::int64_t number = link - first_leaf_;
    return fmt::format("spine of leaf switch {}, {}", number / 2, direction(number));
  }
  if (link >= first_nic_) {
    const std::int64_t number = link - first_nic_;
    const std::int64_t nic = number / 2;
    return fmt::format("NIC {} of node {}, {}",
                       nic % shape_.nics_per_node,
                       nic / shape_.nics_per_node,
                       direction(number));
  }
  const std::int64_t gpus = shape_.gpus_per_node;
  if (shape_.inside == NodeLinks::nvlink_mesh) {
    const std::int64_t from = link / gpus;
    return fmt::format("NVLink of node {}, GPU {} to {}", from / gpus, from % gpus, link % gpus);
  }
  const std::int64_t gpu = link / 2;
  return fmt::format("{} of GPU {} of node {}, {}",
                     shape_.inside == NodeLinks::pcie ? "PCIe" : "NVLink",
                     gpu % gpus,
                     gpu / gpus,
                     direction(link));
}

LinkId Topology::port_out(std::int64_t gpu) const {
  ensure(shape_.inside != NodeLinks::nvlink_mesh, "topology: a mesh has no port");
  return id(2 * gpu);
}

LinkId Topology::port_in(std::int64_t gpu) const {
  return port_out(gpu) + 1;
}

std::int64_t Topology::leaf_of(std::int64_t nic) const {
  const std::int64_t pod = nic / shape_.nics_per_node / shape_.nodes_per_leaf;
  return shape_.fabric == Fabric::rail_optimised
             ? pod * shape_.nics_per_node + nic % shape_.nics_per_node
             : pod;
}

void Topology::route_inside(std::int64_t from, std::int64_t to, Route& route) const {
  if (from == to) {
    return;
  }
  if (shape_.inside == NodeLinks::nvlink_mesh) {
    route.add(id(from * shape_.gpus_per_node + to % shape_.gpus_per_node));
    return;
  }
  route.add(port_out(from));
  route.add(port_in(to));
}

void Topology::route_outside(std::int64_t from, std::int64_t to, Route& route) const {
  const bool over_pcie = shape_.inside == NodeLinks::pcie;
  if (over_pcie) {
    route.add(port_out(from));
  }
  const std::int64_t out = nic_of(from);
  const std::int64_t in = nic_of(to);
  route.add(first_nic_ + id(2 * out));
  if (shape_.fabric != Fabric::flat && leaf_of(out) != leaf_of(in)) {
    route.add(first_leaf_ + id(2 * leaf_of(out)));
    route.add(first_leaf_ + id(2 * leaf_of(in) + 1));
  }
  route.add(first_nic_ + id(2 * in + 1));
  if (over_pcie) {
    route.add(port_in(to));
  }
}

Route Topology::route(std::int64_t from, std::int64_t to) const {
  Route route;
  if (same_node(from, to)) {
    route_inside(from, to, route);
    return route;
  }
  const std::int64_t gpus = shape_.gpus_per_node;
  const bool other_rail = nic_of(from) % shape_.nics_per_node != nic_of(to) % shape_.nics_per_node;
  if (shape_.relay_to_rail && other_rail && shape_.inside != NodeLinks::pcie) {
    const std::int64_t relay = from / gpus * gpus + to % gpus;
    route_inside(from, relay, route);
    route_outside(relay, to, route);
    return route;
  }
  route_outside(from, to, route);
  return route;
}

Seconds Topology::latency(std::int64_t from, std::int64_t to) const {
  if (from == to) {
    return Seconds(0);
  }
  return same_node(from, to) ? shape_.latency_inside : shape_.latency_outside;
}

FlowNetwork Topology::network() const {
  FlowNetwork network;
  for (const BytesPerSecond capacity : capacity_) {
    network.add_link(capacity);
  }
  return network;
}

}  // namespace trireme::engine
