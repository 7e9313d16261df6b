#include "sim/program/tensor.h"

#include "tests/catch.h"

namespace trireme::program {
namespace {

constexpr int kSequenceAxis = 0;
constexpr int kDataAxis = 1;

/// 8 ranks along the sequence, 2 along the data.
Mesh mesh() {
  Mesh ranks;
  ranks.add_axis("sequence", 8);
  ranks.add_axis("data", 2);
  return ranks;
}

Tensor tensor(const Shape& shape, const Layout& layout, std::int16_t pad_multiple = 0) {
  Tensor result;
  result.shape = shape;
  result.layout = layout;
  result.pad_multiple = pad_multiple;
  const LocalShape local = local_shape(mesh(), result);
  result.local_extents = local.extents;
  result.local_elements = local.elements;
  return result;
}

Layout along(int axis, int dim) {
  return Layout().with(axis_bit(axis), Placement::shard(dim));
}

const Shape kQueries{{2, "B"}, {32, "S"}, {8, "g"}, {4, "a/g"}, {128, "d"}};

TEST_CASE("elements of one rank: shards that divide", "[program]") {
  const Shape hidden{{2, "B"}, {32, "S"}, {10, "h"}};
  CHECK(tensor(hidden, Layout()).local_elements == Elements(640));
  CHECK(tensor(hidden, along(kSequenceAxis, 1)).local_elements == Elements(80));  // 640 / 8
  CHECK(tensor(hidden, along(kSequenceAxis, 1).with(axis_bit(kDataAxis), Placement::shard(0)))
            .local_elements == Elements(40));
  // both axes along the sequence: 16 parts
  CHECK(tensor(hidden, along(kSequenceAxis, 1).with(axis_bit(kDataAxis), Placement::shard(1)))
            .local_elements == Elements(40));
  // partial values are as large as whole ones
  CHECK(tensor(hidden, Layout().with(axis_bit(kSequenceAxis), Placement::partial_sum()))
            .local_elements == Elements(640));
  CHECK_THROWS_AS(tensor(hidden, along(kSequenceAxis, 2)), std::logic_error);  // 10 / 8
}

TEST_CASE("elements of one rank: padding", "[program]") {
  const Shape weight{{10, "h"}, {3, "f"}};
  // flat: 30 elements padded to 32, 4 on each of 8 ranks
  CHECK(tensor(weight, along(kSequenceAxis, Placement::kFlat), 1).local_elements == Elements(4));
  // rows: 10 padded to 16, 2 rows of 3 elements
  CHECK(tensor(weight, along(kSequenceAxis, 0), 1).local_elements == Elements(6));
  // a vocabulary of 50,257 to multiples of 128 for each of 8 ranks: 51,200 = 50 x 1,024 rows
  const Shape table{{50257, "V"}, {4, "h"}};
  const Tensor padded = tensor(table, along(kSequenceAxis, 0), 128);
  CHECK(local_extent(mesh(), padded, 0) == 6400);
  CHECK(padded.local_elements == Elements(4 * 6400));
  // what is not sharded is not padded
  CHECK(tensor(table, Layout(), 128).local_elements == Elements(4 * 50257));
  // logits: the vocabulary is padded, the batch over two data ranks is not
  const Tensor logits =
      tensor({{2, "B"}, {5, "S"}, {1000, "V"}},
             along(kSequenceAxis, 2).with(axis_bit(kDataAxis), Placement::shard(0)),
             128);
  CHECK(local_extent(mesh(), logits, 0) == 1);
  CHECK(local_extent(mesh(), logits, 2) == 128);  // 1,024 / 8
  // one element on eight ranks: one each
  CHECK(tensor({{1, "1"}}, along(kSequenceAxis, Placement::kFlat), 1).local_elements ==
        Elements(1));
}

TEST_CASE("shapes in symbols and in numbers", "[program]") {
  const Mesh ranks = mesh();
  const Tensor by_token = tensor(kQueries, along(kSequenceAxis, 1));
  CHECK(shape_in_symbols(ranks, by_token) == "[B, S/8, a, d]");
  CHECK(shape_in_numbers(ranks, by_token) == "[2, 4, 32, 128]");
  const Tensor by_head = tensor(kQueries, along(kSequenceAxis, 2));
  CHECK(shape_in_symbols(ranks, by_head) == "[B, S, a/8, d]");
  CHECK(shape_in_numbers(ranks, by_head) == "[2, 32, 4, 128]");
  const Tensor flat = tensor({{10, "h"}, {3, "f"}}, along(kSequenceAxis, Placement::kFlat), 1);
  CHECK(shape_in_symbols(ranks, flat) == "[h, f]/8");
  CHECK(shape_in_numbers(ranks, flat) == "[4]");
  const Tensor keys = tensor({{2, "B"}, {32, "S"}, {8, "g"}, {128, "d"}}, Layout());
  CHECK(shape_in_symbols(ranks, keys) == "[B, S, g, d]");
  CHECK(shape_in_symbols(ranks, tensor({}, Layout())) == "]");
}

TEST_CASE("the name of a tensor's part", "[program]") {
  Tensor weight;
  weight.name = "qkv weight";
  CHECK(display_name(weight) == "qkv weight");
  weight.part = "gathered";
  CHECK(display_name(weight) == "qkv weight (gathered)");
}

TEST_CASE("bytes follow elements and type", "[program]") {
  Tensor x = tensor({{3, "n"}}, Layout());
  x.type = ElementType::bf16;
  CHECK(x.local_bytes() == Bytes(6));
  x.type = ElementType::fp32;
  CHECK(x.local_bytes() == Bytes(12));
}

TEST_CASE("what fills memory, by role", "[program]") {
  Tensor x;
  const auto item = [&](Role role, bool resident) {
    x.role = role;
    x.resident = resident;
    return memory_item(x);
  };
  CHECK(item(Role::parameter, true) == MemoryItem::parameters);
  CHECK(item(Role::parameter, false) == MemoryItem::gathered_parameters);
  CHECK(item(Role::gradient, true) == MemoryItem::gradients);
  CHECK(item(Role::gradient, false) == MemoryItem::gradient_buckets);
  CHECK(item(Role::optimizer_state, true) == MemoryItem::optimizer);
  CHECK(item(Role::communication_buffer, true) == MemoryItem::communication_buffers);
  CHECK(item(Role::workspace, false) == MemoryItem::workspaces);
  CHECK(item(Role::activation, false) == MemoryItem::temporaries);
  x.saved = true;
  CHECK(item(Role::activation, false) == MemoryItem::saved_activations);
  x.component = Component::loss;
  CHECK(item(Role::activation, false) == MemoryItem::logits_and_loss);
}

TEST_CASE("under which heading a tensor's bytes are sent", "[program]") {
  Tensor x;
  const auto heading = [&](Role role) {
    x.role = role;
    return traffic(x);
  };
  CHECK(heading(Role::parameter) == Traffic::parameters);
  CHECK(heading(Role::gradient) == Traffic::gradients);
  CHECK(heading(Role::optimizer_state) == Traffic::optimizer);
  CHECK(heading(Role::activation) == Traffic::activations);
  CHECK(heading(Role::temporary) == Traffic::activations);
}

TEST_CASE("placements and layouts", "[program]") {
  CHECK(Placement::replicate().replicated());
  CHECK(Placement::shard(0).sharded());
  CHECK(Placement::shard(Placement::kFlat).dim() == Placement::kFlat);
  CHECK_FALSE(Placement::shard(Placement::kFlat).partial());
  CHECK(Placement::partial_max().partial());
  CHECK_FALSE(Placement::partial_sum() == Placement::partial_max());
  const Layout layout = along(kSequenceAxis, 1).with(axis_bit(kDataAxis), Placement::partial_sum());
  CHECK(layout.sharded_axes() == axis_bit(kSequenceAxis));
  CHECK(layout.partial_axes() == axis_bit(kDataAxis));
}

}  // namespace
}  // namespace trireme::program
