// Which plans are refused, with what words, and what is accepted at the border of each rule.
#include "sim/plan/legality.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/words.h"
#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;
using config::Framework;

/// The messages of `rule` on a plan; empty when the rule is kept or does not apply.
std::vector<std::string> messages(const plan::Plan& plan, std::string_view rule) {
  Feasibility feasibility;
  plan::check_rules(plan, feasibility);
  std::vector<std::string> found;
  for (const Refusal& refusal : feasibility.refusals) {
    if (refusal.rule == rule) {
      found.push_back(refusal.message);
    }
  }
  return found;
}

bool legal(const plan::Plan& plan) {
  Feasibility feasibility;
  plan::check_rules(plan, feasibility);
  return feasibility.legal();
}

using Messages = std::vector<std::string>;

plan::Plan ulysses_of(std::int64_t heads, std::int64_t kv_heads, Framework framework) {
  plan::Plan plan = ulysses(gelu_model(1, 4096, 32), 8, 32 * kKiB);
  plan.model.heads = heads;
  plan.model.kv_heads = kv_heads;
  plan.framework = framework;
  return plan;
}

TEST_CASE("every legality rule has a name of its own, words and a source", "[plan]") {
  std::set<std::string_view> names;
  for (const plan::LegalityRule* const rule : plan::legality_rules()) {
    CAPTURE(rule->name);
    CHECK(names.insert(rule->name).second);
    CHECK(!rule->description.empty());
    CHECK(!rule->bibliography_key.empty());
  }
  CHECK(names.size() == 17);
}

TEST_CASE("every stack has a name of its own and rules of the table", "[plan]") {
  std::set<std::string_view> names;
  std::set<std::string_view> used;
  for (const plan::LegalityStack& stack : plan::legality_stacks()) {
    CAPTURE(stack.name);
    CHECK(names.insert(stack.name).second);
    CHECK(!stack.title.empty());
    CHECK(stack.rules.size() >= 2);  // the number of GPUs, and one of its own
    for (const plan::LegalityRule* const rule : stack.rules) {
      used.insert(rule->name);
    }
  }
  CHECK(names.size() == 9);
  CHECK(used.size() == plan::legality_rules().size());  // none is listed without a stack
}

TEST_CASE("Ulysses never splits a query head", "[plan]") {
  const std::string rule = "ulysses-query-heads";
  CHECK(messages(ulysses_of(32, 32, Framework::generic), rule).empty());
  CHECK(messages(ulysses_of(8, 8, Framework::generic), rule).empty());  // one head a rank
  CHECK(messages(ulysses_of(36, 36, Framework::generic), rule) ==
        Messages{"the number of query heads (36) is not a multiple of 8"});
  CHECK(messages(ulysses_of(4, 4, Framework::generic), rule) ==
        Messages{"the number of query heads (4) is not a multiple of 8"});
  CHECK(messages(ulysses_of(36, 36, Framework::deepspeed), rule) ==
        Messages{"the number of query heads (36) is not a multiple of 8"});

  SECTION("DeepSpeed's legacy attention allows uneven heads, which are not modelled") {
    CHECK(messages(ulysses_of(36, 36, Framework::deepspeed_legacy), "not-modelled") ==
          Messages{"36 query heads over 8 ranks are uneven, which is not modelled yet"});
    CHECK(
        messages(ulysses_of(36, 36, Framework::deepspeed_legacy), "ulysses-uneven-heads").empty());
    CHECK(messages(ulysses_of(4, 4, Framework::deepspeed_legacy), "ulysses-uneven-heads") ==
          Messages{"the number of query heads (4) is not a multiple of 8"});
    CHECK(legal(ulysses_of(40, 40, Framework::deepspeed_legacy)));
    // Its exchange has one number of heads for all: grouped key/value heads have to divide.
    CHECK(messages(ulysses_of(40, 4, Framework::deepspeed_legacy), "ulysses-uneven-kv-heads") ==
          Messages{"the number of key/value heads (4) is not a multiple of 8"});
  }
  SECTION("one rank exchanges nothing") {
    plan::Plan plan = ulysses_of(7, 7, Framework::generic);
    plan.group_degree = 1;
    CHECK(legal(plan));
  }
}

TEST_CASE("Ulysses and key/value heads", "[plan]") {
  const std::string rule = "ulysses-kv-heads";
  const std::string refused = "the number of key/value heads (4) is not a multiple of 8";
  CHECK(messages(ulysses_of(32, 8, Framework::generic), rule).empty());
  CHECK(messages(ulysses_of(32, 16, Framework::generic), rule).empty());
  for (const Framework framework : {Framework::generic, Framework::deepspeed, Framework::verl}) {
    CHECK(legal(ulysses_of(32, 4, framework)));
  }
  // These stacks do not repeat heads.
  CHECK(messages(ulysses_of(32, 4, Framework::prime_rl), "ulysses-whole-kv-heads") ==
        Messages{refused});
  CHECK(messages(ulysses_of(32, 4, Framework::megatron), "context-kv-heads") == Messages{refused});
  CHECK(messages(ulysses_of(48, 12, Framework::generic), rule) ==
        Messages{"the number of key/value heads (12) is not a multiple of 8"});

  SECTION("as many as query heads are a multiple whatever they were") {
    plan::Plan plan = ulysses_of(48, 12, Framework::generic);
    plan.kv_repeat = config::KvRepeat::all_heads;
    CHECK(legal(plan));
    CHECK(plan.exchanged_kv_heads() == 48);
    plan.group_degree = 1;
    CHECK(plan.exchanged_kv_heads() == 12);
  }
}

TEST_CASE("tensor parallelism splits heads and features", "[plan]") {
  const auto of = [](std::int64_t heads, std::int64_t kv_heads, std::int64_t width) {
    plan::Plan plan = megatron(gelu_model(1, 4096, 32), 8, 32 * kKiB);
    plan.model.heads = heads;
    plan.model.kv_heads = kv_heads;
    plan.model.mlp_width = width;
    return plan;
  };
  CHECK(legal(of(32, 8, 16384)));
  CHECK(legal(of(8, 8, 8)));
  CHECK(messages(of(36, 36, 16384), "tensor-query-heads") ==
        Messages{"the number of query heads (36) is not a multiple of 8"});
  CHECK(legal(of(32, 4, 16384)));  // ranks share key/value heads
  plan::Plan odd = of(8, 1, 8);
  odd.model.head_dim = 5;
  CHECK(messages(odd, "tensor-qkv-rows") ==
        Messages{"50 rows of queries, keys and values are not a multiple of 8 tensor-parallel "
                 "ranks"});
  CHECK(messages(of(48, 12, 16384), "tensor-kv-heads") ==
        Messages{"the number of key/value heads (12) is not a multiple of 8"});
  CHECK(messages(of(32, 8, 16383), "tensor-mlp-width") ==
        Messages{"the MLP width (16383) is not a multiple of 8"});
  CHECK(messages(of(32, 8, 16383), "tensor-kv-heads").empty());

  SECTION("the hybrid's MLP too, but not its attention") {
    plan::Plan plan = hybrid(gelu_model(1, 4096, 32), 8, 32 * kKiB, true);
    CHECK(legal(plan));
    plan.model.mlp_width = 12;
    CHECK(messages(plan, "tensor-mlp-width") ==
          Messages{"the MLP width (12) is not a multiple of 8"});
    plan.model.heads = 36;
    CHECK(messages(plan, "tensor-query-heads").empty());
    CHECK(messages(plan, "ulysses-query-heads").size() == 1);
  }
  SECTION("the naive gather splits neither") {
    plan::Plan plan = sequence_gather(gelu_model(1, 4096, 32), 8, 32 * kKiB);
    plan.model.heads = 7;
    plan.model.kv_heads = 7;
    plan.model.mlp_width = 13;
    CHECK(legal(plan));
  }
}

TEST_CASE("the sequence is split into equal parts", "[plan]") {
  const auto message = [](plan::Plan plan, std::int64_t sequence) {
    plan.sequence = sequence;
    Messages found = messages(plan, "sequence-divides");
    const Messages of_tensor_ranks = messages(plan, "tensor-sequence");
    found.insert(found.end(), of_tensor_ranks.begin(), of_tensor_ranks.end());
    return found;
  };
  const plan::ModelShape model = gelu_model(1, 4096, 32);
  const Messages refused{"the sequence (1001) is not a multiple of 8"};
  for (const plan::Plan& plan : {ulysses(model, 8, 1),
                                 megatron(model, 8, 1),
                                 hybrid(model, 8, 1, true),
                                 sequence_gather(model, 8, 1)}) {
    CAPTURE(plan.name);
    CHECK(message(plan, 1001) == refused);
    CHECK(message(plan, 1000).empty());
  }
  CHECK(message(megatron(model, 8, 1, false), 1001).empty());  // sequences stay whole
  CHECK(message(data_parallel(model, 8, 1, 3), 1001).empty());

  SECTION("Megatron's context parallelism takes two halves a rank") {
    plan::Plan plan = ulysses_of(32, 32, Framework::megatron);
    plan.sequence = 24;
    CHECK(messages(plan, "context-parallel-halves") ==
          Messages{"the sequence (24) is not a multiple of 16"});
    plan.sequence = 32;
    CHECK(messages(plan, "context-parallel-halves").empty());
    plan.sequence = 24;
    plan.framework = Framework::deepspeed;
    CHECK(legal(plan));
    plan::Plan tensor = megatron(model, 8, 24);
    tensor.framework = Framework::megatron;
    CHECK(messages(tensor, "context-parallel-halves").empty());
  }
}

TEST_CASE("the vocabulary-parallel loss needs a split head", "[plan]") {
  plan::Plan plan = ulysses(llama_8b(1), 8, 32 * kKiB);
  plan.loss = config::LossKind::vocabulary_parallel;
  CHECK(messages(plan, "vocabulary-parallel-loss") ==
        Messages{"the plan splits no MLP, so its head is whole"});
  plan.mlp = plan::MlpLowering::megatron;
  CHECK(legal(plan));
  plan.mlp = plan::MlpLowering::replicated;
  plan.model.vocabulary = 0;  // no head at all
  CHECK(legal(plan));
  plan.model.vocabulary = 100;
  plan.loss = config::LossKind::fused;
  CHECK(legal(plan));
}

// From here on: resolve(), from what a study says.

template <class T>
Located<T> located(T value) {
  return {value, {}};
}

config::StudySpec study_of(std::int64_t nodes, std::int64_t gpus_per_node) {
  config::StudySpec study;
  config::ModelSpec& model = study.model;
  model.layers = located<std::int64_t>(2);
  model.hidden = located<std::int64_t>(4096);
  model.heads = located<std::int64_t>(32);
  model.kv_heads = located<std::int64_t>(8);
  model.head_dim = located<std::int64_t>(128);
  model.mlp_width = located<std::int64_t>(14336);
  model.vocabulary = located<std::int64_t>(128256);
  study.cluster.nodes = located(nodes);
  study.cluster.gpus_per_node = located(gpus_per_node);
  study.workload.sequence = located(Tokens(32 * kKiB));
  study.workload.micro_batch = located<std::int64_t>(1);
  return study;
}

config::PlanSpec spec_of(std::int64_t ulysses, std::int64_t tensor_parallel) {
  config::PlanSpec spec;
  spec.name = "plan";
  spec.ulysses = located(ulysses);
  spec.sequence_gather = located<std::int64_t>(1);
  spec.ring = located<std::int64_t>(1);
  spec.context_parallel = located<std::int64_t>(1);
  spec.context_exchange = located<std::int64_t>(1);
  spec.tensor_parallel = located(tensor_parallel);
  spec.mlp_tensor_parallel = located<std::int64_t>(1);
  spec.zero.stage = located<std::int64_t>(0);
  spec.pipeline.degree = located<std::int64_t>(1);
  return spec;
}

/// "rule: message" of every refusal.
Messages refusals(const config::StudySpec& study, const config::PlanSpec& spec) {
  Messages found;
  for (const Refusal& refusal : plan::resolve(study, spec).feasibility.refusals) {
    found.push_back(refusal.rule + ": " + refusal.message);
  }
  return found;
}

TEST_CASE("resolve fills in what a plan leaves open", "[plan]") {
  config::StudySpec study = study_of(2, 8);
  study.workload.global_batch = located<std::int64_t>(12);
  config::PlanSpec spec = spec_of(4, 1);
  const plan::Resolution resolution = plan::resolve(study, spec);
  CHECK(resolution.feasibility.legal());
  const plan::Plan& plan = resolution.plan;
  CHECK(plan.group_degree == 4);
  CHECK(plan.data_degree == 4);    // 16 GPUs / 4
  CHECK(plan.micro_batches == 3);  // 12 sequences / 4 ranks
  CHECK(plan.ranks() == 16);
  CHECK(plan.step_tokens() == 12 * 32 * kKiB);
  CHECK(plan.attention == plan::AttentionLowering::ulysses);
  CHECK(plan.mlp == plan::MlpLowering::replicated);
  CHECK(plan.sequence_sharded);
  CHECK(plan.model.hidden == 4096);
  CHECK(plan.model.vocabulary == 128256);

  SECTION("without a global batch every rank has one micro batch") {
    study.workload.global_batch.reset();
    CHECK(plan::resolve(study, spec).plan.micro_batches == 1);
  }
  SECTION("tensor parallelism, with and without sequence parallelism") {
    spec = spec_of(1, 8);
    const plan::Plan tensor = plan::resolve(study, spec).plan;
    CHECK(tensor.attention == plan::AttentionLowering::megatron);
    CHECK(tensor.mlp == plan::MlpLowering::megatron);
    CHECK(tensor.sequence_sharded);
    CHECK(tensor.data_degree == 2);
    spec.tensor_parallel_sequence = false;
    CHECK(!plan::resolve(study, spec).plan.sequence_sharded);
  }
  SECTION("the hybrid") {
    spec.mlp_tensor_parallel = located<std::int64_t>(4);
    const plan::Resolution hybrid = plan::resolve(study, spec);
    CHECK(hybrid.feasibility.legal());
    CHECK(hybrid.plan.attention == plan::AttentionLowering::ulysses);
    CHECK(hybrid.plan.mlp == plan::MlpLowering::megatron);
    CHECK(hybrid.plan.group_degree == 4);
  }
  SECTION("the naive gather") {
    spec = spec_of(1, 1);
    spec.sequence_gather = located<std::int64_t>(8);
    CHECK(plan::resolve(study, spec).plan.attention == plan::AttentionLowering::sequence_gather);
    CHECK(plan::resolve(study, spec).plan.group_degree == 8);
  }
  SECTION("data parallelism alone") {
    study.workload.global_batch.reset();
    const plan::Plan alone = plan::resolve(study, spec_of(1, 1)).plan;
    CHECK(alone.group_degree == 1);
    CHECK(alone.data_degree == 16);
    CHECK(alone.mlp == plan::MlpLowering::replicated);
  }
}

TEST_CASE("frameworks differ in what a plan leaves open", "[plan]") {
  const config::StudySpec study = study_of(1, 8);

  struct Row {
    Framework framework;
    config::GradientReduce reduce;
    bool rows;
  };

  const auto scatter = config::GradientReduce::reduce_scatter;
  const auto all_reduce = config::GradientReduce::all_reduce;
  const Row row = GENERATE_COPY(Row{Framework::generic, scatter, false},
                                Row{Framework::megatron, scatter, false},
                                Row{Framework::deepspeed, all_reduce, false},
                                Row{Framework::deepspeed_legacy, all_reduce, false},
                                Row{Framework::pytorch, scatter, true},
                                Row{Framework::torchtitan, scatter, true},
                                Row{Framework::prime_rl, scatter, true});
  CAPTURE(config::word_for(config::kFrameworkWords, row.framework));
  config::PlanSpec spec = spec_of(8, 1);
  spec.framework = row.framework;
  spec.zero.stage = located<std::int64_t>(2);
  const plan::Resolution resolution = plan::resolve(study, spec);
  CHECK(resolution.feasibility.legal());
  CHECK(resolution.plan.gradient_reduce == row.reduce);
  CHECK(resolution.plan.shard_rows == row.rows);
  CHECK(resolution.plan.gather_after_recompute == !row.rows);
  CHECK(resolution.plan.framework == row.framework);

  spec.zero.reduce = row.reduce == scatter ? all_reduce : scatter;  // stated: as stated
  CHECK(plan::resolve(study, spec).plan.gradient_reduce == *spec.zero.reduce);
}

TEST_CASE("degrees that do not fit the cluster", "[plan]") {
  config::StudySpec study = study_of(2, 8);
  config::PlanSpec spec = spec_of(8, 1);

  spec.data_parallel = located<std::int64_t>(2);
  CHECK(refusals(study, spec).empty());
  spec.data_parallel = located<std::int64_t>(3);
  CHECK(refusals(study, spec) ==
        Messages{"degrees-multiply: the degrees multiply to 24, the cluster has 16 GPUs"});

  study.workload.sequence = located(Tokens(3 * 32 * kKiB));
  spec = spec_of(32, 1);
  CHECK(refusals(study, spec).front() ==
        "degrees-multiply: 16 GPUs are not a multiple of the degree 32");

  SECTION("groups tile nodes") {
    study = study_of(3, 4);
    study.model.heads = located<std::int64_t>(24);
    study.model.kv_heads = located<std::int64_t>(24);
    study.workload.sequence = located(Tokens(48 * kKiB));
    CHECK(refusals(study, spec_of(6, 1)) ==
          Messages{"groups-fill-nodes: groups of 6 ranks do not tile nodes of 4 GPUs"});
    CHECK(refusals(study, spec_of(2, 1)).empty());
    CHECK(refusals(study, spec_of(4, 1)).empty());
    CHECK(refusals(study, spec_of(12, 1)).empty());
  }
  SECTION("batches divide") {
    study = study_of(1, 8);
    study.workload.micro_batch = located<std::int64_t>(3);
    spec = spec_of(4, 1);
    study.workload.global_batch = located<std::int64_t>(12);
    CHECK(refusals(study, spec).empty());
    CHECK(plan::resolve(study, spec).plan.micro_batches == 2);
    study.workload.global_batch = located<std::int64_t>(13);
    CHECK(refusals(study, spec) ==
          Messages{"batches-divide: a global batch of 13 sequences is not a multiple of 6 (micro "
                   "batch 3 on 2 data-parallel ranks)"});
  }
  SECTION("two splits of the sequence") {
    spec = spec_of(8, 1);
    spec.sequence_gather = located<std::int64_t>(8);
    CHECK(refusals(study_of(1, 8), spec) ==
          Messages{"one-sequence-split: ulysses and sequence_gather both split the sequence: "
                   "state one of them"});
  }
  SECTION("an MLP degree of its own") {
    spec = spec_of(8, 1);
    spec.mlp_tensor_parallel = located<std::int64_t>(4);
    CHECK(refusals(study_of(1, 8), spec) ==
          Messages{"hybrid-degree: mlp.tensor_parallel (4) runs over the ranks that split the "
                   "sequence, of which there are 8"});
    spec.mlp_tensor_parallel = located<std::int64_t>(8);
    CHECK(refusals(study_of(1, 8), spec).empty());
    spec = spec_of(1, 8);
    spec.mlp_tensor_parallel = located<std::int64_t>(8);
    CHECK(refusals(study_of(1, 8), spec) ==
          Messages{"hybrid-degree: tensor_parallel already splits the MLP: mlp.tensor_parallel is "
                   "for plans without it"});
  }
}

TEST_CASE("a ring and an exchange, by their own names or as context parallelism", "[plan]") {
  using config::ContextCommunication;
  using config::RingImplementation;
  using config::RingOrder;
  const config::StudySpec study = study_of(2, 8);
  config::PlanSpec spec = spec_of(4, 1);
  spec.ring = located<std::int64_t>(2);
  CHECK(refusals(study, spec).empty());
  plan::Plan plan = plan::resolve(study, spec).plan;
  CHECK(plan.group_degree == 4);
  CHECK(plan.ring_degree == 2);
  CHECK(plan.data_degree == 2);
  CHECK(plan.ring == RingImplementation::ring_flash_attention);
  CHECK(plan.order == RingOrder::zigzag);

  spec = spec_of(2, 2);  // tensor parallelism inside
  spec.ring = located<std::int64_t>(2);
  CHECK(refusals(study, spec).empty());
  plan = plan::resolve(study, spec).plan;
  CHECK(plan.group_degree == 2);
  CHECK(plan.exchange_degree == 2);
  CHECK(plan.ranks() == 16);

  SECTION("Megatron's words") {
    spec = spec_of(1, 2);
    spec.framework = Framework::megatron;
    spec.context_parallel = located<std::int64_t>(4);
    const auto with = [&](ContextCommunication communication, std::int64_t exchange) {
      spec.context_communication = communication;
      spec.context_exchange = located(exchange);
      CHECK(refusals(study, spec).empty());
      return plan::resolve(study, spec).plan;
    };
    plan = with(ContextCommunication::p2p, 1);
    CHECK(plan.ring_degree == 4);
    CHECK(plan.ring == RingImplementation::transformer_engine);
    plan = with(ContextCommunication::all_gather, 1);
    CHECK(plan.ring == RingImplementation::all_gather);
    plan = with(ContextCommunication::a2a, 1);
    CHECK(plan.exchange_degree == 4);
    CHECK(plan.ring_degree == 1);
    plan = with(ContextCommunication::a2a_p2p, 2);
    CHECK(plan.exchange_degree == 2);
    CHECK(plan.ring_degree == 2);
    spec.context_exchange = located<std::int64_t>(3);
    CHECK(refusals(study, spec) ==
          Messages{"context-two-levels: exchange_degree (3) does not divide the degree 4 of "
                   "context_parallel"});
    spec.context_communication = ContextCommunication::a2a;
    spec.context_parallel = located<std::int64_t>(8);  // 4 heads of keys on a tensor rank
    CHECK(refusals(study, spec) ==
          Messages{"context-kv-heads: the key/value heads of a tensor-parallel rank (4 of 8) are "
                   "not a multiple of 8"});
  }
  SECTION("PyTorch's") {
    spec = spec_of(1, 1);
    spec.framework = Framework::torchtitan;
    spec.context_parallel = located<std::int64_t>(8);
    CHECK(plan::resolve(study, spec).plan.ring == RingImplementation::ring_flash_attention);
    spec.context_communication = ContextCommunication::all_gather;
    CHECK(plan::resolve(study, spec).plan.ring == RingImplementation::pytorch);
    CHECK(refusals(study, spec).empty());
  }
  SECTION("not both") {
    spec = spec_of(2, 1);
    spec.context_parallel = located<std::int64_t>(2);
    CHECK(refusals(study, spec).front() ==
          "one-sequence-split: context_parallel stands for ulysses and ring: state one or the "
          "others, without sequence_gather");
    spec = spec_of(1, 1);
    spec.ring = located<std::int64_t>(2);
    spec.sequence_gather = located<std::int64_t>(2);
    CHECK(refusals(study, spec).front() ==
          "one-sequence-split: ring and sequence_gather both split the sequence: state one of "
          "them");
  }
}

TEST_CASE("a ring's parts of the sequence, and its order", "[plan]") {
  using config::RingImplementation;
  using config::RingOrder;
  plan::Plan plan = ulysses(llama_8b(1), 2, 48);
  plan.ring_degree = 4;
  plan.order = RingOrder::zigzag;
  CHECK(legal(plan));  // 48 = 6 x 8
  plan.sequence = 44;
  CHECK(messages(plan, "sequence-divides") == Messages{"the sequence (44) is not a multiple of 8"});
  CHECK(messages(plan, "context-parallel-halves") ==
        Messages{"the sequence (44) is not a multiple of 8"});
  plan.order = RingOrder::striped;
  plan.group_degree = 1;
  CHECK(legal(plan));
  for (const auto kind : {RingImplementation::pytorch, RingImplementation::all_gather}) {
    plan.ring = kind;
    CHECK(messages(plan, "ring-order").size() == 1);
  }
  plan.ring = RingImplementation::transformer_engine;
  plan.order = RingOrder::contiguous;
  CHECK(messages(plan, "ring-order") ==
        Messages{"transformer_engine does not hold causal tokens in contiguous order"});
  plan.causal = false;
  CHECK(legal(plan));

  SECTION("Megatron and PyTorch want two parts of each rank, whatever the order") {
    plan.framework = Framework::megatron;
    CHECK(messages(plan, "context-parallel-halves") ==
          Messages{"the sequence (44) is not a multiple of 8"});
    plan.framework = Framework::torchtitan;
    CHECK(messages(plan, "context-parallel-tensor-halves") ==
          Messages{"the sequence (44) is not a multiple of 8"});
  }
  SECTION("tensor-parallel ranks shard what is left") {
    plan::Plan tensor = megatron(llama_8b(1), 4, 40);
    tensor.ring_degree = 5;
    CHECK(legal(tensor));  // 8 tokens of a ring's rank, 2 of each
    tensor.sequence = 50;
    CHECK(messages(tensor, "tensor-sequence") ==
          Messages{"the sequence of a context-parallel rank (10) is not a multiple of 4"});
  }
}

/// Whether a stack's rules, as `trireme legal` asks them, allow the degree.
bool stack_allows(std::string_view name, const plan::Plan& plan, std::int64_t degree) {
  plan::Degrees degrees;
  degrees.query_heads = plan.model.heads;
  degrees.kv_heads = plan.model.kv_heads;
  degrees.mlp_width = plan.model.mlp_width;
  degrees.degree = degree;
  degrees.tensor = plan.attention == plan::AttentionLowering::megatron ? plan.group_degree : 1;
  degrees.sequence = plan.sequence;
  for (const plan::LegalityStack& stack : plan::legality_stacks()) {
    if (stack.name == name) {
      return std::none_of(stack.rules.begin(), stack.rules.end(), [&](const auto* rule) {
        return !rule->check(degrees).broken.empty();
      });
    }
  }
  FAIL("no stack of that name");
  return false;
}

TEST_CASE("plans with context parallelism and `trireme legal` agree", "[plan]") {
  using config::RingImplementation;
  for (const std::int64_t tensor : {1, 2, 4}) {
    for (const std::int64_t degree : {2, 3, 4, 8, 16}) {
      for (const std::int64_t sequence : {48, 64, 96, 144, 1024}) {
        plan::Plan plan = tensor > 1 ? megatron(llama_8b(1), tensor, sequence)
                                     : ulysses(llama_8b(1), 1, sequence);
        plan.order = config::RingOrder::zigzag;
        CAPTURE(tensor, degree, sequence);
        plan.framework = Framework::megatron;
        plan.ring_degree = degree;
        for (const auto kind :
             {RingImplementation::transformer_engine, RingImplementation::all_gather}) {
          plan.ring = kind;
          CHECK(legal(plan) == stack_allows("megatron p2p, all_gather", plan, degree));
        }
        plan.framework = Framework::torchtitan;
        plan.ring = RingImplementation::pytorch;
        if (tensor == 1) {
          CHECK(legal(plan) == stack_allows("pytorch, torchtitan", plan, degree));
        }
        plan.framework = Framework::megatron;
        plan.ring_degree = 1;
        (tensor > 1 ? plan.exchange_degree : plan.group_degree) = degree;
        CHECK(legal(plan) == stack_allows("megatron a2a", plan, degree));
      }
    }
  }
}

TEST_CASE("several reasons are all given", "[plan]") {
  config::StudySpec study = study_of(1, 8);
  study.model.heads = located<std::int64_t>(36);
  study.model.kv_heads = located<std::int64_t>(36);
  study.workload.sequence = located(Tokens(1001));
  config::PlanSpec spec = spec_of(8, 1);
  spec.data_parallel = located<std::int64_t>(2);
  CHECK(refusals(study, spec).size() == 4);  // degrees, both kinds of heads, the sequence
}

TEST_CASE("what may lie on the host follows from ZeRO and the framework", "[plan]") {
  const config::StudySpec study = study_of(1, 8);
  config::PlanSpec spec = spec_of(8, 1);
  spec.offload.optimizer = true;
  CHECK(refusals(study, spec).empty());
  spec.offload.parameters = true;
  CHECK(refusals(study, spec) ==
        Messages{"offload-parameters: offload.parameters: shards of ZeRO-3 come from the host, and "
                 "the stage is 0"});
  spec.zero.stage.value = 3;
  CHECK(refusals(study, spec).empty());

  config::PlanSpec megatron = spec_of(1, 1);
  megatron.framework = Framework::megatron;
  megatron.tensor_parallel = located<std::int64_t>(8);
  megatron.recompute.granularity = config::Recompute::full;
  CHECK(refusals(study, megatron).empty());
  megatron.recompute.offload_to_host = true;
  CHECK(refusals(study, megatron).size() == 1);
}

TEST_CASE("options that no lowering models are refused by name", "[plan]") {
  using Change = std::function<void(config::PlanSpec&)>;

  struct Row {
    Change change;
    std::string what;
  };

  const std::vector<Row> rows = {
      {[](auto& spec) {
         spec.recompute.granularity = config::Recompute::selective;
         spec.framework = Framework::torchtitan;
       },
       "torchtitan's recomputation by operation"},
      {[](auto& spec) {
         spec.offload.optimizer = true;
         spec.optimizer.recipe = config::OptimizerRecipe::bf16;
       },
       "an optimizer on the host by another recipe than bf16-fp32-main"},
      {[](auto& spec) {
         spec.zero.stage.value = 3;
         spec.offload.parameters = true;
       },
       "parameters on the host with an optimizer on the GPU"},
      {[](auto& spec) { spec.attention = config::AttentionKernel::unfused; }, "unfused attention"},
      {[](auto& spec) {
         spec.zero.reshard = config::Reshard::framework;
         spec.framework = Framework::deepspeed;
       },
       "DeepSpeed's re-gather rule by reuse distance"},
  };
  const config::StudySpec study = study_of(1, 8);
  CHECK(refusals(study, spec_of(8, 1)).empty());
  {
    config::PlanSpec spec = spec_of(8, 1);
    spec.zero.sub_group_size = located<std::int64_t>(1000);
    CHECK(refusals(study, spec).front().starts_with("deepspeed-sizes: "));
    spec.framework = Framework::deepspeed;
    CHECK(refusals(study, spec).empty());
    spec.framework = Framework::megatron;
    spec.zero.sub_group_size.reset();
    spec.tensor_parallel_gather_again = false;
    CHECK(refusals(study, spec).front().starts_with("gathers-again: "));
  }
  for (const Row& row : rows) {
    CAPTURE(row.what);
    config::PlanSpec spec = spec_of(8, 1);
    row.change(spec);
    CHECK(refusals(study, spec) == Messages{"not-modelled: " + row.what + " is not modelled yet"});
  }

  SECTION("tensor parallelism beside the naive gather") {
    config::PlanSpec spec = spec_of(1, 2);
    spec.sequence_gather = located<std::int64_t>(4);
    CHECK(refusals(study, spec).front() ==
          "not-modelled: tensor-parallel attention together with sequence_gather is not modelled "
          "yet");
  }
  SECTION("the framework's re-gather rule where it is the plain one") {
    config::PlanSpec spec = spec_of(8, 1);
    spec.zero.reshard = config::Reshard::framework;
    spec.framework = Framework::torchtitan;
    CHECK(refusals(study, spec).empty());
    CHECK(plan::resolve(study, spec).plan.reshard_after_forward);
    spec.zero.reshard = config::Reshard::keep;
    CHECK(!plan::resolve(study, spec).plan.reshard_after_forward);
  }
}

TEST_CASE("what a model has and no lowering does is refused", "[plan]") {
  struct Case {
    void (*give)(config::ModelSpec& model);
    std::string what;
  };

  const std::vector<Case> cases = {
      {[](auto& model) {
         model.sliding_window = config::SlidingWindow{32 * kKiB - 1, 0};
       },
       "a sliding window shorter than the sequence"},
      {[](auto& model) { model.qk_norm = true; }, "normalisation of queries and keys"},
      {[](auto& model) { model.sinks = true; }, "attention with learned sinks"},
      {[](auto& model) { model.score_softcap = true; }, "attention with softcapped scores"},
      {[](auto& model) { model.alibi = true; }, "attention with ALiBi"},
      {[](auto& model) { model.logit_softcap = true; }, "a softcap of the logits"},
      {[](auto& model) { model.embedding_norm = true; }, "a norm behind the embedding"},
      {[](auto& model) { model.norms_per_layer = 4; }, "a layer with other than two norms"},
      {[](auto& model) { model.parallel_blocks = true; },
       "a layer whose attention and MLP run on one input"},
      {[](auto& model) { model.mlp_kind = config::MlpKind::relu; }, "an MLP with ReLU"},
      {[](auto& model) { model.mlp_kind = config::MlpKind::geglu; }, "an MLP with GEGLU"},
  };
  for (const Case& item : cases) {
    CAPTURE(item.what);
    config::StudySpec study = study_of(1, 8);
    item.give(study.model);
    CHECK(refusals(study, spec_of(8, 1)) ==
          Messages{"not-modelled: " + item.what + " is not modelled yet"});
  }
  config::StudySpec study = study_of(1, 8);
  study.model.sliding_window = config::SlidingWindow{32 * kKiB, 0};  // as long as the sequence
  CHECK(refusals(study, spec_of(8, 1)).empty());
}

TEST_CASE("what the model says reaches the plan", "[plan]") {
  config::StudySpec study = study_of(1, 8);
  study.model.attention_bias = config::BiasKind::qkv;
  study.model.tied_embeddings = true;
  study.model.learned_positions = 2048;
  study.model.norm = config::NormKind::layernorm;
  study.model.mlp_kind = config::MlpKind::gelu;
  study.model.rotary = false;
  const plan::ModelShape model = plan::resolve(study, spec_of(8, 1)).plan.model;
  CHECK(model.qkv_bias);
  CHECK(!model.output_bias);
  CHECK(!model.mlp_bias);
  CHECK(model.tied_embeddings);
  CHECK(model.learned_positions == 2048);
  CHECK(model.norm == config::NormKind::layernorm);
  CHECK(model.mlp_kind == config::MlpKind::gelu);
  CHECK(!model.rotary);
  study.model.attention_bias = config::BiasKind::all;
  CHECK(plan::resolve(study, spec_of(8, 1)).plan.model.output_bias);
}

}  // namespace
}  // namespace trireme
