// The axis of a pipeline's stages, the order in which ranks are numbered, and messages between
// stages.
#include <array>
#include <cstdint>
#include <string>

#include "sim/engine/placement.h"
#include "sim/engine/sizes.h"
#include "sim/program/builder.h"
#include "tests/catch.h"

namespace trireme::program {
namespace {

Mesh mesh_of_stages() {
  Mesh mesh;
  mesh.add_axis("group", 2);
  mesh.add_axis("data", 3);
  mesh.set_stage_axis(mesh.add_axis("pipeline", 4));
  return mesh;
}

TensorSpec value() {
  TensorSpec spec;
  spec.name = "x";
  spec.shape = {{1, "B"}, {8, "S"}, {4, "h"}};
  spec.layout = Layout().with(axis_bit(0), Placement::shard(1));
  return spec;
}

/// A program of stage 1 that passes on what it receives.
Program passes_on() {
  Builder builder(mesh_of_stages(), {1, 1, 1});
  builder.set_stage(1, {2});
  builder.begin_segment("run");
  const TensorId x = builder.declare(value());
  builder.emit_stage_receive("receive", 0, x, true);
  builder.emit_stage_send("send", 2, x, true);
  return std::move(builder).close();
}

}  // namespace

TEST_CASE("mesh: the last axis is outermost, or where it is placed", "[program]") {
  Mesh mesh = mesh_of_stages();
  CHECK(mesh.stride(0) == 1);
  CHECK(mesh.stride(1) == 2);
  CHECK(mesh.stride(2) == 6);
  CHECK(mesh.stage_of(13) == 2);
  CHECK(mesh.in_stage(13, 0) == 1);
  mesh.place(std::array{2, 0, 1});  // stages are neighbours
  CHECK(mesh.stride(2) == 1);
  CHECK(mesh.stride(0) == 4);
  CHECK(mesh.stride(1) == 8);
  CHECK(mesh.stage_of(13) == 1);
  CHECK(mesh.in_stage(13, 3) == 15);
  CHECK(mesh.coordinate(13, 0) == 1);
  CHECK(mesh.coordinate(13, 1) == 1);
  CHECK_THROWS_AS(mesh.place(std::array{0, 1}), std::logic_error);
  CHECK_THROWS_AS(mesh.place(std::array{0, 1, 1}), std::logic_error);
}

// Nodes of 8: of the group of 2 both share a node; data and stages as they are placed.
TEST_CASE("ranks of a group share a node where they are neighbours", "[program]") {
  Mesh mesh;
  mesh.add_axis("group", 2);
  mesh.add_axis("data", 4);
  mesh.set_stage_axis(mesh.add_axis("pipeline", 4));
  CHECK(engine::place(mesh, axis_bit(1), 8).ranks_per_node == 4);
  CHECK(engine::place(mesh, axis_bit(2), 8).ranks_per_node == 1);
  CHECK(engine::place_message(mesh, 0, 1, 8).ranks_per_node == 1);
  mesh.place(std::array{0, 2, 1});
  CHECK(engine::place(mesh, axis_bit(1), 8).ranks_per_node == 1);
  CHECK(engine::place(mesh, axis_bit(2), 8).ranks_per_node == 4);
  CHECK(engine::place_message(mesh, 0, 1, 8).ranks_per_node == 2);
}

TEST_CASE("messages: a stage sends what it holds, over the links it has", "[program]") {
  const Program program = passes_on();
  const Bytes message(8 / 2 * 4 * 2);  // half of the tokens, bf16
  const ledger::ByteLedger apart = engine::read_bytes(program, 6);
  CHECK(apart.sent == message);
  CHECK(apart.received == message);
  CHECK(apart.sent_by_link[ledger::index(LinkClass::nic)] == message);
  const ledger::ByteLedger together = engine::read_bytes(program, 24);
  CHECK(together.sent_by_link[ledger::index(LinkClass::nvlink)] == message);
  CHECK(engine::read_peak(program).allocated == message);
}

TEST_CASE("messages: only to another stage that there is", "[program]") {
  Builder builder(mesh_of_stages(), {1, 1, 1});
  builder.set_stage(1, {2});
  builder.begin_segment("run");
  const TensorId x = builder.declare(value());
  for (const std::int64_t peer : {-1, 1, 4}) {
    CHECK_THROWS_AS(builder.emit_stage_send("send", peer, x, true), BuildError);
  }
}

TEST_CASE("stages shard nothing between them", "[program]") {
  Builder builder(mesh_of_stages(), {1, 1, 1});
  builder.begin_segment("run");
  TensorSpec spec = value();
  spec.layout = Layout().with(axis_bit(2), Placement::shard(1));
  const TensorId x = builder.declare(spec);
  CHECK_THROWS_AS(builder.emit(Function::zero, "zero", {write(x)}), BuildError);
}

TEST_CASE("a shifted reference works on another micro batch", "[program]") {
  Mesh mesh;
  mesh.add_axis("group", 1);
  Builder builder(mesh, {4, 1, 1});
  TensorSpec spec = value();
  spec.varies = kPerMicroBatch;
  const TensorId x = builder.declare(spec);
  const auto write_x = [&] {
    builder.begin_segment("write");
    builder.emit(Function::zero, "write", {write(x)});
  };
  const auto read_x = [&] {
    builder.begin_segment("read");
    builder.keep({x}, "test");
  };
  builder.repeat(Index::micro_batch, 0, 1, 2, write_x);
  builder.repeat(Index::micro_batch, 0, 1, 2, [&] {
    builder.shifted(Index::micro_batch, 2, write_x);
    read_x();
  });
  builder.repeat(Index::micro_batch, 2, 1, 2, read_x);
  const Program program = std::move(builder).close();
  CHECK(engine::read_peak(program).allocated == 3 * Bytes(8 * 4 * 2));  // two ahead and its own
  CHECK(engine::read_net_memory(program) == Bytes(0));
}

}  // namespace trireme::program
