#include "sim/plan/framework_buffers.h"

#include <string>
#include <vector>

#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/recipes.h"
#include "tests/catch.h"

namespace trireme {
namespace {

/// Two layers of h = 8 with 4 heads of 2, 2 of keys and values, f = 24, V = 64, S = 16.
plan::Plan small(std::int64_t tensor) {
  plan::Plan plan;
  plan.model.layers = 2;
  plan.model.hidden = 8;
  plan.model.heads = 4;
  plan.model.kv_heads = 2;
  plan.model.head_dim = 2;
  plan.model.mlp_width = 24;
  plan.model.vocabulary = 64;
  plan.sequence = 16;
  plan.group_degree = tensor;
  plan.attention = plan::AttentionLowering::megatron;
  plan.mlp = plan::MlpLowering::megatron;
  return plan;
}

Bytes resident_in(const program::Program& program, MemoryItem item) {
  Bytes bytes;
  for (const program::Tensor& tensor : program.tensors()) {
    if (tensor.resident && tensor.storage == program::Storage::own &&
        program::memory_item(tensor) == item) {
      bytes += program.resident_instances(tensor) * tensor.local_bytes();
    }
  }
  return bytes;
}

TEST_CASE("TransformerEngine holds one gradient placeholder per shape of weight", "[unit]") {
  plan::Plan plan = small(2);
  CHECK(resident_in(plan::lower(plan), MemoryItem::workspaces) == Bytes(0));
  plan.transformer_engine = true;
  // On each of 2 ranks, 2 bytes: qkv (4 + 2 * 2) * 2 / 2 x 8, output 8 x 8 / 2, up 48 / 2 x 8, down
  // 8 x 24 / 2; none for each layer.
  CHECK(resident_in(plan::lower(plan), MemoryItem::workspaces) ==
        Bytes(2 * (8 * 8 + 8 * 4 + 24 * 8 + 8 * 12)));
  // With one rank the head's output and a square qkv of a model without groups share a shape.
  plan::Plan equal = small(1);
  equal.transformer_engine = true;
  equal.model.mlp_kind = config::MlpKind::gelu;
  equal.model.mlp_width = 8;
  // qkv 16 x 8; output, up and down are 8 x 8.
  CHECK(resident_in(plan::lower(equal), MemoryItem::workspaces) == Bytes(2 * (16 * 8 + 8 * 8)));
}

TEST_CASE("Megatron Core's gathered head input stays, and is one", "[unit]") {
  plan::Plan plan = small(2);
  plan.transformer_engine = true;
  // B S h of 2 bytes, whole on both ranks.
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) == Bytes(2 * 16 * 8));
  plan.sequence_sharded = false;  // then nothing is gathered
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) == Bytes(0));
}

TEST_CASE("stages behind the first hold the gradient that they sent last", "[unit]") {
  plan::Plan plan = small(1);
  plan.pipeline_degree = 2;
  plan.schedule = plan::PipelineSchedule::one_forward_one_backward;
  plan.transformer_engine = true;
  const std::vector<program::Program> stages = plan::lower_stages(plan);
  CHECK(resident_in(stages.front(), MemoryItem::communication_buffers) == Bytes(0));
  // B S h of 2 bytes.
  CHECK(resident_in(stages.back(), MemoryItem::communication_buffers) == Bytes(2 * 16 * 8));
}

TEST_CASE("experts of one shape share one gradient placeholder", "[unit]") {
  plan::Plan plan = small(1);
  plan.transformer_engine = true;
  plan.model.layers = 1;
  plan.model.experts = config::Experts{.count = 4, .per_token = 2, .width = 6};
  // On one rank, 2 bytes: qkv (4 + 2 * 2) * 2 x 8, output 8 x 8, up 2 * 6 x 8 and down 8 x 6 of an
  // expert; none of the router, 4 x 8.
  CHECK(resident_in(plan::lower(plan), MemoryItem::workspaces) ==
        Bytes(2 * (16 * 8 + 8 * 8 + 12 * 8 + 8 * 6)));
}

TEST_CASE("DeepSpeed's buckets are as large as stated, a sorted copy as what fills one", "[unit]") {
  plan::Plan plan = small(1);
  plan.attention = plan::AttentionLowering::ulysses;
  plan.mlp = plan::MlpLowering::replicated;
  plan.reduce_bucket = {.elements = 1000, .type = ElementType::bf16, .buffers = 2};
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) == Bytes(2 * 2 * 1000));
  plan.reduce_bucket = {.elements = 1000, .type = ElementType::fp32, .buffers = 1, .sorted = true};
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) ==
        Bytes(4 * (1000 + 1000)));
  // All parameters: 64 x 8 twice, two layers of norms 2 x 8, qkv 16 x 8, output 8 x 8, up 48 x 8
  // and down 8 x 24, and the last norm, 8.
  constexpr std::int64_t kAll = 2 * 64 * 8 + 2 * (2 * 8 + 16 * 8 + 8 * 8 + 48 * 8 + 8 * 24) + 8;
  plan.reduce_bucket.elements = 100'000;
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) ==
        Bytes(4 * (100'000 + kAll)));
}

TEST_CASE("what is not modelled of a framework's memory is said", "[unit]") {
  plan::Plan plan = small(1);
  CHECK(plan::remarks_on_framework(plan).empty());
  plan.framework = config::Framework::megatron;
  CHECK(plan::remarks_on_framework(plan).size() == 1);
  plan.transformer_engine = true;
  CHECK(plan::remarks_on_framework(plan).empty());
  for (const auto framework : {config::Framework::deepspeed, config::Framework::torchtitan}) {
    plan.framework = framework;
    CHECK(plan::remarks_on_framework(plan).size() == 1);
  }
}

plan::Plan nanotron(std::int64_t layers) {
  plan::Plan plan = small(2);
  plan.framework = config::Framework::nanotron;
  plan.modules = plan::modules_of(plan);
  plan.model.kv_heads = 4;
  plan.model.layers = layers;
  plan.micro_batch = 64;  // activations are most of the memory
  plan.loss = config::LossKind::vocabulary_parallel;
  return plan;
}

TEST_CASE("a layer of nanotron keeps 20 h and 8 f bytes of a token", "[unit]") {
  const auto peak = [](std::int64_t layers) {
    return engine::read_memory(plan::lower(nanotron(layers))).allocated;
  };
  // Of 16 tokens in 64 sequences on 2 ranks. Norms: inputs and outputs, four of 2 h. Attention: the
  // projection 2 (3 h), keys and values again 2 (2 h), the output 2 h, 4 a of log-sum-exp. MLP:
  // gate and up 2 (2 f), SiLU 2 f, product 2 f.
  constexpr std::int64_t kTokens = 16 * 64;
  constexpr std::int64_t kSaved = kTokens * (20 * 8 + 8 * 24 + 4 * 4) / 2;
  // Weights of 2 bytes, gradients and three states of 4, each half; norms whole: 4 8 8 + 3 8 24.
  constexpr std::int64_t kStates = 18 * ((4 * 8 * 8 + 3 * 8 * 24) / 2 + 2 * 8);
  CHECK(peak(4) - peak(3) == Bytes(kSaved + kStates));
}

TEST_CASE("nanotron's tokens are gathered into two buffers, or kept", "[unit]") {
  plan::Plan plan = nanotron(2);
  // B S h of 2 bytes each.
  const Bytes one(2 * 64 * 16 * 8);
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) == 2 * one);
  plan.gathers_again = false;
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) == one);
}

TEST_CASE("DistributedDataParallel has a bucket for every gradient", "[unit]") {
  plan::Plan plan = nanotron(2);
  plan.data_degree = 2;
  plan.modules.gathers_into_buffers = false;
  plan.modules.reduction_buckets = true;
  // 2 bytes: half of 256 x 8 twice (rows are padded to 128 a rank), of two layers of qkv 24 x 8,
  // output 8 x 8, up 48 x 8 and down 8 x 24; norms whole.
  constexpr std::int64_t kAll = (2 * 256 * 8 + 2 * (24 * 8 + 8 * 8 + 48 * 8 + 8 * 24)) / 2 + 5 * 8;
  CHECK(resident_in(plan::lower(plan), MemoryItem::communication_buffers) == Bytes(2 * kAll));
}

TEST_CASE("states of the optimizer are those of its recipe", "[unit]") {
  plan::Plan plan = small(1);
  const auto states = [&] { return resident_in(plan::lower(plan), MemoryItem::optimizer).value(); };
  const std::int64_t weights = states() / 12;
  plan.states = {.main_weights = true, .moments = ElementType::bf16};
  CHECK(states() == 8 * weights);
  plan.states = {.main_weights = true, .moments = ElementType::int8};
  CHECK(states() == 6 * weights);
  plan.states = {.main_weights = false, .moments = ElementType::bf16};
  CHECK(states() == 4 * weights);
}

TEST_CASE("weights of few elements stay gathered under DeepSpeed's ZeRO-3", "[unit]") {
  plan::Plan plan = small(1);
  plan.attention = plan::AttentionLowering::ulysses;
  plan.mlp = plan::MlpLowering::replicated;
  plan.data_degree = 4;
  plan.zero_stage = 3;
  const Bytes sharded = resident_in(plan::lower(plan), MemoryItem::parameters);
  plan.persistent_elements = 8;  // norms: two of a layer and the last, 5 of 8 elements of 2 bytes
  CHECK(resident_in(plan::lower(plan), MemoryItem::parameters) - sharded ==
        Bytes(5 * (8 - 8 / 4) * 2));
}

TEST_CASE("workspaces of libraries are as large as the plan says", "[unit]") {
  plan::Plan plan = small(2);
  plan.library_workspaces = Bytes(12345);
  CHECK(resident_in(plan::lower(plan), MemoryItem::workspaces) == Bytes(12345));
}

TEST_CASE("the empty gradient of the head is there at the end of its backward pass", "[unit]") {
  plan::Plan plan = small(1);
  plan.attention = plan::AttentionLowering::ulysses;
  plan.mlp = plan::MlpLowering::replicated;
  plan.model.vocabulary = 8192;  // so that the head is where memory is fullest
  plan.sequence = 4096;          // fewer: the empty gradient is larger than the head's input
  plan.transformer_engine = true;
  const program::Program program = plan::lower(plan);
  const ledger::MemoryLedger memory = engine::read_memory(program);
  CHECK(memory.instant == "backward, head: gradient placeholder");
  // Its 8,192 x 8 elements of 2 bytes beside those of the layers: qkv 16 x 8, output 8 x 8, up 48 x
  // 8 and down 8 x 24.
  CHECK(memory.by_item[ledger::index(MemoryItem::workspaces)] ==
        Bytes(2 * (8192 * 8 + 16 * 8 + 8 * 8 + 48 * 8 + 8 * 24)));
  // Logits are there once, at 2 bytes: their gradient replaces them. Labels of 8 bytes died.
  CHECK(memory.by_item[ledger::index(MemoryItem::logits_and_loss)] == Bytes(4096 * 8192 * 2 + 4));
}

TEST_CASE("every buffer has its source", "[unit]") {
  for (const plan::FrameworkBuffer& buffer : plan::framework_buffers()) {
    CAPTURE(buffer.name);
    CHECK_FALSE(buffer.bibliography_key.empty());
    CHECK_FALSE(buffer.description.empty());
  }
}

}  // namespace
}  // namespace trireme
