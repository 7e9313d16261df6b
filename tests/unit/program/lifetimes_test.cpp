#include "sim/program/lifetimes.h"

#include <string>
#include <string_view>
#include <vector>

#include "sim/program/builder.h"
#include "tests/catch.h"
#include "tests/unit/program/refusal.h"

namespace trireme::program {
namespace {

constexpr std::int64_t kMicroBatches = 2;
constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kChunks = 3;

/// A builder on one rank, whose operations only refer to tensors.
struct Draft {
  Draft() : builder(Mesh{}, {kMicroBatches, kLayers, kChunks}) { builder.begin_segment("start"); }

  TensorId tensor(std::string_view name, IndexMask varies = kPerStep, bool resident = false) {
    TensorSpec spec;
    spec.name = name;
    spec.varies = varies;
    spec.shape = {{10, "n"}};
    spec.resident = resident;
    return builder.declare(spec);
  }

  void op(std::string_view label, std::initializer_list<Operand> operands) {
    builder.emit(Function::zero, label, operands);
  }

  /// A repeat over every layer with one operation.
  void per_layer(std::string_view label, std::initializer_list<Operand> operands) {
    builder.repeat(Index::layer, 0, 1, kLayers, [&] {
      builder.begin_segment(label);
      op(label, operands);
    });
    builder.begin_segment("after");
  }

  /// One operation with the layer index bound to `layer`.
  void at_layer(std::int64_t layer,
                std::string_view label,
                std::initializer_list<Operand> operands) {
    builder.repeat(Index::layer, layer, 1, 1, [&] {
      builder.begin_segment(label);
      op(label, operands);
    });
    builder.begin_segment("after");
  }

  std::string close() {
    return refusal([&] { static_cast<void>(std::move(builder).close()); });
  }

  Builder builder;
};

std::vector<std::string> names(const Program& program, std::span<const TensorId> ids) {
  std::vector<std::string> list;
  for (const TensorId id : ids) {
    list.emplace_back(program.tensor(id).name);
  }
  return list;
}

using Names = std::vector<std::string>;

TEST_CASE("a temporary lives from its first reference to its last", "[program]") {
  Draft draft;
  const TensorId a = draft.tensor("a");
  const TensorId b = draft.tensor("b");
  draft.op("make a", {write(a)});
  draft.op("make b", {read(a), write(b)});
  draft.op("use a", {read(a)});
  draft.op("use b", {update(b)});
  const Program program = std::move(draft.builder).close();
  CHECK(names(program, program.births(program.op(0))) == Names{"a"});
  CHECK(names(program, program.births(program.op(1))) == Names{"b"});
  CHECK(program.deaths(program.op(1)).empty());
  CHECK(names(program, program.deaths(program.op(2))) == Names{"a"});
  CHECK(names(program, program.deaths(program.op(3))) == Names{"b"});
}

TEST_CASE("views keep their base alive, and a kept tensor lives on", "[program]") {
  Draft draft;
  const TensorId base = draft.tensor("base");
  const TensorId held = draft.tensor("held");
  const TensorId view = draft.builder.declare_view(base, "view", {{5, "n"}});
  draft.op("make", {write(base), write(held)});
  draft.op("use base", {read(base), read(held)});
  draft.op("use view", {read(view)});
  draft.builder.keep({held}, "a framework");
  const Program program = std::move(draft.builder).close();
  CHECK(program.deaths(program.op(1)).empty());
  CHECK(names(program, program.deaths(program.op(2))) == Names{"base"});
  CHECK(names(program, program.deaths(program.op(3))) == Names{"held"});
  CHECK(program.op(3).source == "a framework");
}

TEST_CASE("a successor takes over its base's memory", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x");
  const TensorId y = draft.builder.declare_in_place(x, "y", Layout());
  draft.op("make x", {write(x)});
  draft.op("x to y", {read(x), write(y)});
  draft.op("use y", {read(y)});
  const Program program = std::move(draft.builder).close();
  CHECK(names(program, program.births(program.op(0))) == Names{"x"});
  CHECK(program.births(program.op(1)).empty());
  CHECK(program.deaths(program.op(1)).empty());
  CHECK(names(program, program.deaths(program.op(2))) == Names{"x"});
}

TEST_CASE("an activation is saved when a later phase uses it", "[program]") {
  const auto saved = [](Phase born, Phase used) {
    Draft draft;
    const TensorId x = draft.tensor("x");
    draft.builder.set_phase(born);
    draft.op("make", {write(x)});
    draft.builder.set_phase(used);
    draft.op("use", {read(x)});
    return std::move(draft.builder).close().tensor(x).saved;
  };
  CHECK_FALSE(saved(Phase::forward, Phase::forward));
  CHECK(saved(Phase::forward, Phase::recompute));
  CHECK(saved(Phase::forward, Phase::backward));
  CHECK_FALSE(saved(Phase::recompute, Phase::recompute));
  CHECK(saved(Phase::recompute, Phase::backward));
  CHECK_FALSE(saved(Phase::backward, Phase::backward));
  CHECK_FALSE(saved(Phase::backward, Phase::optimizer));
}

TEST_CASE("a tensor that does not vary over a repeat dies when the repeat ends", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x");
  draft.op("make", {write(x)});
  draft.per_layer("use", {read(x)});
  const Program program = std::move(draft.builder).close();
  const Node* repeat = nullptr;
  for (const Node& node : program.nodes()) {
    repeat = node.kind == Node::Kind::repeat ? &node : repeat;
  }
  REQUIRE(repeat != nullptr);
  REQUIRE(program.deaths(*repeat).size() == 1);
  CHECK(program.deaths(*repeat)[0].tensor == x);
  CHECK(program.deaths(*repeat)[0].instances == 1);
}

TEST_CASE("all layers' instances die when a repeat over micro batches ends", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.per_layer("make", {write(x)});
  draft.builder.repeat(
      Index::micro_batch, 0, 1, kMicroBatches, [&] { draft.per_layer("use", {read(x)}); });
  const Program program = std::move(draft.builder).close();
  std::int64_t instances = 0;
  for (const Node& node : program.nodes()) {
    if (node.kind == Node::Kind::repeat && node.index == Index::micro_batch) {
      REQUIRE(program.deaths(node).size() == 1);
      instances = program.deaths(node)[0].instances;
    }
  }
  CHECK(instances == kLayers);
}

TEST_CASE("a boundary that is peeled is accepted", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.at_layer(0, "embedding", {write(x)});
  draft.per_layer("layer", {read(x), write(Ref(x).at(Index::layer, 1))});
  draft.at_layer(kLayers, "head", {read(x)});
  CHECK(draft.close() == "accepted");
}

TEST_CASE("first in, first out: micro batches overlap in a pipeline", "[program]") {
  // forward of micro batch 1 before backward of micro batch 0
  Draft draft;
  const TensorId x = draft.tensor("x", kPerMicroBatch);
  const auto at = [&](std::int64_t micro_batch, std::string_view label, Operand operand) {
    draft.builder.repeat(Index::micro_batch, micro_batch, 1, 1, [&] {
      draft.builder.begin_segment(label);
      draft.op(label, {operand});
    });
  };
  at(0, "forward 0", write(x));
  at(1, "forward 1", write(x));
  at(0, "backward 0", read(x));
  at(1, "backward 1", read(x));
  const Program program = std::move(draft.builder).close();
  CHECK(program.births(program.op(1)).size() == 1);
  CHECK(program.deaths(program.op(1)).empty());
  CHECK(program.deaths(program.op(2)).size() == 1);
  CHECK(program.deaths(program.op(3)).size() == 1);
}

TEST_CASE("every other layer saves: ranges of one stride join", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  const auto every_other =
      [&](std::int64_t first, std::int64_t count, std::string_view label, Operand operand) {
        draft.builder.repeat(Index::layer, first, 2, count, [&] {
          draft.builder.begin_segment(label);
          draft.op(label, {operand});
        });
      };
  every_other(0, 3, "forward", write(x));  // 0, 2, 4
  every_other(0, 1, "backward, last", read(x));
  every_other(2, 2, "backward", read(x));
  CHECK(draft.close() == "accepted");
}

TEST_CASE("units of two layers meet single layers: ranges of different strides", "[program]") {
  const auto close = [](std::int64_t last_single) {
    Draft draft;
    const TensorId x = draft.tensor("x", kPerLayer);
    draft.builder.repeat(Index::layer, 0, 2, 2, [&] {  // 0, 2 and, shifted, 1, 3
      draft.builder.begin_segment("units");
      draft.op("even", {write(x)});
      draft.builder.shifted(Index::layer, 1, [&] { draft.op("odd", {write(x)}); });
    });
    draft.builder.repeat(Index::layer, 0, 1, last_single + 1, [&] {
      draft.builder.begin_segment("single layers");
      draft.op("use", {read(x)});
    });
    return draft.close();
  };
  CHECK(close(3) == "accepted");
  CHECK(close(2) ==
        "operation 'odd': tensor 'x[layer 1..3]': it is the last use of some instances "
        "and not of others: peel the boundary");
}

TEST_CASE("bodies that declare alike share tensors", "[program]") {
  Draft draft;
  Builder::Declarations body;
  std::vector<TensorId> declared;
  for (int layer = 0; layer < 2; ++layer) {
    draft.builder.declare_alike(body, [&] { declared.push_back(draft.tensor("x", kPerLayer)); });
    declared.push_back(draft.tensor("x", kPerLayer));  // beside them
  }
  CHECK(declared[0] == declared[2]);
  CHECK(declared[1] != declared[0]);
  CHECK(declared[3] != declared[1]);
}

TEST_CASE("an instance further on dies with a repeat inside", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.builder.repeat(Index::layer, 0, 1, 2, [&] {
    draft.builder.begin_segment("layer");
    draft.op("make", {write(Ref(x).at(Index::layer, 1))});
    draft.builder.repeat(Index::micro_batch, 0, 1, 2, [&] {
      draft.builder.begin_segment("part");
      draft.op("use", {read(Ref(x).at(Index::layer, 1))});
    });
  });
  const Program program = std::move(draft.builder).close();
  std::vector<RepeatDeath> deaths;
  for (const Node& node : program.nodes()) {
    if (node.kind == Node::Kind::repeat && node.index == Index::micro_batch) {
      for (const RepeatDeath& death : program.deaths(node)) {
        deaths.push_back(death);
      }
    }
  }
  REQUIRE(deaths.size() == 1);
  CHECK(deaths[0].tensor == x);
  CHECK(deaths[0].instances == 1);
  CHECK(deaths[0].offset[static_cast<std::size_t>(Index::layer)] == 1);
}

TEST_CASE("refused: a temporary born inside a repeat without its index", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t");
  draft.builder.repeat(Index::layer, 0, 1, kLayers, [&] {
    draft.builder.begin_segment("layer");
    draft.op("make", {write(t)});
    draft.op("use", {read(t)});
  });
  CHECK(draft.close() ==
        "operation 'make': tensor 't': it is written inside a repeat over 'layer' that it does not "
        "vary over: index or peel");
}

TEST_CASE("refused: a slice that gives birth inside a repeat to all of its base", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t");
  const TensorId slice = draft.builder.declare_view(t, "slice", {{2, "n"}}, {}, kPerLayer);
  draft.per_layer("make", {write(slice)});
  draft.op("use", {read(t)});
  CHECK(draft.close() ==
        "operation 'make': tensor 'slice[layer 0]': it is born inside a repeat over 'layer' that "
        "it does not vary over: index or peel");
}

TEST_CASE("refused: an index that no repeat binds", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t", kPerLayer);
  draft.op("make", {write(t)});
  CHECK(draft.close() ==
        "operation 'make': tensor 't[layer 0]': no repeat around the operation binds one of its "
        "indices");
}

TEST_CASE("refused: a resident tensor whose index no repeat binds", "[program]") {
  Draft draft;
  const TensorId weight = draft.tensor("weight", kPerLayer, true);
  draft.op("use", {read(weight)});
  CHECK(draft.close() ==
        "operation 'use': tensor 'weight[layer 0]': no repeat around the operation binds one of "
        "its indices");
}

TEST_CASE("refused: a read before a write", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t");
  draft.op("use", {read(t)});
  draft.op("make", {write(t)});
  draft.op("use again", {read(t)});
  CHECK(draft.close() ==
        "operation 'use': tensor 't': it is used before any operation writes it: an instance or a "
        "peeled boundary is missing");
}

TEST_CASE("refused: an operation that reads what it writes itself", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t");
  draft.op("make", {write(t), read(t)});
  CHECK(draft.close() ==
        "operation 'make': tensor 't': it is used before any operation writes it: an instance or a "
        "peeled boundary is missing");
}

TEST_CASE("refused: a double write", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t");
  draft.op("make", {write(t)});
  draft.op("make again", {write(t)});
  draft.op("use", {read(t)});
  CHECK(draft.close() ==
        "operation 'make again': tensor 't': it is written twice, before by 'make'");
}

TEST_CASE("refused: a double write of some instances", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t", kPerLayer);
  draft.per_layer("make", {write(t)});
  draft.at_layer(2, "make again", {write(t)});
  draft.per_layer("use", {read(t)});
  CHECK(draft.close() ==
        "operation 'make again': tensor 't[layer 2]': it is written twice, before by 'make'");
}

TEST_CASE("refused: written and never used", "[program]") {
  Draft draft;
  const TensorId t = draft.tensor("t");
  draft.op("make", {write(t)});
  CHECK(draft.close() == "operation 'make': tensor 't': it is written and never used");
}

TEST_CASE("a workspace is written and never used", "[program]") {
  Draft draft;
  TensorSpec spec;
  spec.name = "workspace";
  spec.role = Role::workspace;
  spec.shape = {{10, "n"}};
  const TensorId workspace = draft.builder.declare(spec);
  draft.op("kernel", {write(workspace)});
  const Program program = std::move(draft.builder).close();
  CHECK(program.births(program.op(0)).size() == 1);
  CHECK(program.deaths(program.op(0)).size() == 1);
}

TEST_CASE("refused: an unpeeled boundary at birth", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.at_layer(1, "make one", {write(x)});
  draft.per_layer("layer", {update(x)});
  CHECK(draft.close() ==
        "operation 'layer': tensor 'x[layer 0..3]': some of its instances exist before, some do "
        "not: peel the boundary");
}

TEST_CASE("refused: an unpeeled boundary at death", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.per_layer("make", {write(x)});
  draft.per_layer("use", {read(x)});
  draft.at_layer(3, "use the last", {read(x)});
  CHECK(draft.close() ==
        "operation 'use': tensor 'x[layer 0..3]': it is the last use of some instances and not of "
        "others: peel the boundary");
}

TEST_CASE("refused: a carried tensor whose last instance is never used", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.at_layer(0, "embedding", {write(x)});
  draft.per_layer("layer", {read(x), write(Ref(x).at(Index::layer, 1))});
  CHECK(draft.close() ==
        "operation 'layer': tensor 'x[layer 1..4]': it is the last use of some instances and not "
        "of others: peel the boundary");
}

TEST_CASE("refused: the first iteration reads x[-1]", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.per_layer("layer", {read(Ref(x).at(Index::layer, -1)), write(x)});
  draft.at_layer(kLayers - 1, "head", {read(x)});
  CHECK(draft.close() ==
        "operation 'layer': tensor 'x[layer -1..2]': some of its instances exist before, some do "
        "not: peel the boundary");
}

TEST_CASE("refused: backwards, an iteration reads what a later one writes", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  draft.at_layer(0, "make", {write(x)});
  draft.builder.repeat(Index::layer, kLayers - 1, -1, kLayers, [&] {
    draft.builder.begin_segment("layer");
    draft.op("layer", {read(x), write(Ref(x).at(Index::layer, 1))});
  });
  draft.builder.begin_segment("after");
  draft.at_layer(kLayers, "use", {read(x)});
  // layer 3 reads x[3], which layer 2 writes afterwards
  CHECK(draft.close() ==
        "operation 'layer': tensor 'x[layer 0..3]': some of its instances exist before, some do "
        "not: peel the boundary");
}

TEST_CASE("refused: a tensor used after its successor took over", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x");
  const TensorId y = draft.builder.declare_in_place(x, "y", Layout());
  draft.op("make x", {write(x)});
  draft.op("x to y", {read(x), write(y)});
  draft.op("use", {read(x), read(y)});
  CHECK(draft.close() == "operation 'use': tensor 'x': 'x (y)' has taken over its memory");
}

TEST_CASE("refused: a view used after a successor took over", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x");
  const TensorId view = draft.builder.declare_view(x, "view", {{5, "n"}});
  const TensorId y = draft.builder.declare_in_place(x, "y", Layout());
  draft.op("make x", {write(x)});
  draft.op("x to y", {read(x), write(y)});
  draft.op("use", {read(view), read(y)});
  CHECK(draft.close() == "operation 'use': tensor 'view': 'x (y)' has taken over its memory");
}

TEST_CASE("refused: a successor, or its view, used before it is written", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x");
  const TensorId y = draft.builder.declare_in_place(x, "y", Layout());
  const TensorId view = draft.builder.declare_view(y, "view", {{5, "n"}});
  draft.op("make x", {write(x)});
  draft.op("use", {read(view)});
  draft.op("x to y", {read(x), write(y)});
  draft.op("use y", {read(y)});
  CHECK(draft.close() ==
        "operation 'use': tensor 'view': it is used before any operation writes it");
}

TEST_CASE("refused: two successors of one tensor", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x");
  const TensorId y = draft.builder.declare_in_place(x, "y", Layout());
  const TensorId z = draft.builder.declare_in_place(x, "z", Layout());
  draft.op("make x", {write(x)});
  draft.op("x to y", {read(x), write(y)});
  draft.op("y to z", {read(y), write(z)});
  draft.op("use", {read(z)});
  CHECK(draft.close() == "operation 'y to z': tensor 'x (z)': 'x (y)' has taken over its memory");
}

TEST_CASE("refused: a successor of some instances used for all", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x", kPerLayer);
  const TensorId y = draft.builder.declare_in_place(x, "y", Layout());
  draft.per_layer("make", {write(x)});
  draft.at_layer(1, "x to y", {read(x), write(y)});
  draft.per_layer("use", {read(y)});
  CHECK(
      draft.close() ==
      "operation 'use': tensor 'x (y)[layer 0..3]': only some of its instances have been written: "
      "peel the boundary");
}

TEST_CASE("refused: a successor written in every iteration of a repeat", "[program]") {
  Draft draft;
  const TensorId x = draft.tensor("x");
  const TensorId y = draft.builder.declare_in_place(x, "y", Layout());
  draft.op("make", {write(x)});
  draft.per_layer("x to y", {read(x), write(y)});
  draft.op("use", {read(y)});
  CHECK(draft.close() ==
        "operation 'x to y': tensor 'x (y)': it is written inside a repeat over 'layer' that it "
        "does not vary over: index or peel");
}

TEST_CASE("refused: a resident tensor beyond the extents", "[program]") {
  SECTION("by an offset") {
    Draft draft;
    const TensorId weight = draft.tensor("weight", kPerLayer, true);
    draft.per_layer("prefetch", {read(Ref(weight).at(Index::layer, 1))});
    CHECK(draft.close() ==
          "operation 'prefetch': tensor 'weight[layer 1..4]': there are 4 instances");
  }
  SECTION("by a repeat that runs too far") {
    Draft draft;
    const TensorId weight = draft.tensor("weight", kPerLayer, true);
    draft.builder.repeat(Index::layer, 0, 1, kLayers + 1, [&] {
      draft.builder.begin_segment("layer");
      draft.op("use", {read(weight)});
    });
    CHECK(draft.close() == "operation 'use': tensor 'weight[layer 0..4]': there are 4 instances");
  }
}

TEST_CASE("a resident buffer is written again and again", "[program]") {
  Draft draft;
  const TensorId buffer = draft.tensor("buffer", kPerStep, true);
  draft.per_layer("fill", {write(buffer)});
  draft.op("fill again", {write(buffer)});
  const Program program = std::move(draft.builder).close();
  CHECK(program.births(program.op(0)).empty());
  CHECK(program.deaths(program.op(1)).empty());
}

}  // namespace
}  // namespace trireme::program
