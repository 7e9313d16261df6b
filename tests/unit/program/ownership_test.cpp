#include "sim/program/ownership.h"

#include <array>

#include "tests/catch.h"

namespace trireme::program {
namespace {

using Ranks = std::vector<std::int64_t>;

/// A mesh of 2 (inner) x 3 (outer) ranks: rank = inner + 2 outer.
Mesh two_by_three() {
  Mesh mesh;
  mesh.add_axis("inner", 2);
  mesh.add_axis("outer", 3);
  return mesh;
}

Tensor tensor_of(const Shape& shape, const Layout& layout) {
  Tensor tensor;
  tensor.shape = shape;
  tensor.layout = layout;
  return tensor;
}

TEST_CASE("a dimension sharded over two axes is split by the outer axis first", "[unit]") {
  const Mesh mesh = two_by_three();
  const Tensor tensor = tensor_of({{12, "S"}}, Layout().with(mesh.all_axes(), Placement::shard(0)));
  // Two elements for each of 6 ranks: rank 3 is inner 1, outer 1, so position 1 + 2 x 1 = 3.
  const OwnedRange range = owned_range(mesh, tensor, 0, 3);
  CHECK(range.first == 6);
  CHECK(range.count == 2);
  const std::array<std::int64_t, 1> seventh = {7};
  CHECK(owners_of(mesh, tensor, seventh) == Ranks{3});
}

TEST_CASE("ranks along a replicated axis own the same elements", "[unit]") {
  const Mesh mesh = two_by_three();
  const Tensor tensor =
      tensor_of({{6, "S"}, {4, "a"}}, Layout().with(axis_bit(1), Placement::shard(0)));
  const std::array<std::int64_t, 2> token_four = {4, 0};
  // The outer axis holds tokens 0-1, 2-3, 4-5: token 4 is on outer 2, which is ranks 4 and 5.
  CHECK(owners_of(mesh, tensor, token_four) == Ranks{4, 5});
}

TEST_CASE("padding is owned by nobody", "[unit]") {
  Mesh mesh;
  mesh.add_axis("group", 4);
  Tensor tensor = tensor_of({{5, "h"}}, Layout().with(axis_bit(0), Placement::shard(0)));
  tensor.pad_multiple = 1;
  // 5 padded to 8: two for each rank; rank 2 holds element 4 alone, rank 3 nothing.
  CHECK(owned_range(mesh, tensor, 0, 2).first == 4);
  CHECK(owned_range(mesh, tensor, 0, 2).count == 1);
  CHECK(owned_range(mesh, tensor, 0, 3).count == 0);
}

TEST_CASE("a shard within splits what the other axis left", "[unit]") {
  const Mesh mesh = two_by_three();
  Tensor tensor = tensor_of({{10, "out"}},
                            Layout()
                                .with(axis_bit(0), Placement::shard(0))
                                .with(axis_bit(1), Placement::shard_within(0)));
  tensor.pad_multiple = 1;
  // The inner axis leaves rows 0-4 and 5-9; each is padded to 6 and split by the outer axis in
  // three: rank 3 (inner 1, outer 1) has 7 and 8, rank 5 (inner 1, outer 2) has 9 alone.
  CHECK(local_extent(mesh, tensor, 0) == 2);
  CHECK(owned_range(mesh, tensor, 0, 3).first == 7);
  CHECK(owned_range(mesh, tensor, 0, 3).count == 2);
  CHECK(owned_range(mesh, tensor, 0, 5).first == 9);
  CHECK(owned_range(mesh, tensor, 0, 5).count == 1);
}

TEST_CASE("a flat shard has no range of a dimension", "[unit]") {
  Mesh mesh;
  mesh.add_axis("group", 2);
  const Tensor tensor =
      tensor_of({{4, "h"}}, Layout().with(axis_bit(0), Placement::shard(Placement::kFlat)));
  CHECK_THROWS_AS(owned_range(mesh, tensor, 0, 0), std::logic_error);
}

}  // namespace
}  // namespace trireme::program
