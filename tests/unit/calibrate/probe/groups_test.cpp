#include "calibrate/probe/groups.h"

#include <map>
#include <set>

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

TEST_CASE("groups lie inside a node, over nodes and on rails", "[calibrate]") {
  using Shapes = std::vector<GroupShape>;
  CHECK(group_shapes(1, 1).empty());
  CHECK(group_shapes(8, 8) == Shapes{{2, 2}, {4, 4}, {8, 8}});
  CHECK(group_shapes(16, 8) == Shapes{{2, 2}, {4, 4}, {8, 8}, {16, 8}, {2, 1}});
  CHECK(group_shapes(4, 1) == Shapes{{2, 1}, {4, 1}});  // one GPU a node: every group is a rail
  CHECK(group_shapes(6, 4) == Shapes{{6, 4}});          // the last node is not full
}

TEST_CASE("ranks of a group are neighbours, or one of each node", "[calibrate]") {
  CHECK(group_of(5, 8, {.ranks = 4, .ranks_per_node = 4}) == 1);
  CHECK(group_of(9, 8, {.ranks = 16, .ranks_per_node = 8}) == 0);
  // Rank 9 is the second of the second node, rank 1 that of the first.
  CHECK(group_of(9, 8, {.ranks = 2, .ranks_per_node = 1}) ==
        group_of(1, 8, {.ranks = 2, .ranks_per_node = 1}));
  CHECK(group_of(9, 8, {.ranks = 2, .ranks_per_node = 1}) !=
        group_of(8, 8, {.ranks = 2, .ranks_per_node = 1}));
}

TEST_CASE("every rank is in one group of each shape", "[calibrate]") {
  const auto [ranks, ranks_per_node] = GENERATE(table<std::int64_t, std::int64_t>(
      {{2, 2}, {8, 8}, {16, 8}, {24, 4}, {32, 8}, {6, 1}, {6, 4}}));
  CAPTURE(ranks, ranks_per_node);
  for (const GroupShape& shape : group_shapes(ranks, ranks_per_node)) {
    CAPTURE(shape.ranks, shape.ranks_per_node);
    std::map<std::int64_t, std::map<std::int64_t, int>> on_node_of_group;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      ++on_node_of_group[group_of(rank, ranks_per_node, shape)][rank / ranks_per_node];
    }
    CHECK(static_cast<std::int64_t>(on_node_of_group.size()) == ranks / shape.ranks);
    for (const auto& [group, on_node] : on_node_of_group) {
      std::int64_t members = 0;
      for (const auto& [node, count] : on_node) {
        members += count;
        CHECK(count <= shape.ranks_per_node);
      }
      CHECK(members == shape.ranks);
    }
  }
}

}  // namespace
}  // namespace trireme::calibrate
