// What collectives send over the links of a few nodes, which stand for the others.
#pragma once

#include <vector>

#include "sim/engine/network/expansion.h"
#include "sim/engine/network/topology.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// Whether messages between some GPUs go through the spine: from pod to pod, and from rail to rail
/// where none is relayed.
[[nodiscard]] inline bool spine_is_crossed(const TopologyShape& shape) {
  const bool relays = shape.relay_to_rail && shape.inside != NodeLinks::pcie;
  const bool rails = shape.fabric == Fabric::rail_optimised && shape.nics_per_node > 1;
  return shape.pods() > 1 || (rails && shape.nodes > 1 && !relays);
}

/// The GPUs whose links are of interest, by GPU: whole nodes, and where the spine is crossed whole
/// pods, so that what crosses their links begins or ends at one of them.
class NearGpus {
 public:
  /// The nodes, or pods, of `gpus`.
  NearGpus(const Topology& topology, std::span<const std::int64_t> gpus);

  [[nodiscard]] bool has(std::int64_t gpu) const { return near_[static_cast<std::size_t>(gpu)]; }

  /// Whether a link belongs to them.
  [[nodiscard]] bool has_link(LinkId link) const { return has(topology_.first_gpu(link)); }

  /// Ascending.
  [[nodiscard]] std::span<const std::int64_t> list() const { return list_; }

 private:
  const Topology& topology_;
  std::vector<bool> near_;
  std::vector<std::int64_t> list_;
};

/// As link_loads, over the links of those GPUs alone; an exchange of every pair with every other
/// costs no more than its pairs near them.
[[nodiscard]] std::vector<LinkLoad> near_loads(const Algorithm& algorithm,
                                               Bytes payload,
                                               PlacedRanks ranks,
                                               const Topology& topology,
                                               const NearGpus& near);

}  // namespace trireme::engine
