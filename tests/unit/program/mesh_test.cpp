#include "sim/program/mesh.h"

#include "tests/catch.h"

namespace trireme::program {
namespace {

/// 2 x 3 x 4 ranks: rank = i + 2 j + 6 k.
Mesh mesh() {
  Mesh ranks;
  ranks.add_axis("inner", 2);
  ranks.add_axis("middle", 3);
  ranks.add_axis("outer", 4);
  return ranks;
}

TEST_CASE("mesh: coordinates of a rank", "[program]") {
  const Mesh ranks = mesh();
  CHECK(ranks.ranks() == 24);
  CHECK(ranks.stride(0) == 1);
  CHECK(ranks.stride(1) == 2);
  CHECK(ranks.stride(2) == 6);
  // 17 = 1 + 2 * 2 + 6 * 2
  CHECK(ranks.coordinate(17, 0) == 1);
  CHECK(ranks.coordinate(17, 1) == 2);
  CHECK(ranks.coordinate(17, 2) == 2);
}

TEST_CASE("mesh: groups and positions in them", "[program]") {
  const Mesh ranks = mesh();
  const AxisMask inner_and_outer = axis_bit(0) | axis_bit(2);
  CHECK(ranks.group_size(0) == 1);
  CHECK(ranks.group_size(axis_bit(1)) == 3);
  CHECK(ranks.group_size(inner_and_outer) == 8);
  CHECK(ranks.group_size(ranks.all_axes()) == 24);
  CHECK(ranks.position(17, axis_bit(1)) == 2);
  CHECK(ranks.position(17, inner_and_outer) == 5);  // 1 + 2 * 2
  CHECK(ranks.position(17, ranks.all_axes()) == 17);
  CHECK(ranks.position(17, 0) == 0);
}

TEST_CASE("mesh: so many axes, none empty", "[program]") {
  Mesh ranks = mesh();
  for (int axis = 3; axis < kMaxMeshAxes; ++axis) {
    CHECK(ranks.add_axis("further", 1) == axis);
  }
  CHECK_THROWS_AS(ranks.add_axis("too many", 1), std::logic_error);
  Mesh empty;
  CHECK_THROWS_AS(empty.add_axis("none", 0), std::logic_error);
}

}  // namespace
}  // namespace trireme::program
