#include "sim/engine/event/meetings.h"

#include <algorithm>
#include <array>
#include <map>

namespace trireme::engine {

using program::AxisMask;
using program::Mesh;

Meetings::Meetings(const Schedule& schedule, const RankClasses& classes)
    : slots_(schedule.slots()) {
  const std::size_t streams = classes.first_rank.size() * slots_;
  meeting_of_.assign(streams, kNoMeeting);
  ring_partners_.assign(streams, 0);
  std::vector<std::vector<std::uint32_t>> lets_go_on(streams);
  for (StreamSlot slot = 0; slot < slots_; ++slot) {
    const AxisMask group = schedule.group_of(slot);
    if (group != 0) {
      meet(slot, group, classes, schedule.program().mesh());
      find_partners(slot, group, classes, schedule.program().mesh(), lets_go_on);
    }
  }
  first_neighbour_.push_back(0);
  for (const std::vector<std::uint32_t>& list : lets_go_on) {
    neighbours_.insert(neighbours_.end(), list.begin(), list.end());
    first_neighbour_.push_back(static_cast<std::uint32_t>(neighbours_.size()));
  }
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

void Meetings::find_partners(StreamSlot slot,
                             AxisMask group,
                             const RankClasses& classes,
                             const Mesh& mesh,
                             std::vector<std::vector<std::uint32_t>>& lets_go_on) {
  const auto class_of = [&](std::int64_t rank) {
    return classes.class_of_rank[static_cast<std::size_t>(rank)];
  };
  for (std::uint32_t who = 0; who < classes.first_rank.size(); ++who) {
    const std::int64_t rank = classes.first_rank[who];
    std::array<std::uint32_t, 3> partners = {who,
                                             class_of(ring_neighbour(mesh, group, rank, 1)),
                                             class_of(ring_neighbour(mesh, group, rank, -1))};
    std::sort(partners.begin(), partners.end());
    const auto end = std::unique(partners.begin(), partners.end());
    ring_partners_[who * slots_ + slot] = static_cast<std::uint8_t>(end - partners.begin());
    for (auto partner = partners.begin(); partner != end; ++partner) {
      lets_go_on[*partner * slots_ + slot].push_back(who);
    }
  }
}

}  // namespace trireme::engine
