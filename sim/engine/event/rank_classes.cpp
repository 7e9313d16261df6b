#include "sim/engine/event/rank_classes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/engine/event/schedule.h"

namespace trireme::engine {

using program::AxisMask;
using program::Mesh;

namespace {

/// The groups of the program's collectives in which all ranks meet.
std::vector<AxisMask> groups_of(std::span<const program::Program> stages) {
  std::vector<AxisMask> groups;
  for (const program::Program& program : stages) {
    for (const program::Op& op : program.ops()) {
      if (op.function == program::Function::collective && !meets_neighbours(op) &&
          std::find(groups.begin(), groups.end(), op.group) == groups.end()) {
        groups.push_back(op.group);
      }
    }
  }
  return groups;
}

/// The groups around which blocks hop, and how far.
std::set<std::pair<AxisMask, std::int64_t>> rings_of(std::span<const program::Program> stages) {
  std::set<std::pair<AxisMask, std::int64_t>> rings;
  for (const program::Program& program : stages) {
    for (const program::Op& op : program.ops()) {
      if (meets_neighbours(op)) {
        rings.emplace(op.group, op.shift);
      }
    }
  }
  return rings;
}

/// Numbers keys in the order in which they come.
template <class Key>
class Numbering {
 public:
  std::uint32_t operator()(Key key) {
    return numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(numbers_.size()))
        .first->second;
  }

  [[nodiscard]] std::size_t size() const { return numbers_.size(); }

 private:
  std::map<Key, std::uint32_t> numbers_;
};

/// Gives every rank the number of its group's members' classes, taken as a sorted list.
std::vector<std::uint32_t> group_colours(const Mesh& mesh,
                                         AxisMask group,
                                         std::span<const std::uint32_t> colour) {
  const auto ranks = static_cast<std::size_t>(mesh.ranks());
  const auto outside = static_cast<AxisMask>(mesh.all_axes() & ~group);
  std::vector<std::vector<std::uint32_t>> members(
      static_cast<std::size_t>(mesh.group_size(outside)));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    members[static_cast<std::size_t>(mesh.position(static_cast<std::int64_t>(rank), outside))]
        .push_back(colour[rank]);
  }
  Numbering<std::vector<std::uint32_t>> numbering;
  std::vector<std::uint32_t> number(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::sort(members[i].begin(), members[i].end());
    number[i] = numbering(std::move(members[i]));
  }
  std::vector<std::uint32_t> result(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    result[rank] =
        number[static_cast<std::size_t>(mesh.position(static_cast<std::int64_t>(rank), outside))];
  }
  return result;
}

/// Gives every rank its class and those of the ranks at its place in all stages.
std::vector<std::uint32_t> stage_colours(const Mesh& mesh, std::span<const std::uint32_t> colour) {
  Numbering<std::vector<std::uint32_t>> numbering;
  std::vector<std::uint32_t> result(colour.size());
  for (std::size_t i = 0; i < colour.size(); ++i) {
    const auto rank = static_cast<std::int64_t>(i);
    std::vector<std::uint32_t> peers{static_cast<std::uint32_t>(mesh.stage_of(rank))};
    for (std::int64_t stage = 0; stage < mesh.stages(); ++stage) {
      peers.push_back(colour[static_cast<std::size_t>(mesh.in_stage(rank, stage))]);
    }
    result[i] = numbering(std::move(peers));
  }
  return result;
}

/// Gives every rank the classes of those to which it hops and from which: it waits for both alike.
std::vector<std::uint32_t> neighbour_colours(const Mesh& mesh,
                                             AxisMask group,
                                             std::int64_t shift,
                                             std::span<const std::uint32_t> colour) {
  Numbering<std::pair<std::uint32_t, std::uint32_t>> numbering;
  std::vector<std::uint32_t> result(colour.size());
  for (std::size_t i = 0; i < colour.size(); ++i) {
    const auto colour_of = [&](std::int64_t step) {
      const auto rank = static_cast<std::int64_t>(i);
      return colour[static_cast<std::size_t>(ring_neighbour(mesh, group, rank, step))];
    };
    result[i] = numbering(std::minmax({colour_of(-shift), colour_of(shift)}));
  }
  return result;
}

}  // namespace

std::int64_t ring_neighbour(const Mesh& mesh,
                            AxisMask group,
                            std::int64_t rank,
                            std::int64_t step) {
  const std::int64_t ranks = mesh.group_size(group);
  std::int64_t place = (mesh.position(rank, group) + step % ranks + ranks) % ranks;
  std::int64_t neighbour = rank;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if ((group & program::axis_bit(axis)) != 0) {
      neighbour += (place % mesh.size(axis) - mesh.coordinate(rank, axis)) * mesh.stride(axis);
      place /= mesh.size(axis);
    }
  }
  return neighbour;
}

RankClasses fold_ranks(std::span<const program::Program> stages,
                       std::span<const std::uint32_t> own) {
  const Mesh& mesh = stages.front().mesh();
  const std::vector<AxisMask> groups = groups_of(stages);
  const std::set<std::pair<AxisMask, std::int64_t>> rings = rings_of(stages);
  std::vector<std::uint32_t> colour(own.begin(), own.end());
  std::size_t classes = 0;
  for (;;) {
    std::vector<std::vector<std::uint32_t>> signature(colour.size());
    for (std::size_t rank = 0; rank < colour.size(); ++rank) {
      signature[rank].push_back(colour[rank]);
    }
    const auto add = [&](const std::vector<std::uint32_t>& colours) {
      for (std::size_t rank = 0; rank < colour.size(); ++rank) {
        signature[rank].push_back(colours[rank]);
      }
    };
    for (const AxisMask group : groups) {
      add(group_colours(mesh, group, colour));
    }
    for (const auto& [group, shift] : rings) {
      add(neighbour_colours(mesh, group, shift, colour));
    }
    if (mesh.stages() > 1) {
      add(stage_colours(mesh, colour));
    }
    Numbering<std::vector<std::uint32_t>> numbering;
    for (std::size_t rank = 0; rank < colour.size(); ++rank) {
      colour[rank] = numbering(std::move(signature[rank]));
    }
    if (numbering.size() == classes) {
      break;  // no class has split
    }
    classes = numbering.size();
  }
  RankClasses result;
  result.class_of_rank = std::move(colour);
  result.first_rank.assign(classes, -1);
  for (std::size_t rank = 0; rank < result.class_of_rank.size(); ++rank) {
    std::int64_t& first = result.first_rank[result.class_of_rank[rank]];
    if (first < 0) {
      first = static_cast<std::int64_t>(rank);
    }
  }
  return result;
}

}  // namespace trireme::engine
