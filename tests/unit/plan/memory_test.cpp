// Memory of the plans: states, what a layer saves, and the loss, per rank.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/head.h"
#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

constexpr std::int64_t kRanks = 8;
constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kSequence = 32 * kKiB;
constexpr std::int64_t kShard = kSequence * kHidden * 2 / kRanks;  // N / P: 8 MiB
// Log-sum-exp: one fp32 per token and head of a rank.
constexpr std::int64_t kLogSumExp = 4 * kSequence * kHeads / kRanks;

/// What one more layer adds to the peak, beyond its resident states.
Bytes saved_per_layer(plan::Plan plan) {
  plan.model.layers = 6;
  const Bytes six = peak_above_resident(plan);
  plan.model.layers = 7;
  return peak_above_resident(plan) - six;
}

TEST_CASE("a GELU layer saves 16 N/P under Megatron, one attention output more under Ulysses",
          "[plan]") {
  const plan::ModelShape model = gelu_model(1, kHidden, kHeads);
  // x, norm, QKV (3), o; between the blocks, norm, up (4), activation (4): 16.
  const Bytes megatron_layer(16 * kShard + kLogSumExp);
  CHECK(saved_per_layer(megatron(model, kRanks, kSequence)) == megatron_layer);
  CHECK(saved_per_layer(ulysses(model, kRanks, kSequence)) == megatron_layer + Bytes(kShard));
  CHECK(saved_per_layer(hybrid(model, kRanks, kSequence, false)) == megatron_layer + Bytes(kShard));

  SECTION("gathered parameters that are kept are one more thing to save") {
    // Attention's 4 h^2 in bf16: 8 MiB; with the MLP's 8 h^2 and 4 h of norms on top.
    CHECK(saved_per_layer(hybrid(model, kRanks, kSequence, true)) ==
          megatron_layer + Bytes(kShard + 8 * kMiB));
    CHECK(saved_per_layer(ulysses_zero3(model, kRanks, kSequence, false)) ==
          megatron_layer + Bytes(kShard));
    CHECK(saved_per_layer(ulysses_zero3(model, kRanks, kSequence, true)) ==
          megatron_layer + Bytes(kShard + 24 * kMiB + 4 * kHidden * 2));
  }
  SECTION("the naive gather saves the gathered input and the keys and values of all") {
    // Of 16 N/P, K and V (2) become whole (16), and the whole input (8) is kept.
    CHECK(saved_per_layer(sequence_gather(model, kRanks, kSequence)) ==
          Bytes((14 + 16 + 8) * kShard + kLogSumExp));
  }
  SECTION("without sequence parallelism x, both norms and what lies between are whole") {
    CHECK(saved_per_layer(megatron(model, kRanks, kSequence, false)) ==
          Bytes((12 + 4 * kRanks) * kShard + kLogSumExp));
  }
  SECTION("full recomputation saves one residual a layer") {
    for (plan::Plan plan : {megatron(model, kRanks, kSequence),
                            ulysses(model, kRanks, kSequence),
                            hybrid(model, kRanks, kSequence, false),
                            sequence_gather(model, kRanks, kSequence)}) {
      CAPTURE(plan.name);
      plan.recompute_layers = true;
      CHECK(saved_per_layer(plan) == Bytes(kShard));
    }
  }
}

TEST_CASE("a SwiGLU layer with grouped heads saves what TransformerEngine's does", "[plan]") {
  plan::ModelShape model = gelu_model(1, kHidden, kHeads);
  model.kv_heads = 8;
  model.head_dim = 96;  // a d = 1,536 is not h
  model.mlp_kind = config::MlpKind::swiglu;
  model.mlp_width = 2816;
  model.norm = config::NormKind::rmsnorm;
  model.rotary = true;
  const std::int64_t batch = 3;
  // (2 s b / t) (4 h + (2 a + 2 g) d + 3 f) + 4 s b a / t
  //   = (2 * 32,768 * 3 / 8) * (4,096 + 48 * 96 + 8,448) + 4 * 32,768 * 3 * 16 / 8
  const std::int64_t tokens = kSequence * batch / kRanks;
  const Bytes expected(2 * tokens * (4096 + 4608 + 8448) + 4 * tokens * 16);
  plan::Plan plan = megatron(model, kRanks, kSequence);
  plan.micro_batch = batch;
  CHECK(saved_per_layer(plan) == expected);
  // Ulysses: the exchanged attention output, a d, on top.
  plan = ulysses(model, kRanks, kSequence);
  plan.micro_batch = batch;
  CHECK(saved_per_layer(plan) == expected + Bytes(2 * tokens * 1536));
}

// The same with s of a context-parallel rank, S / cp, keys and values of which it holds its own.
TEST_CASE("Megatron's activations shrink with context parallelism, grouped heads too", "[plan]") {
  plan::ModelShape model = gelu_model(1, kHidden, kHeads);
  model.kv_heads = 8;
  model.head_dim = 96;
  model.mlp_kind = config::MlpKind::swiglu;
  model.mlp_width = 2816;
  model.norm = config::NormKind::rmsnorm;
  model.rotary = true;
  for (const std::int64_t context : {1, 2, 4}) {
    plan::Plan plan = megatron(model, kRanks, kSequence);
    plan.ring_degree = context;
    plan.ring = config::RingImplementation::transformer_engine;
    plan.order = config::RingOrder::zigzag;
    CAPTURE(context);
    const std::int64_t tokens = kSequence / context / kRanks;
    CHECK(saved_per_layer(plan) == Bytes(2 * tokens * (4096 + 4608 + 8448) + 4 * tokens * 16));
  }
}

TEST_CASE("states take 18 bytes a parameter with fp32 gradients and 16 with bf16", "[plan]") {
  // Per layer 12 h^2 of matrices and 4 h of norms, all multiples of 8.
  const plan::ModelShape model = gelu_model(2, kHidden, kHeads);
  const std::int64_t parameters = 2 * (12 * kHidden * kHidden + 4 * kHidden);

  struct Stage {
    std::int64_t stage;
    std::int64_t parameter_shards;
    std::int64_t gradient_shards;
    std::int64_t optimizer_shards;
  };

  const Stage row =
      GENERATE(Stage{0, 1, 1, 1}, Stage{1, 1, 1, 8}, Stage{2, 1, 8, 8}, Stage{3, 8, 8, 8});
  const auto gradient_type = GENERATE(ElementType::fp32, ElementType::bf16);
  CAPTURE(row.stage, name(gradient_type));
  plan::Plan plan =
      GENERATE_COPY(ulysses(model, kRanks, kSequence), data_parallel(model, kRanks, kSequence, 0));
  CAPTURE(plan.name);
  plan.zero_stage = row.stage;
  plan.gradient_type = gradient_type;
  const program::Program program = plan::lower(plan);
  const std::int64_t gradient_width = gradient_type == ElementType::fp32 ? 4 : 2;
  const std::int64_t weights = 2 * parameters / row.parameter_shards;
  const std::int64_t gradients = gradient_width * parameters / row.gradient_shards;
  const std::int64_t states = 12 * parameters / row.optimizer_shards;
  CHECK(resident(program, program::Role::parameter) == Bytes(weights));
  CHECK(resident(program, program::Role::gradient) == Bytes(gradients));
  CHECK(resident(program, program::Role::optimizer_state) == Bytes(states));
  CHECK(engine::read_peak(program).resident == Bytes(weights + gradients + states));
}

TEST_CASE("the distributed optimizer of tensor-parallel ranks: 6 + 12/dp", "[plan]") {
  const plan::ModelShape model = gelu_model(1, kHidden, kHeads);
  plan::Plan plan = megatron(model, 4, kSequence);
  plan.data_degree = 2;
  plan.zero_stage = 1;
  // A quarter of the 12 h^2 of matrices, the 4 h of norms whole.
  const std::int64_t parameters = 12 * kHidden * kHidden / 4 + 4 * kHidden;
  CHECK(engine::read_peak(plan::lower(plan)).resident == Bytes(parameters * (6 + 12 / 2)));
}

TEST_CASE("a hybrid shards attention's states alone", "[plan]") {
  const plan::ModelShape model = gelu_model(1, kHidden, kHeads);
  plan::Plan plan = hybrid(model, 4, kSequence, true);
  plan.data_degree = 2;
  const program::Program program = plan::lower(plan);
  // Attention over all 8 ranks, the MLP over 4 by its features, norms nowhere: 18 bytes each.
  const std::int64_t parameters =
      4 * kHidden * kHidden / 8 + 8 * kHidden * kHidden / 4 + 4 * kHidden;
  CHECK(engine::read_peak(program).resident == Bytes(18 * parameters));
}

// A vocabulary so large that memory peaks in the loss: V 262,144, h 128, 1,024 tokens a rank.
constexpr std::int64_t kVocabulary = 256 * kKiB;
constexpr std::int64_t kLocalTokens = 1024;

plan::ModelShape wide_vocabulary() {
  plan::ModelShape model = gelu_model(1, 128, 8);
  model.vocabulary = kVocabulary;
  return model;
}

Bytes loss_at_peak(const plan::Plan& plan) {
  return engine::read_memory(plan::lower(plan)).by_item[ledger::index(MemoryItem::logits_and_loss)];
}

TEST_CASE("bytes a logit of each loss at the peak", "[plan]") {
  constexpr std::int64_t kLogits = kLocalTokens * kVocabulary;
  constexpr std::int64_t kLoss = 4;  // the loss itself
  constexpr std::int64_t kTokens = kLocalTokens * kRanks;

  SECTION("eager: fp32 logits, log-probabilities and gradient, 12") {
    plan::Plan plan = ulysses(wide_vocabulary(), kRanks, kTokens);
    plan.loss = config::LossKind::eager;
    CHECK(loss_at_peak(plan) == Bytes(12 * kLogits + 8 * kLocalTokens + kLoss));
  }
  SECTION("fused: the bf16 logits of one chunk") {
    plan::Plan plan = ulysses(wide_vocabulary(), kRanks, kTokens);
    plan.loss = config::LossKind::fused;
    // ceil(V / h) = 2,048 parts of 1,024 tokens: one token a chunk, 512 KiB of 512 MiB.
    CHECK(loss_at_peak(plan) == Bytes(2 * kVocabulary + 8 * kLocalTokens + kLoss));
  }
  SECTION("Megatron's own: fp32 softmax and bf16 gradient, 6, of a part of the vocabulary") {
    plan::Plan plan = megatron(wide_vocabulary(), kRanks, kTokens);
    plan.loss = config::LossKind::vocabulary_parallel;
    // Labels of every token. The largest logit and the two sums are gone by then.
    CHECK(loss_at_peak(plan) == Bytes(6 * kLogits + 8 * kTokens + kLoss));
  }
  SECTION("TransformerEngine: bf16 in place, 2, while the head's backward pass reads it") {
    plan::Plan plan = megatron(wide_vocabulary(), kRanks, kTokens);
    plan.loss = config::LossKind::fused;
    CHECK(loss_at_peak(plan) == Bytes(2 * kLogits + kLoss));
  }
}

TEST_CASE("chunks of the fused loss follow Liger's rule", "[plan]") {
  struct Case {
    std::int64_t tokens;  // of a rank
    std::int64_t vocabulary;
    std::int64_t hidden;
    std::int64_t chunk;
    std::int64_t count;
    std::int64_t last;
  };

  // Chunk 2^ceil(log2(T / ceil(V / h))), at most T. The first row is the source's own example.
  const Case row = GENERATE(Case{16384, 32000, 4096, 2048, 8, 2048},
                            Case{16384, 128256, 4096, 512, 32, 512},  // 32 parts of 512
                            Case{16385, 128256, 4096, 1024, 17, 1},   // 513 rounds up
                            Case{100, 50257, 12288, 32, 4, 4},        // 5 parts of 20
                            Case{7, 100, 4096, 7, 1, 7},              // one part, 8 capped at 7
                            Case{1, 1000000, 8, 1, 1, 1});
  plan::Plan plan = ulysses(gelu_model(1, row.hidden, 8), 1, row.tokens);
  plan.model.vocabulary = row.vocabulary;
  const plan::Chunks chunks = plan::fused_loss_chunks(plan);
  CHECK(chunks.sequence == row.chunk);
  CHECK(chunks.count == row.count);
  CHECK(chunks.last == row.last);

  SECTION("a rank's tokens are its part of the sequence") {
    plan.group_degree = 8;
    plan.sequence = 8 * row.tokens;
    CHECK(plan::fused_loss_chunks(plan).sequence == row.chunk);
  }
}

TEST_CASE("the loss reads each token once, whatever the chunks", "[plan]") {
  // 1,000 tokens and 3 parts: chunks of 512 and 488.
  plan::Plan plan = ulysses(gelu_model(1, 128, 8), 1, 1000);
  plan.model.vocabulary = 300;
  const double tokens = 1000;
  const double head = 6 * tokens * 128 * 300;
  const Flops with = engine::read_flops(plan::lower(plan)).model;
  plan.model.vocabulary = 0;
  CHECK((with - engine::read_flops(plan::lower(plan)).model).value() == head);
}

TEST_CASE("temporaries of attention: the gathered input, and workspaces of the kernels", "[plan]") {
  const auto workspace_bytes = [](const plan::Plan& plan) {
    const program::Program program = plan::lower(plan);
    std::int64_t bytes = 0;
    for (const program::Tensor& tensor : program.tensors()) {
      bytes += tensor.role == program::Role::workspace ? tensor.local_bytes().value() : 0;
    }
    return bytes;
  };
  plan::ModelShape model = gelu_model(1, kHidden, kHeads);  // d = 64
  const std::int64_t tokens_times_heads = kSequence * kHeads / kRanks;
  const std::int64_t accumulator = 4 * tokens_times_heads * 64;  // fp32 query gradient
  const std::int64_t row_sums = 4 * tokens_times_heads;
  plan::Plan plan = ulysses(model, kRanks, kSequence);
  const auto kernel = GENERATE(config::AttentionKernel::flash2,
                               config::AttentionKernel::flash3,
                               config::AttentionKernel::cudnn);
  plan.kernel = kernel;
  // FlashAttention-3 keeps the log-sum-exp in base 2 as well.
  const std::int64_t base2 = kernel == config::AttentionKernel::flash3 ? row_sums : 0;
  CHECK(workspace_bytes(plan) == accumulator + row_sums + base2);

  plan.model.kv_heads = kHeads / 2;
  std::int64_t grouped = 0;
  if (kernel == config::AttentionKernel::flash2) {  // bf16 dK and dV of every query head
    grouped = 2 * 2 * tokens_times_heads * 64;
  } else if (kernel == config::AttentionKernel::flash3) {  // fp32 dK and dV of every group
    grouped = 2 * 4 * tokens_times_heads / 2 * 64;
  }
  CHECK(workspace_bytes(plan) == accumulator + row_sums + base2 + grouped);
}

TEST_CASE("memory is back at its level after the step, for every composition", "[plan]") {
  plan::ModelShape model = gelu_model(3, 256, 16);
  model.vocabulary = GENERATE(0, 1000);
  model.tied_embeddings = model.vocabulary > 0 && GENERATE(false, true);
  std::vector<plan::Plan> plans;
  for (const auto attention : {plan::AttentionLowering::megatron,
                               plan::AttentionLowering::ulysses,
                               plan::AttentionLowering::sequence_gather}) {
    for (const auto mlp : {plan::MlpLowering::megatron, plan::MlpLowering::replicated}) {
      for (const bool shards : {true, false}) {
        const bool tensor = attention == plan::AttentionLowering::megatron;
        if (tensor != (mlp == plan::MlpLowering::megatron) && (tensor || !shards)) {
          continue;  // tensor-parallel attention comes with a tensor-parallel MLP
        }
        if (!tensor && !shards) {
          continue;
        }
        plan::Plan plan = ulysses(model, 4, 512);
        plan.attention = attention;
        plan.mlp = mlp;
        plan.sequence_sharded = shards;
        plans.push_back(plan);
      }
    }
  }
  CHECK(plans.size() == 6);
  for (plan::Plan& plan : plans) {
    for (const std::int64_t stage : {0, 1, 2, 3}) {
      for (const std::int64_t micro_batches : {1, 2}) {
        for (const bool recompute : {false, true}) {
          for (const auto loss : {config::LossKind::eager, config::LossKind::fused}) {
            plan.zero_stage = stage;
            plan.data_degree = 2;
            plan.micro_batches = micro_batches;
            plan.recompute_layers = recompute;
            plan.loss = loss;
            CAPTURE(static_cast<int>(plan.attention),
                    static_cast<int>(plan.mlp),
                    stage,
                    micro_batches,
                    recompute,
                    static_cast<int>(loss));
            const program::Program program = plan::lower(plan);
            CHECK(engine::read_net_memory(program) == Bytes(0));
            CHECK(engine::read_peak(program).allocated > engine::read_peak(program).resident);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
