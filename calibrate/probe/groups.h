// Which groups of ranks a collective is measured over.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::calibrate {

/// A way to cut all ranks into groups of one shape, which run at once as those of a plan do.
struct GroupShape {
  std::int64_t ranks = 0;           // of one group
  std::int64_t ranks_per_node = 0;  // of one group: 1 for a rail

  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

/// The groups that plans use, on `ranks` ranks that fill nodes of `ranks_per_node` in order: inside
/// a node, over whole nodes, and one rank of each of several nodes (a rail). Sizes are the divisors
/// of the node and of the number of nodes, groups of one left out. A last node that is not full has
/// no groups over nodes: `ranks` is then one group and nothing else spans them.
[[nodiscard]] std::vector<GroupShape> group_shapes(std::int64_t ranks, std::int64_t ranks_per_node);

/// The group of `rank`, from 0: ranks with the same number belong together, in the order of ranks.
[[nodiscard]] std::int64_t group_of(std::int64_t rank,
                                    std::int64_t ranks_per_node,
                                    const GroupShape& shape);

}  // namespace trireme::calibrate
