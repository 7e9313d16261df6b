#include "sim/engine/event/meetings.h"

#include <algorithm>
#include <array>
#include <map>

namespace trireme::engine {

using program::AxisMask;
using program::Mesh;

Meetings::Meetings(const Schedule& schedule, const RankClasses& classes)
    : slots_(schedule.slots()), stages_(schedule.programs().size()) {
  const Mesh& mesh = schedule.program().mesh();
  for (const std::int64_t rank : classes.first_rank) {
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      const std::int64_t peer = mesh.in_stage(rank, static_cast<std::int64_t>(stage));
      peers_.push_back(classes.class_of_rank[static_cast<std::size_t>(peer)]);
    }
  }
  meeting_of_.assign(classes.first_rank.size() * slots_, kNoMeeting);
  for (StreamSlot slot = 0; slot < slots_; ++slot) {
    const AxisMask group = schedule.group_of(slot);
    if (group != 0) {
      meet(slot, group, classes, mesh);
    }
  }
  find_rings(schedule);
  find_partners(schedule, classes);
}

std::uint32_t Meetings::ring_of(StreamSlot slot, const program::Op& hop) const {
  const auto ring = std::find(rings_.begin(), rings_.end(), Ring{slot, hop.shift});
  ensure(ring != rings_.end(), "meetings: a hop around no ring");
  return static_cast<std::uint32_t>(ring - rings_.begin());
}

void Meetings::meet(StreamSlot slot, AxisMask group, const RankClasses& classes, const Mesh& mesh) {
  const auto outside = static_cast<AxisMask>(mesh.all_axes() & ~group);
  std::vector<std::vector<std::uint32_t>> groups(
      static_cast<std::size_t>(mesh.group_size(outside)));
  for (std::size_t rank = 0; rank < classes.class_of_rank.size(); ++rank) {
    groups[static_cast<std::size_t>(mesh.position(static_cast<std::int64_t>(rank), outside))]
        .push_back(classes.class_of_rank[rank]);
  }
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  for (std::vector<std::uint32_t>& members : groups) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    const auto [entry, is_new] = known.try_emplace(members, size());
    if (is_new) {
      members_.insert(members_.end(), members.begin(), members.end());
      first_member_.push_back(static_cast<std::uint32_t>(members_.size()));
      for (const std::uint32_t who : members) {
        meeting_of_[who * slots_ + slot] = entry->second;
      }
    }
  }
}

void Meetings::find_rings(const Schedule& schedule) {
  for (const Task& task : schedule.tasks()) {
    const program::Op& op = schedule.op_of(task);
    const Ring ring{task.slot, op.shift};
    if (meets_neighbours(op) && std::find(rings_.begin(), rings_.end(), ring) == rings_.end()) {
      rings_.push_back(ring);
    }
  }
}

void Meetings::find_partners(const Schedule& schedule, const RankClasses& classes) {
  const Mesh& mesh = schedule.program().mesh();
  std::vector<std::vector<std::uint32_t>> lets_go_on(classes.first_rank.size() * rings_.size());
  ring_partners_.assign(lets_go_on.size(), 0);
  for (std::uint32_t who = 0; who < classes.first_rank.size(); ++who) {
    for (std::size_t ring = 0; ring < rings_.size(); ++ring) {
      const auto class_at = [&](std::int64_t step) {
        const std::int64_t rank = ring_neighbour(
            mesh, schedule.group_of(rings_[ring].slot), classes.first_rank[who], step);
        return classes.class_of_rank[static_cast<std::size_t>(rank)];
      };
      std::array<std::uint32_t, 3> partners = {
          who, class_at(rings_[ring].shift), class_at(-rings_[ring].shift)};
      std::sort(partners.begin(), partners.end());
      const auto end = std::unique(partners.begin(), partners.end());
      ring_partners_[who * rings_.size() + ring] =
          static_cast<std::uint8_t>(end - partners.begin());
      for (auto partner = partners.begin(); partner != end; ++partner) {
        lets_go_on[*partner * rings_.size() + ring].push_back(who);
      }
    }
  }
  first_neighbour_.push_back(0);
  for (const std::vector<std::uint32_t>& list : lets_go_on) {
    neighbours_.insert(neighbours_.end(), list.begin(), list.end());
    first_neighbour_.push_back(static_cast<std::uint32_t>(neighbours_.size()));
  }
}

}  // namespace trireme::engine
