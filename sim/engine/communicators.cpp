#include "sim/engine/communicators.h"

#include <map>

#include "sim/engine/placement.h"

namespace trireme::engine {

std::vector<Communicator> communicators(const program::Program& program,
                                        std::int64_t gpus_per_node) {
  std::map<program::AxisMask, Communicator> by_group;
  for (const program::Op& op : program.ops()) {
    if (program::crosses_stages(op)) {
      const program::AxisMask stages = program::axis_bit(program.mesh().stage_axis());
      by_group[stages].group = stages;
      by_group[stages].neighbours = true;
      continue;
    }
    if (op.function != program::Function::collective || program.mesh().group_size(op.group) == 1) {
      continue;
    }
    Communicator& communicator = by_group[op.group];
    communicator.group = op.group;
    switch (op.collective) {
      case CollectiveKind::all_to_all:
        communicator.all_peers = true;
        break;
      case CollectiveKind::send_recv:
        communicator.neighbours = true;
        break;
      case CollectiveKind::all_gather:
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_reduce:
        communicator.rings = true;
        break;
    }
  }
  std::vector<Communicator> found;
  for (auto& [group, communicator] : by_group) {
    communicator.placed = place(program.mesh(), group, gpus_per_node);
    found.push_back(communicator);
  }
  return found;
}

}  // namespace trireme::engine
