#include "sim/engine/analytic.h"

#include <string>

#include "tests/catch.h"
#include "tests/unit/engine/timed_program.h"

namespace trireme::engine {
namespace {

using program::Builder;
using program::Function;
using program::Index;
using program::Layout;
using program::Op;
using program::Placement;
using program::Program;
using program::read;
using program::Ref;
using program::Shape;
using program::TensorId;
using program::TensorSpec;
using program::update;
using program::write;

/// Nanoseconds of the step, each of them one byte.
double step(const Program& program) {
  const auto time = read_time(program, machine());
  REQUIRE(time.has_value());
  return time->step.value() * kBytesPerSecond;
}

double exposed(const Program& program) {
  return read_time(program, machine())->exposed_communication.value() * kBytesPerSecond;
}

TEST_CASE("time: kernels and blocking collectives add up", "[engine]") {
  Draft draft;
  draft.kernel(30);
  draft.gather();
  draft.kernel(20);
  const Program program = draft.close();
  CHECK(step(program) == Approx(100).epsilon(1e-12));  // 30 + 50 + 20
  CHECK(exposed(program) == Approx(50).epsilon(1e-12));
}

TEST_CASE("time: a collective hides behind kernels until its result is needed", "[engine]") {
  Draft draft;
  const auto gathered = draft.gather();
  gathered.op->blocking = false;
  draft.kernel(30);
  // moves the 100 gathered bytes, from 50 on
  draft.builder.emit(Function::zero, "use", {read(gathered.to)});
  const Program program = draft.close();
  CHECK(step(program) == Approx(150).epsilon(1e-12));
  CHECK(exposed(program) == Approx(20).epsilon(1e-12));  // 50 - 30
}

TEST_CASE("time: a collective that is hidden whole is not exposed", "[engine]") {
  Draft draft;
  const auto gathered = draft.gather();
  gathered.op->blocking = false;
  draft.kernel(80);
  draft.builder.emit(Function::zero, "use", {read(gathered.to)});
  const Program program = draft.close();
  CHECK(step(program) == Approx(180).epsilon(1e-12));
  CHECK(exposed(program) == Approx(0).margin(1e-9));
}

TEST_CASE("time: a collective waits for what it sends", "[engine]") {
  Draft draft;
  TensorSpec spec = resident("shard", {{1, "B"}, {100, "S"}});
  spec.type = ElementType::fp8;
  spec.layout = Layout().with(kGroup, Placement::shard(1));
  const TensorId from = draft.builder.declare(spec);
  spec.layout = Layout();
  const TensorId to = draft.builder.declare(spec);
  draft.kernel(30);
  draft.builder.emit(Function::zero, "make", {write(from)});  // 50 bytes, until 80
  const std::array in{read(from)};
  const std::array out{write(to)};
  draft.builder.emit_collective(CollectiveKind::all_gather, "gather", kGroup, in, out).blocking =
      false;  // until 130
  draft.kernel(10);
  CHECK(step(draft.close()) == Approx(130).epsilon(1e-12));
}

TEST_CASE("time: nothing overwrites what a collective still sends", "[engine]") {
  Draft draft;
  const auto gathered = draft.gather();  // until 50
  gathered.op->blocking = false;
  draft.builder.emit(Function::zero, "overwrite", {write(gathered.from)});  // 50 bytes
  CHECK(step(draft.close()) == Approx(100).epsilon(1e-12));
}

TEST_CASE("time: holding a tensor takes and waits for nothing", "[engine]") {
  Draft draft;
  const auto gathered = draft.gather();  // until 50
  gathered.op->blocking = false;
  draft.builder.keep({gathered.to}, "a framework");
  draft.kernel(30);
  CHECK(step(draft.close()) == Approx(50).epsilon(1e-12));
}

TEST_CASE("time: one communicator does one collective at a time", "[engine]") {
  Draft draft;
  draft.gather().op->blocking = false;
  draft.gather().op->blocking = false;
  CHECK(step(draft.close()) == Approx(100).epsilon(1e-12));
}

TEST_CASE("time: streams join at a segment's end, and repeats multiply", "[engine]") {
  Draft draft;
  draft.builder.repeat(Index::micro_batch, 0, 1, 2, [&] {
    draft.builder.repeat(Index::layer, 0, 1, 4, [&] {
      draft.builder.begin_segment("layer");
      draft.gather().op->blocking = false;  // 50, longer than the kernel
      draft.kernel(30);
    });
    draft.builder.begin_segment("after");
    draft.kernel(5);
  });
  const Program program = draft.close();
  CHECK(step(program) == Approx(2 * (4 * 50 + 5)).epsilon(1e-12));
  CHECK(exposed(program) == Approx(2 * 4 * 20).epsilon(1e-12));
}

TEST_CASE("time: busy seconds by kind and component", "[engine]") {
  Draft draft;
  draft.builder.set_component(Component::mlp);
  TensorSpec spec = resident("x", {{1, "B"}, {2, "S"}, {4, "h"}});
  const TensorId x = draft.builder.declare(spec);
  spec.shape = {{3, "f"}, {4, "h"}};
  const TensorId weight = draft.builder.declare(spec);
  spec.shape = {{1, "B"}, {2, "S"}, {3, "f"}};
  const TensorId y = draft.builder.declare(spec);
  draft.builder.emit(Function::gemm_forward, "gemm", {read(x), read(weight), update(y)});
  draft.builder.set_component(Component::norm);
  draft.gather();
  draft.kernel(7);
  const Program program = draft.close();
  const auto time = read_time(program, machine());
  REQUIRE(time.has_value());
  const auto bytes = [](Seconds seconds) { return seconds.value() * kBytesPerSecond; };
  CHECK(bytes(time->gemm) == Approx(2 * 2 * 3 * 4).epsilon(1e-12));  // 48 flops at 1 GFLOP/s
  CHECK(bytes(time->memory_bound) == Approx(7).epsilon(1e-12));
  CHECK(bytes(time->busy_by_component[ledger::index(Component::mlp)]) == Approx(48).epsilon(1e-12));
  CHECK(bytes(time->busy_by_component[ledger::index(Component::norm)]) ==
        Approx(57).epsilon(1e-12));
  CHECK(bytes(time->busy_by_collective[ledger::index(CollectiveKind::all_gather)]) ==
        Approx(50).epsilon(1e-12));

  const auto entries = time_entries(program, machine());
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].function == "gemm_forward");
  CHECK(entries[0].flops == Flops(48));
  CHECK(entries[1].function == "all_gather");
  CHECK(bytes(entries[2].total) == Approx(7).epsilon(1e-12));
}

TEST_CASE("time: a collective over several tensors is one call", "[engine]") {
  Draft draft;
  Machine slow_start = machine();
  slow_start.costs.collectives.all_gather->start = Seconds(1);
  TensorSpec spec = resident("x", {{1, "B"}, {100, "S"}});
  spec.type = ElementType::fp8;
  const std::array out{write(draft.builder.declare(spec)), write(draft.builder.declare(spec))};
  spec.layout = Layout().with(kGroup, Placement::shard(1));
  const std::array in{read(draft.builder.declare(spec)), read(draft.builder.declare(spec))};
  draft.builder.emit_collective(CollectiveKind::all_gather, "both", kGroup, in, out);
  const auto time = read_time(draft.close(), slow_start);
  REQUIRE(time.has_value());
  CHECK(time->step.value() == Approx(1 + 100 / kBytesPerSecond).epsilon(1e-12));  // one start
}

TEST_CASE("time: a block that a ring carries on takes one hop", "[engine]") {
  Builder builder = small_program({{"group", 4}});
  Machine ring = machine();
  cost::SendRecvCosts hop;
  hop.start = Seconds(2);
  hop.channel_rate = BytesPerSecond(1e300);
  hop.link_rate = BytesPerSecond(1e300);
  hop.channels = 1;
  hop.channel_bytes = Bytes(1 << 20);
  ring.costs.collectives.send_recv = hop;
  const TensorSpec block = resident("block", {{1, "B"}, {8, "S"}});
  emit_collective(builder, CollectiveKind::send_recv, kGroup, block, block);
  const auto time = read_time(std::move(builder).close(), ring);
  REQUIRE(time.has_value());
  CHECK(time->step.value() == Approx(2).epsilon(1e-12));
}

TEST_CASE("time: an unknown kernel leaves the step unknown, and says which", "[engine]") {
  Builder builder = small_program({{"group", 2}});
  const Shape queries{{1, "B"}, {8, "S"}, {2, "g"}, {2, "a/g"}, {64, "d"}};
  const TensorId q = builder.declare(resident("q", queries));
  const TensorId k = builder.declare(resident("k", {{1, "B"}, {8, "S"}, {2, "g"}, {64, "d"}}));
  const TensorId o = builder.declare(resident("o", queries));
  const TensorId statistics =
      builder.declare(resident("log-sum-exp", {{1, "B"}, {8, "S"}, {2, "g"}, {2, "a/g"}}));
  builder
      .emit(Function::attention_forward,
            "attention",
            {read(q), read(k), read(k), update(o), update(statistics)})
      .attention = program::AttentionImplementation::flash3;
  const Program program = std::move(builder).close();
  CHECK_FALSE(read_time(program, machine()).has_value());
  CHECK(unknown_kernel(program, machine()) ==
        "the profile does not know attention_forward of kernel flash3 at head dimension 64");

  Machine other = machine();
  other.costs.attention.cudnn.emplace();
  other.costs.attention.cudnn->head_dim_count = 1;
  other.costs.attention.cudnn->head_dims[0].head_dim = 64;
  other.costs.attention.cudnn->head_dims[0].forward.emplace();
  CHECK(unknown_kernel(program, other) ==
        "the profile does not know attention_forward of kernel flash3 at head dimension 64; it "
        "knows cudnn");

  Builder ring = small_program({{"group", 2}});
  const TensorSpec block = resident("block", {{1, "B"}, {8, "S"}});
  emit_collective(ring, CollectiveKind::send_recv, kGroup, block, block);
  const Program hops = std::move(ring).close();
  CHECK_FALSE(read_time(hops, machine()).has_value());
  CHECK(unknown_kernel(hops, machine()) == "the profile does not know the seconds of 'send_recv'");
  CHECK(unknown_kernel(Draft().close(), machine()).empty());
}

}  // namespace
}  // namespace trireme::engine
