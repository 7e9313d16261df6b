#include "sim/program/builder.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/program/refusal.h"

namespace trireme::program {
namespace {

const Shape kHidden{{2, "B"}, {4, "S"}, {8, "h"}};

TensorSpec hidden(std::string_view name, Placement placement = Placement::replicate()) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = kHidden;
  spec.layout = Layout().with(axis_bit(0), placement);
  return spec;
}

Builder on_ranks(std::int64_t ranks, std::int64_t layers = 4) {
  Mesh mesh;
  mesh.add_axis("group", ranks);
  Builder builder(mesh, {2, layers, 3});
  builder.begin_segment("run");
  return builder;
}

TEST_CASE("refused: a shard that does not divide and states no padding", "[program]") {
  Builder builder = on_ranks(3);
  CHECK(refusal([&] { builder.declare(hidden("x", Placement::shard(1))); }) ==
        "tensor 'x': [B, S/3, h] does not divide and states no padding");
  // 64 elements in three parts
  CHECK(refusal([&] { builder.declare(hidden("x", Placement::shard(Placement::kFlat))); }) ==
        "tensor 'x': [B, S, h]/3 does not divide and states no padding");
}

TEST_CASE("refused: an operation outside a segment", "[program]") {
  Builder builder = on_ranks(1);
  const TensorId x = builder.declare(hidden("x"));
  builder.repeat(Index::layer, 0, 1, 4, [&] {
    CHECK(refusal([&] { builder.emit(Function::zero, "too early", {write(x)}); }) ==
          "operation 'too early': no segment has begun");
    builder.begin_segment("layer");
    builder.emit(Function::zero, "inside", {update(x)});
  });
  CHECK(refusal([&] { builder.emit(Function::zero, "too late", {write(x)}); }) ==
        "operation 'too late': no segment has begun");
}

TEST_CASE("refused: a repeat inside one over the same index", "[program]") {
  Builder builder = on_ranks(1);
  CHECK(refusal([&] {
          builder.repeat(Index::layer, 0, 1, 2, [&] {
            builder.repeat(
                Index::chunk, 0, 1, 2, [&] { builder.repeat(Index::layer, 0, 1, 2, [] {}); });
          });
        }) == "repeat: 'layer' is already bound by an enclosing repeat");
}

TEST_CASE("refused: a repeat that does not move, or leaves what an index can hold", "[program]") {
  Builder builder = on_ranks(1);
  const auto repeat = [&](std::int64_t first, std::int64_t step, std::int64_t count) {
    return refusal([&] { builder.repeat(Index::layer, first, step, count, [] {}); });
  };
  const std::string message = "repeat: a step of zero, or an index beyond 2^30";
  CHECK(repeat(0, 0, 2) == message);
  CHECK(repeat(std::int64_t{1} << 31, 1, 1) == message);
  CHECK(repeat(0, std::int64_t{1} << 31, 1) == message);
  CHECK(repeat(0, 1, std::int64_t{1} << 31) == message);
  CHECK(repeat(1 << 20, 1 << 20, 1 << 20) == message);  // 2^20 + 2^20 (2^20 - 1) = 2^40
}

TEST_CASE("a repeat of no iterations is nothing", "[program]") {
  Builder builder = on_ranks(1);
  bool called = false;
  builder.repeat(Index::layer, 0, 1, 0, [&] { called = true; });
  CHECK_FALSE(called);
  CHECK(std::move(builder).close().nodes().size() == 1);  // the run that was begun
}

TEST_CASE("refused: more memory than a view's base has", "[program]") {
  Builder builder = on_ranks(2);
  const TensorId shard = builder.declare(hidden("x", Placement::shard(1)));
  CHECK(refusal([&] {
          builder.declare_view(shard, "view", {{2, "B"}, {8, "S"}, {8, "h"}});
        }) == "tensor 'view': it does not fit into the memory of 'x'");
  CHECK(refusal([&] { builder.declare_in_place(shard, "whole", Layout()); }) ==
        "tensor 'x (whole)': it does not fit into the memory of 'x'");
}

TEST_CASE("a part of a tensor that every rank holds whole", "[program]") {
  Builder builder = on_ranks(3);
  const TensorId whole = builder.declare(hidden("x"));
  const TensorId part =
      builder.declare_shard_of(whole, "shard", axis_bit(0), Placement::shard(Placement::kFlat));
  // 64 elements, padded to 66, in three parts
  CHECK(builder.tensor(part).local_elements == Elements(22));
  CHECK(builder.tensor(part).root == whole);
  CHECK(display_name(builder.tensor(part)) == "x (shard)");
  CHECK(
      refusal([&] { builder.declare_shard_of(part, "again", axis_bit(0), Placement::shard(0)); }) ==
      "tensor 'x (shard)': its shard 'again' needs a tensor that is whole on every rank of the "
      "group");
}

TEST_CASE("a view has a name of its own", "[program]") {
  Builder builder = on_ranks(1);
  const TensorId x = builder.declare(hidden("x"));
  const TensorId gradient = builder.declare_in_place(x, "gradient", Layout());
  const TensorId view = builder.declare_view(gradient, "slice", {{2, "B"}}, {}, kPerLayer);
  CHECK(display_name(builder.tensor(gradient)) == "x (gradient)");
  CHECK(display_name(builder.tensor(view)) == "slice");
  CHECK(builder.tensor(view).varies == kPerLayer);
  CHECK(builder.tensor(view).root == x);
}

TEST_CASE("peeled repeats: every iteration once, in order", "[program]") {
  struct Seen {
    std::int64_t first;
    std::int64_t step;
    std::int64_t count;
    Builder::Position position;

    bool operator==(const Seen&) const = default;
  };

  const auto peeled = [](std::int64_t first,
                         std::int64_t step,
                         std::int64_t count,
                         std::int64_t front,
                         std::int64_t back) {
    Builder builder = on_ranks(1);
    std::vector<Builder::Position> positions;
    builder.repeat_peeled(
        Index::layer, first, step, count, front, back, [&](Builder::Position position) {
          positions.push_back(position);
          builder.begin_segment("layer");
        });
    std::vector<Seen> seen;
    const Program program = std::move(builder).close();
    for (const Node& node : program.nodes()) {
      if (node.kind == Node::Kind::repeat) {
        seen.push_back({node.first, node.step, node.count, positions.at(seen.size())});
      }
    }
    return seen;
  };
  using enum Builder::Position;
  CHECK(peeled(0, 1, 8, 1, 2) ==
        std::vector<Seen>{{0, 1, 1, front}, {1, 1, 5, middle}, {6, 1, 1, back}, {7, 1, 1, back}});
  CHECK(peeled(7, -1, 8, 1, 1) ==
        std::vector<Seen>{{7, -1, 1, front}, {6, -1, 6, middle}, {0, -1, 1, back}});
  CHECK(peeled(0, 2, 3, 0, 1) == std::vector<Seen>{{0, 2, 2, middle}, {4, 2, 1, back}});
  CHECK(peeled(0, 1, 2, 1, 1) == std::vector<Seen>{{0, 1, 1, front}, {1, 1, 1, back}});
  CHECK(peeled(0, 1, 1, 1, 1) == std::vector<Seen>{{0, 1, 1, front}});  // the front comes first
  CHECK(peeled(0, 1, 0, 1, 1).empty());
}

TEST_CASE("collectives declare their results", "[program]") {
  Builder builder = on_ranks(2);
  const Placement sequence = Placement::shard(kSequenceDim);
  const Placement features = Placement::shard(kFeatureDim);
  TensorSpec spec = hidden("x", sequence);
  spec.varies = kPerLayer;
  const Ref x = Ref(builder.declare(spec)).at(Index::layer, 1);
  const auto placement = [&](Ref ref) { return builder.tensor(ref.tensor).layout[0]; };

  const Ref whole = builder.all_gather(x, axis_bit(0), "whole");
  CHECK(placement(whole) == Placement::replicate());
  CHECK(whole.offset == x.offset);  // the same layer's instance
  CHECK(builder.tensor(whole.tensor).varies == kPerLayer);
  CHECK(builder.tensor(whole.tensor).local_elements == Elements(64));

  const Ref heads = builder.all_to_all(x, axis_bit(0), kFeatureDim, "heads");
  CHECK(placement(heads) == features);

  spec.name = "partial";
  spec.layout = Layout().with(axis_bit(0), Placement::partial_sum());
  const Ref partial = builder.declare(spec);
  CHECK(placement(builder.reduce_scatter(partial, axis_bit(0), 1, "shard")) == sequence);
  const Ref sum = builder.all_reduce_in_place(partial, axis_bit(0), "sum");
  CHECK(placement(sum) == Placement::replicate());
  CHECK(builder.tensor(sum.tensor).root == partial.tensor);
}

TEST_CASE("collectives over one rank return their input", "[program]") {
  Builder builder = on_ranks(1);
  const Ref x = builder.declare(hidden("x", Placement::partial_sum()));
  CHECK(builder.all_gather(x, axis_bit(0), "r").tensor == x.tensor);
  CHECK(builder.reduce_scatter(x, axis_bit(0), 1, "r").tensor == x.tensor);
  CHECK(builder.all_reduce_in_place(x, axis_bit(0), "r").tensor == x.tensor);
  CHECK(builder.all_to_all(x, axis_bit(0), 2, "r").tensor == x.tensor);
}

TEST_CASE("a collective knows its group, stream, dimensions and reduction", "[program]") {
  Mesh mesh;
  mesh.add_axis("sequence", 2);
  mesh.add_axis("data", 2);
  Builder builder(mesh, {1, 1, 1});
  builder.begin_segment("run");
  const AxisMask group = axis_bit(1);
  TensorSpec spec;
  spec.shape = kHidden;
  const auto emit = [&](CollectiveKind kind, Placement from, Placement to) {
    spec.layout = Layout().with(group, from);
    const std::array in{read(builder.declare(spec))};
    spec.layout = Layout().with(group, to);
    const std::array out{write(builder.declare(spec))};
    return builder.emit_collective(kind, "op", group, in, out);
  };
  const Op exchange = emit(CollectiveKind::all_to_all, Placement::shard(1), Placement::shard(2));
  CHECK(exchange.group == 2);
  CHECK(exchange.stream == 3);  // after compute, host copies and the other axis' communicator
  CHECK(exchange.concat_dim == 1);
  CHECK(exchange.split_dim == 2);
  CHECK(exchange.reduction == Reduction::none);
  const Op sum = emit(CollectiveKind::all_reduce, Placement::partial_sum(), Placement::replicate());
  CHECK(sum.reduction == Reduction::sum);
  const Op max = emit(CollectiveKind::all_reduce, Placement::partial_max(), Placement::replicate());
  CHECK(max.reduction == Reduction::max);
}

TEST_CASE("the same ranks are one communicator, whatever axes of one rank are named", "[program]") {
  Mesh mesh;
  mesh.add_axis("sequence", 2);
  mesh.add_axis("data", 1);
  Builder builder(mesh, {1, 1, 1});
  builder.begin_segment("run");
  TensorSpec spec;
  spec.shape = kHidden;
  const auto stream_over = [&](AxisMask group) {
    spec.layout = Layout().with(group, Placement::partial_sum());
    const std::array in{read(builder.declare(spec))};
    spec.layout = Layout();
    const std::array out{write(builder.declare(spec))};
    return builder.emit_collective(CollectiveKind::all_reduce, "op", group, in, out).stream;
  };
  CHECK(stream_over(axis_bit(0)) == stream_over(mesh.all_axes()));
}

TEST_CASE("refused: a collective with as many outputs as inputs missing", "[program]") {
  Builder builder = on_ranks(2);
  const std::array in{read(builder.declare(hidden("x", Placement::shard(1))))};
  CHECK(refusal([&] {
          builder.emit_collective(CollectiveKind::all_gather, "op", axis_bit(0), in, {});
        }) == "operation 'op': needs one output per input");
}

TEST_CASE("a passage is emitted once and runs again for other instances", "[program]") {
  Builder builder = on_ranks(1);
  TensorSpec spec = hidden("x");
  spec.varies = kPerMicroBatch;
  const TensorId x = builder.declare(spec);
  Passage forward;
  int emitted = 0;
  const auto run = [&](std::int64_t shift) {
    builder.pass(forward, Index::micro_batch, shift, [&] {
      ++emitted;
      builder.begin_segment("forward");
      builder.emit(Function::zero, "make", {write(x)});
      builder.keep({x}, "test");
    });
  };
  builder.repeat(Index::micro_batch, 0, 1, 1, [&] { run(0); });
  builder.repeat(Index::micro_batch, 0, 1, 1, [&] { run(1); });
  const Program program = std::move(builder).close();
  CHECK(emitted == 1);
  CHECK(program.segments().size() == 2);  // "run" and "forward"
  CHECK(executions(program) == std::vector<std::int64_t>{1, 2});
  REQUIRE(program.nodes().size() == 5);
  CHECK(program.nodes()[2].shift[0] == 0);
  CHECK(program.nodes()[4].segment == program.nodes()[2].segment);
  CHECK(program.nodes()[4].shift[0] == 1);
}

TEST_CASE("refused: a birth in some runs of a segment", "[program]") {
  Builder builder = on_ranks(1);
  const TensorId x = builder.declare(hidden("x"));
  Passage passage;
  const auto run = [&] {
    builder.pass(passage, Index::micro_batch, 0, [&] {
      builder.begin_segment("forward");
      builder.emit(Function::zero, "make", {write(x)});
    });
  };
  run();
  run();
  CHECK(refusal([&] { static_cast<void>(std::move(builder).close()); }) ==
        "operation 'make': tensor 'x': it is written twice, before by 'make'");
}

TEST_CASE("copies between GPU and host have streams of their own, and the host's work too",
          "[program]") {
  Builder builder = on_ranks(1);
  TensorSpec spec = hidden("x");
  const TensorId on_gpu = builder.declare(spec);
  spec.place = Place::host;
  const TensorId on_host = builder.declare(spec);
  CHECK(on_gpu != on_host);
  builder.emit(Function::zero, "make", {write(on_gpu)});
  const Op there = builder.emit_host_copy("there", on_gpu, write(on_host));
  const Op work = builder.emit(Function::zero, "work", {update(on_host)});
  const Op back = builder.emit_host_copy("back", on_host, update(on_gpu), Completion::asynchronous);
  CHECK(there.function == Function::to_host);
  CHECK(there.stream == kToHostStream);
  CHECK(there.blocking);
  CHECK_FALSE(there.on_host);
  CHECK(work.on_host);
  CHECK(work.stream == kHostStream);
  CHECK(back.function == Function::to_device);
  CHECK(back.stream == kToDeviceStream);
  CHECK_FALSE(back.blocking);
}

TEST_CASE("refused: tensors in two memories, or a copy within one", "[program]") {
  Builder builder = on_ranks(2);
  TensorSpec spec = hidden("x", Placement::shard(1));
  const TensorId on_gpu = builder.declare(spec);
  spec.place = Place::host;
  const TensorId on_host = builder.declare(spec);
  spec.layout = {};
  const TensorId whole_on_host = builder.declare(spec);
  CHECK(refusal([&] {
          builder.emit(Function::accumulate, "add", {read(on_gpu), update(on_host)});
        }) == "operation 'add': tensor 'x' lies on the host, others do not");
  CHECK(refusal([&] { builder.emit_host_copy("copy", on_host, write(on_host)); }) ==
        "operation 'copy': both tensors lie on the host");
  CHECK(refusal([&] {
          builder.emit_collective(
              CollectiveKind::all_gather, "gather", axis_bit(0), on_host, whole_on_host);
        }) == "operation 'gather': a collective of the host");
}

TEST_CASE("how often each run of operations executes", "[program]") {
  Builder builder = on_ranks(1);  // "run", once
  builder.repeat(Index::micro_batch, 0, 1, 2, [&] {
    builder.begin_segment("start");
    builder.repeat(Index::layer, 0, 1, 4, [&] {
      builder.begin_segment("layer");
      builder.repeat(Index::chunk, 0, 1, 3, [&] { builder.begin_segment("chunk"); });
    });
    builder.repeat(Index::layer, 3, -1, 4, [&] { builder.begin_segment("backward"); });
    builder.begin_segment("end");
  });
  builder.begin_segment("optimizer");
  const Program program = std::move(builder).close();
  std::vector<std::pair<std::string, std::int64_t>> times;
  for_each_run(program, [&](const Node& node, std::int64_t count) {
    times.emplace_back(program.segments()[node.segment].label, count);
  });
  CHECK(times == std::vector<std::pair<std::string, std::int64_t>>{{"run", 1},
                                                                   {"start", 2},
                                                                   {"layer", 8},
                                                                   {"chunk", 24},
                                                                   {"backward", 8},
                                                                   {"end", 2},
                                                                   {"optimizer", 1}});
}

}  // namespace
}  // namespace trireme::program
