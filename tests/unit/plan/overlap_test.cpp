// Which collectives are hidden, behind what, and what that holds in memory.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

std::vector<std::string> asynchronous(const plan::Plan& plan) {
  const program::Program program = plan::lower(plan);
  std::vector<std::string> labels;
  for (const program::Op& op : program.ops()) {
    if (op.function == program::Function::collective && !op.blocking) {
      labels.emplace_back(op.label);
    }
  }
  return labels;
}

TEST_CASE("Megatron Core hides two of a block's five collectives", "[plan]") {
  plan::Plan plan = megatron(gelu_model(1, 4096, 32), 8, 4096);
  CHECK(asynchronous(plan).empty());  // generic: nothing overlaps
  plan.framework = config::Framework::megatron;
  CHECK(asynchronous(plan) == std::vector<std::string>{"mlp input, gathered again",
                                                       "mlp input gradient",
                                                       "attention input, gathered again",
                                                       "attention input gradient"});
  plan.sequence_sharded = false;  // no gather; the sums are all-reduces
  CHECK(asynchronous(plan) ==
        std::vector<std::string>{"mlp input gradient", "attention input gradient"});
}

TEST_CASE("Ulysses' exchanges are not hidden", "[plan]") {
  plan::Plan plan = ulysses(gelu_model(1, 4096, 32), 8, 4096);
  plan.framework = config::Framework::deepspeed_legacy;
  CHECK(asynchronous(plan).empty());
}

/// "F compute", "F gather parameters": what one rank issues in a segment, gathers and reductions
/// among the products of their blocks.
std::vector<std::string> weights_and_products(const program::Program& program,
                                              std::string_view segment_label,
                                              std::size_t which) {
  std::vector<std::string> issued;
  for (const program::Segment& segment : program.segments()) {
    if (segment.label != segment_label || which-- != 0) {
      continue;
    }
    for (program::OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const program::Op& op = program.op(id);
      const bool product = program::info(op.function).family == program::Family::gemm;
      const std::string block(name(op.component));
      const std::string entry = product ? block : block + ": " + std::string(op.label);
      const bool weights = program::is_weights_stream(op.stream) || op.label.starts_with("accum");
      if (weights || (product && (issued.empty() || issued.back() != entry))) {
        issued.push_back(entry);
      }
    }
    break;
  }
  return issued;
}

using Issued = std::vector<std::string>;

TEST_CASE("parameters are gathered one block ahead", "[plan]") {
  plan::Plan plan = ulysses_zero3(gelu_model(3, 64, 8), 8, 64, false);
  plan.overlap_parameters = true;
  const program::Program program = plan::lower(plan);
  CHECK(weights_and_products(program, "embedding", 0) == Issued{"attention: gather parameters"});
  // the first layers gather the next one's attention behind their MLP
  CHECK(weights_and_products(program, "layer forward", 0) ==
        Issued{"mlp: gather parameters", "attention", "attention: gather parameters", "mlp"});
  // the last one its own MLP again, which goes backward first
  CHECK(weights_and_products(program, "layer forward", 1) ==
        Issued{"mlp: gather parameters", "attention", "mlp: gather parameters", "mlp"});
  const Issued backward = weights_and_products(program, "layer backward", 0);
  CHECK(backward == Issued{"attention: gather parameters",
                           "mlp",
                           "mlp: reduce gradients",
                           "mlp: accumulate gradient shard",
                           "mlp: accumulate gradient shard",
                           "mlp: accumulate gradient shard",
                           "mlp: accumulate gradient shard",
                           "mlp: gather parameters",
                           "attention",
                           "attention: reduce gradients",
                           "attention: accumulate gradient shard",
                           "attention: accumulate gradient shard",
                           "attention: accumulate gradient shard",
                           "attention: accumulate gradient shard"});
  for (const program::Op& op : program.ops()) {
    if (op.label == "gather parameters") {
      CHECK_FALSE(op.blocking);
    }
  }
}

TEST_CASE("a reduction is under way while the block before computes", "[plan]") {
  plan::Plan plan = ulysses_zero3(gelu_model(3, 64, 8), 8, 64, true);
  plan.overlap_gradients = true;
  const program::Program program = plan::lower(plan);
  const auto brief = [&](std::string_view label, std::size_t which) {
    Issued issued = weights_and_products(program, label, which);
    issued.erase(std::unique(issued.begin(), issued.end()), issued.end());
    return issued;
  };
  // The last layer has nothing before it to reduce.
  CHECK(brief("layer backward", 0) == Issued{"mlp", "mlp: reduce gradients", "attention"});
  // The others reduce what the layer above left: its attention first, then their own MLP; a shard
  // is accumulated when the next reduction begins.
  CHECK(brief("layer backward", 1) == Issued{"mlp: accumulate gradient shard",
                                             "attention: reduce gradients",
                                             "mlp",
                                             "attention: accumulate gradient shard",
                                             "mlp: reduce gradients",
                                             "attention"});
  CHECK(brief("embedding backward", 0) == Issued{"mlp: accumulate gradient shard",
                                                 "attention: reduce gradients",
                                                 "attention: accumulate gradient shard"});
}

TEST_CASE("gathering ahead holds one block more", "[plan]") {
  // Two blocks of 2^12 * (4, then 8) bf16 weights and 2 h of norms: attention 4 h^2, MLP 8 h^2.
  plan::Plan plan = ulysses_zero3(gelu_model(4, 64, 8), 8, 8, false, ElementType::bf16);
  const auto gathered = [](const program::Program& program) {
    return engine::read_memory(program)
        .by_item[ledger::index(MemoryItem::gathered_parameters)]
        .value();
  };
  const std::int64_t attention = 2 * (4 * 64 * 64 + 2 * 64);
  const std::int64_t mlp = 2 * (8 * 64 * 64 + 2 * 64);
  CHECK(gathered(plan::lower(plan)) == mlp);
  plan.overlap_parameters = true;
  CHECK(gathered(plan::lower(plan)) == mlp + attention);
}

TEST_CASE("data parallelism reduces in the last micro batch, behind its backward pass", "[plan]") {
  plan::Plan plan = data_parallel(gelu_model(2, 64, 8), 4, 64, 1);
  plan.micro_batches = 3;
  const auto reductions = [](const program::Program& program, bool blocking) {
    std::int64_t count = 0;
    program::for_each_op(program, [&](program::OpId, const program::Op& op, std::int64_t times) {
      if (op.label == "reduce gradients" && op.blocking == blocking) {
        count += times;
      }
    });
    return count;
  };
  CHECK(reductions(plan::lower(plan), true) == 2);  // one per layer
  CHECK(reductions(plan::lower(plan), false) == 0);
  plan.overlap_gradients = true;
  CHECK(reductions(plan::lower(plan), true) == 0);
  CHECK(reductions(plan::lower(plan), false) == 4);  // one per block and layer
}

TEST_CASE("sharded optimizers leave the gather to the next forward pass", "[plan]") {
  plan::Plan plan = data_parallel(gelu_model(2, 64, 8), 4, 64, 1);
  plan.micro_batches = 3;
  plan.overlap_parameters = true;
  const program::Program program = plan::lower(plan);
  // in the first micro batch alone: attention of layer 0 with the input, then a block ahead
  CHECK(weights_and_products(program, "embedding", 0) ==
        Issued{"optimizer: gather updated parameters"});
  CHECK(weights_and_products(program, "layer forward", 0) ==
        Issued{"optimizer: gather updated parameters",
               "attention",
               "optimizer: gather updated parameters",
               "mlp"});
  CHECK(weights_and_products(program, "layer forward", 1) ==
        Issued{"optimizer: gather updated parameters", "attention", "mlp"});
  CHECK(weights_and_products(program, "layer forward", 2) == Issued{"attention", "mlp"});
  CHECK(weights_and_products(program, "optimizer of a layer", 0).empty());
}

TEST_CASE("ring exchange cuts products into a piece per rank", "[plan]") {
  plan::Plan plan = megatron(gelu_model(1, 64, 8), 8, 64);
  plan.overlap_tensor = config::TensorParallelOverlap::bulk;
  // as Megatron Core hides them without being asked
  CHECK(asynchronous(plan) == std::vector<std::string>{"mlp input, gathered again",
                                                       "mlp input gradient",
                                                       "attention input, gathered again",
                                                       "attention input gradient"});
  plan.overlap_tensor = config::TensorParallelOverlap::ring_exchange;
  const program::Program program = plan::lower(plan);
  std::int64_t hops = 0;
  std::int64_t pieces = 0;
  std::int64_t sums = 0;
  std::int64_t largest_shift = 0;
  for (const program::Op& op : program.ops()) {
    const bool hop =
        op.function == program::Function::collective && op.collective == CollectiveKind::send_recv;
    hops += hop && !op.blocking ? 1 : 0;
    largest_shift = std::max<std::int64_t>(largest_shift, hop ? op.shift : 0);
    pieces += op.label == "mlp up projection" ? 1 : 0;
    sums += op.function == program::Function::sum_blocks ? 1 : 0;
  }
  CHECK(hops == 2 * 3 * 7);  // of a block: two gathers and a sum of 7 hops each
  CHECK(pieces == 8);
  CHECK(sums == 2);
  CHECK(largest_shift == 7);
  // 6 of 10 collectives are hops: 3/5 of 5 N 7/8 per block, N = 64 * 64 * 2
  const ledger::ByteLedger bytes = engine::read_bytes(program, 8);
  CHECK(bytes.sent_by_collective[ledger::index(CollectiveKind::send_recv)] ==
        Bytes(2 * 3 * 64 * 64 * 2 * 7 / 8));
  CHECK(bytes.sent_by_collective[ledger::index(CollectiveKind::all_gather)] ==
        Bytes(2 * 64 * 64 * 2 * 7 / 8));
}

/// Two nodes of eight GPUs.
config::StudySpec two_nodes() {
  config::StudySpec study;
  study.model.layers.value = 2;
  study.model.hidden.value = 4096;
  study.model.heads.value = 32;
  study.model.kv_heads.value = 32;
  study.model.head_dim.value = 128;
  study.model.mlp_width.value = 16384;
  study.cluster.nodes.value = 2;
  study.cluster.gpus_per_node.value = 8;
  study.workload.sequence.value = Tokens(32 * kKiB);
  study.workload.micro_batch.value = 1;
  return study;
}

config::PlanSpec spec_of(std::int64_t ulysses, std::int64_t tensor, std::int64_t stage) {
  config::PlanSpec spec;
  spec.ulysses.value = ulysses;
  spec.sequence_gather.value = 1;
  spec.ring.value = 1;
  spec.tensor_parallel.value = tensor;
  spec.mlp_tensor_parallel.value = 1;
  spec.zero.stage.value = stage;
  return spec;
}

TEST_CASE("what overlaps when nobody says so is the framework's", "[plan]") {
  using config::Framework;

  struct Row {
    Framework framework;
    std::int64_t stage;
    bool parameters;
    bool gradients;
  };

  const std::vector<Row> rows = {
      {Framework::generic, 3, false, false},
      {Framework::megatron, 0, false, false},
      {Framework::deepspeed, 3, true, true},
      {Framework::deepspeed, 2, false, false},
      {Framework::pytorch, 3, true, true},
      {Framework::pytorch, 1, false, false},
      {Framework::pytorch, 0, false, true},
      {Framework::torchtitan, 3, true, true},
  };
  for (const Row& row : rows) {
    config::PlanSpec spec = spec_of(8, 1, row.stage);
    spec.framework = row.framework;
    const plan::Plan plan = plan::resolve(two_nodes(), spec).plan;
    CAPTURE(static_cast<int>(row.framework), row.stage);
    CHECK(plan.overlap_parameters == row.parameters);
    CHECK(plan.overlap_gradients == row.gradients);
    CHECK(plan.overlap_tensor == config::TensorParallelOverlap::none);
    spec.overlap.parameters = !row.parameters;
    spec.overlap.gradients = !row.gradients;
    CHECK(plan::resolve(two_nodes(), spec).plan.overlap_parameters == !row.parameters);
    CHECK(plan::resolve(two_nodes(), spec).plan.overlap_gradients == !row.gradients);
  }
}

TEST_CASE("overlap inside tensor parallelism has its conditions", "[plan]") {
  using config::TensorParallelOverlap;
  const auto rules = [](const config::PlanSpec& spec) {
    std::vector<std::string> found;
    for (const Refusal& refusal : plan::resolve(two_nodes(), spec).feasibility.refusals) {
      found.push_back(refusal.rule);
    }
    return found;
  };
  config::PlanSpec spec = spec_of(1, 8, 0);
  spec.overlap.tensor_parallel = TensorParallelOverlap::ring_exchange;
  CHECK(rules(spec).empty());
  spec.tensor_parallel_sequence = false;
  CHECK(rules(spec) == std::vector<std::string>{"tensor-overlap-sequence"});
  spec = spec_of(1, 16, 0);
  spec.overlap.tensor_parallel = TensorParallelOverlap::ring_exchange;
  CHECK(rules(spec) == std::vector<std::string>{"tensor-overlap-in-node"});
  spec.overlap.tensor_parallel = TensorParallelOverlap::bulk;
  CHECK(rules(spec).empty());
  spec = spec_of(8, 1, 0);  // nothing to overlap: a default of the study for all its plans
  spec.overlap.tensor_parallel = TensorParallelOverlap::ring_exchange;
  CHECK(rules(spec).empty());
}

}  // namespace
}  // namespace trireme
