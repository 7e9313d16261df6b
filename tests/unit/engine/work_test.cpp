#include "sim/engine/work.h"

#include "sim/engine/placement.h"
#include "tests/catch.h"
#include "tests/unit/engine/small_program.h"

namespace trireme::engine {
namespace {

using program::Builder;
using program::Function;
using program::Program;
using program::read;
using program::TensorId;
using program::update;
using program::write;

TEST_CASE("bytes that a kernel moves: updates count twice", "[engine]") {
  Builder builder = small_program({});
  const TensorId a = builder.declare(resident("a", {{10, "n"}}));  // 20 bytes
  const TensorId b = builder.declare(resident("b", {{7, "n"}}));   // 14 bytes
  builder.emit(Function::zero, "op", {read(a), write(b)});
  builder.emit(Function::zero, "op", {read(a), update(b)});
  const Program program = std::move(builder).close();
  CHECK(moved_bytes(program, program.op(0)) == Bytes(20 + 14));
  CHECK(moved_bytes(program, program.op(1)) == Bytes(20 + 2 * 14));
}

TEST_CASE("bytes that an embedding moves: rows of its tokens only", "[engine]") {
  Builder builder = small_program({});
  program::TensorSpec ids_spec = resident("ids", {{1, "B"}, {4, "S"}});
  ids_spec.type = ElementType::int64;
  const TensorId ids = builder.declare(ids_spec);  // 32 bytes
  const TensorId table = builder.declare(resident("table", {{1000, "V"}, {3, "h"}}));
  const TensorId x = builder.declare(resident("x", {{1, "B"}, {4, "S"}, {3, "h"}}));  // 24 bytes
  builder.emit(Function::embedding_forward, "embedding", {read(ids), read(table), update(x)});
  builder.emit(Function::embedding_backward, "backward", {read(ids), read(x), update(table)});
  const Program program = std::move(builder).close();
  CHECK(moved_bytes(program, program.op(0)) == Bytes(32 + 2 * 24));  // read a row, write it
  CHECK(moved_bytes(program, program.op(1)) == Bytes(32 + 3 * 24));  // read, add, write
}

TEST_CASE("where a group's ranks sit", "[engine]") {
  program::Mesh mesh;
  mesh.add_axis("tensor", 4);
  mesh.add_axis("data", 8);
  constexpr auto kTensor = program::axis_bit(0);
  constexpr auto kData = program::axis_bit(1);
  const auto on_node = [&](program::AxisMask group, std::int64_t gpus) {
    return place(mesh, group, gpus).ranks_per_node;
  };
  CHECK(place(mesh, kTensor | kData, 8).ranks == 32);
  CHECK(on_node(kTensor, 8) == 4);
  CHECK(on_node(kData, 8) == 2);  // ranks 0 and 4
  CHECK(on_node(kTensor | kData, 8) == 8);
  CHECK(on_node(kData, 4) == 1);
  CHECK(on_node(kTensor, 2) == 2);
  CHECK(on_node(kTensor | kData, 64) == 32);
  CHECK(on_node(0, 8) == 1);
}

}  // namespace
}  // namespace trireme::engine
