// The exact byte figures of the reference study and of the frameworks' rules, per rank.
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

constexpr std::int64_t kRanks = 8;

// One block of the reference study: h 4096, 32 heads, S 32,768, B 1, bf16 over 8 ranks.
// N = 32,768 * 4,096 * 2 bytes = 256 MiB. W = 4 * 4,096^2 * 2 bytes = 128 MiB, G = 256 MiB.
plan::ModelShape one_block() {
  return gelu_model(1, 4096, 32);
}

constexpr std::int64_t kOneBlockSequence = 32 * kKiB;

Bytes mib(std::int64_t count) {
  return Bytes(count * kMiB);
}

std::int64_t tensor_bytes(const program::Program& program, std::string_view name) {
  for (const program::Tensor& tensor : program.tensors()) {
    if (program::display_name(tensor) == name) {
      return tensor.local_bytes().value();
    }
  }
  FAIL("no tensor is called " << name);
  return 0;
}

Bytes attention_activations(const program::Program& program) {
  return sent(program, Traffic::activations, Component::attention);
}

Bytes attention_activations(const program::Program& program, Phase phase) {
  return sent(program, Traffic::activations, Component::attention, phase);
}

Bytes attention_gradients(const program::Program& program) {
  return sent(program, Traffic::gradients, Component::attention);
}

Bytes attention_parameters(const program::Program& program) {
  return sent(program, Traffic::parameters, Component::attention);
}

Bytes sent_by_attention(const program::Program& program) {
  return attention_activations(program) + attention_gradients(program) +
         attention_parameters(program);
}

TEST_CASE("one Megatron attention block sends 1,120 MiB a rank", "[plan]") {
  const program::Program program = plan::lower(megatron(one_block(), kRanks, kOneBlockSequence));

  // Each all-gather and reduce-scatter of N = 256 MiB: 256 * 7 / 8 = 224, of all ranks 1.75 GiB.
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, kOneNode)) {
    if (entry.account.traffic == Traffic::activations) {
      CAPTURE(entry.operation);
      CHECK(entry.payload_bytes == mib(256));
      CHECK(entry.sent == mib(224));
      CHECK(kRanks * entry.sent == mib(1792));
    }
  }
  CHECK(attention_activations(program, Phase::forward) == mib(448));
  CHECK(attention_activations(program, Phase::backward) == mib(672));
  CHECK(sent_by_attention(program) == mib(1120));
  CHECK(tensor_bytes(program, "attention input, normed") == 32 * kMiB);
  CHECK(tensor_bytes(program, "attention input, gathered") == 256 * kMiB);
  // The same again for the MLP.
  CHECK(sent(program, Traffic::activations, Component::mlp, Phase::forward) == mib(448));
  CHECK(sent(program, Traffic::activations, Component::mlp, Phase::backward) == mib(672));
}

TEST_CASE("one Ulysses attention block sends 224 MiB of activations a rank", "[plan]") {
  plan::Plan plan = ulysses(one_block(), kRanks, kOneBlockSequence);
  plan.exchange = config::ExchangeKind::separate;
  const program::Program program = plan::lower(plan);

  // Q, K, V and O, each N / P = 32 MiB of which 7 / 8 leave: 28.
  std::int64_t exchanges = 0;
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, kOneNode)) {
    if (entry.account.traffic == Traffic::activations) {
      CAPTURE(entry.operation);
      CHECK(entry.account.collective == CollectiveKind::all_to_all);
      CHECK(entry.sent == mib(28));
      ++exchanges;
    }
  }
  CHECK(exchanges == 8);
  CHECK(attention_activations(program, Phase::forward) == mib(112));
  CHECK(attention_activations(program, Phase::backward) == mib(112));
  CHECK(attention_activations(program) == mib(224));
  // The input stays a shard: nothing of 256 MiB is gathered.
  CHECK(tensor_bytes(program, "attention input, normed") == 32 * kMiB);

  SECTION("weights are replicated: G = 256 MiB is all-reduced") {
    CHECK(tensor_bytes(program, "qkv weight (gradient)") +
              tensor_bytes(program, "attention output weight (gradient)") ==
          256 * kMiB);
    CHECK(attention_gradients(program) == mib(448));
    CHECK(sent_by_attention(program) == mib(672));
  }
  SECTION("a packed exchange sends the same") {
    plan.exchange = config::ExchangeKind::packed;
    const program::Program packed = plan::lower(plan);
    CHECK(attention_activations(packed, Phase::forward) == mib(112));
    CHECK(attention_activations(packed, Phase::backward) == mib(112));
  }
}

TEST_CASE("ZeRO-3 on a Ulysses block adds 336 or 448 MiB", "[plan]") {
  const program::Program kept =
      plan::lower(ulysses_zero3(one_block(), kRanks, kOneBlockSequence, true));
  CHECK(attention_parameters(kept) == mib(112));  // W = 128 MiB, one gather
  CHECK(attention_gradients(kept) == mib(224));   // G = 256 MiB, one reduce-scatter
  CHECK(sent_by_attention(kept) == mib(560));

  const program::Program again =
      plan::lower(ulysses_zero3(one_block(), kRanks, kOneBlockSequence, false));
  CHECK(attention_parameters(again) == mib(224));
  CHECK(attention_gradients(again) == mib(224));
  CHECK(sent_by_attention(again) == mib(672));

  // 1,120 / 672 = 1.67 and 1,120 / 560 = 2.0.
  const Bytes megatron_bytes =
      sent_by_attention(plan::lower(megatron(one_block(), kRanks, kOneBlockSequence)));
  CHECK(ratio(megatron_bytes, sent_by_attention(kept)) == 2.0);
  CHECK(ratio(megatron_bytes, sent_by_attention(again)) == Approx(1.0 + 2.0 / 3.0));
}

// The 8-layer model: h 6,144, 48 heads, f 24,576. Attention has 8 * 4 h^2 = 1,207,959,552
// parameters (W 2.25 GiB, fp32 G 4.5 GiB), the MLP twice as many. At S = 8 K one activation N is
// 8,192 * 6,144 * 2 bytes = 96 MiB, and grows with S.
constexpr std::int64_t kLayers = 8;
constexpr std::int64_t kHidden = 6144;
constexpr std::int64_t kAttentionWeights = 2304 * kMiB;  // W, bf16

plan::ModelShape eight_layers() {
  return gelu_model(kLayers, kHidden, 48);
}

constexpr std::int64_t seven_eighths(std::int64_t bytes) {
  return bytes / 8 * 7;
}

TEST_CASE("the 8-layer model at six lengths", "[plan]") {
  struct Row {
    std::int64_t sequence;
    double megatron;
    double ulysses;
    double hybrid;
  };

  const Row row = GENERATE(Row{8 * kKiB, 6.5625, 18.375, 9.84375},
                           Row{16 * kKiB, 13.125, 19.03125, 13.78125},
                           Row{32 * kKiB, 26.25, 20.34375, 21.65625},
                           Row{64 * kKiB, 52.5, 22.96875, 37.40625},
                           Row{128 * kKiB, 105, 28.21875, 68.90625},
                           Row{256 * kKiB, 210, 38.71875, 131.90625});
  CAPTURE(row.sequence);
  const auto exact = [](double gibibytes) {  // all are multiples of 1 / 32 GiB
    return Bytes(static_cast<std::int64_t>(gibibytes * 32) * (kGiB / 32));
  };
  const std::int64_t whole = row.sequence * kHidden * 2;
  // Megatron, per block and layer: two of the five transfers go forward.
  const Bytes block_forward(kLayers * 2 * seven_eighths(whole));
  const Bytes block_backward(kLayers * 3 * seven_eighths(whole));
  // Ulysses: Q, K, V, O forward and backward, each N / 8 of which 7 / 8 leave.
  const Bytes exchanged_one_way(kLayers * 4 * seven_eighths(whole / 8));
  const auto activations = [](const program::Program& program, Component component, Phase phase) {
    return sent(program, Traffic::activations, component, phase);
  };

  SECTION("Megatron") {
    const program::Program program = plan::lower(megatron(eight_layers(), kRanks, row.sequence));
    CHECK(sent_without_norms(program) == exact(row.megatron));
    for (const Component block : {Component::attention, Component::mlp}) {
      CHECK(activations(program, block, Phase::forward) == block_forward);
      CHECK(activations(program, block, Phase::backward) == block_backward);
      CHECK(sent(program, Traffic::gradients, block) == Bytes(0));
      CHECK(sent(program, Traffic::parameters, block) == Bytes(0));
    }
    // Two norms of 2 h fp32 gradients a layer, all-reduced once: 2 * (8 * 4 * 6,144 * 4) * 7 / 8.
    CHECK(sent(program, Traffic::gradients, Component::norm) == Bytes(1376256));
    CHECK(sent(program, Traffic::parameters, Component::norm) == Bytes(0));
  }
  SECTION("Ulysses and ZeRO-3, gathered once, fp32 gradients") {
    const program::Program program =
        plan::lower(ulysses_zero3(eight_layers(), kRanks, row.sequence, true));
    CHECK(sent_without_norms(program) == exact(row.ulysses));
    CHECK(activations(program, Component::attention, Phase::forward) == exchanged_one_way);
    CHECK(activations(program, Component::attention, Phase::backward) == exchanged_one_way);
    CHECK(activations(program, Component::mlp, Phase::forward) == Bytes(0));
    CHECK(activations(program, Component::mlp, Phase::backward) == Bytes(0));
    // W and G apart: the MLP's are twice attention's, G is twice W.
    const Bytes gather(seven_eighths(kAttentionWeights));
    CHECK(sent(program, Traffic::parameters, Component::attention, Phase::forward) == gather);
    CHECK(sent(program, Traffic::parameters, Component::attention) == gather);
    CHECK(sent(program, Traffic::parameters, Component::mlp) == 2 * gather);
    CHECK(sent(program, Traffic::gradients, Component::attention) == 2 * gather);
    CHECK(sent(program, Traffic::gradients, Component::mlp) == 4 * gather);
    // Norms: 196,608 parameters, gathered in bf16 and reduce-scattered in fp32.
    CHECK(sent(program, Traffic::parameters, Component::norm) == Bytes(344064));
    CHECK(sent(program, Traffic::gradients, Component::norm) == Bytes(688128));
  }
  SECTION("Ulysses and ZeRO-3, gathered twice, bf16 gradients") {
    const program::Program program =
        plan::lower(ulysses_zero3(eight_layers(), kRanks, row.sequence, false, ElementType::bf16));
    CHECK(sent_without_norms(program) == exact(row.ulysses));
    const Bytes gather(seven_eighths(kAttentionWeights));
    CHECK(sent(program, Traffic::parameters, Component::attention, Phase::forward) == gather);
    CHECK(sent(program, Traffic::parameters, Component::attention, Phase::backward) == gather);
    CHECK(sent(program, Traffic::parameters, Component::mlp) == 4 * gather);
    CHECK(sent(program, Traffic::gradients, Component::attention) == gather);
    CHECK(sent(program, Traffic::gradients, Component::mlp) == 2 * gather);
  }
  SECTION("the hybrid") {
    const program::Program program =
        plan::lower(hybrid(eight_layers(), kRanks, row.sequence, true));
    CHECK(sent_without_norms(program) == exact(row.hybrid));
    CHECK(activations(program, Component::attention, Phase::forward) == exchanged_one_way);
    CHECK(activations(program, Component::attention, Phase::backward) == exchanged_one_way);
    CHECK(activations(program, Component::mlp, Phase::forward) == block_forward);
    CHECK(activations(program, Component::mlp, Phase::backward) == block_backward);
    const Bytes gather(seven_eighths(kAttentionWeights));
    CHECK(sent(program, Traffic::parameters, Component::attention) == gather);
    CHECK(sent(program, Traffic::gradients, Component::attention) == 2 * gather);
    CHECK(sent(program, Traffic::parameters, Component::mlp) == Bytes(0));
    CHECK(sent(program, Traffic::gradients, Component::mlp) == Bytes(0));
    // Norms are replicated over the sequence group: all-reduced.
    CHECK(sent(program, Traffic::gradients, Component::norm) == Bytes(1376256));
    CHECK(sent(program, Traffic::parameters, Component::norm) == Bytes(0));
  }
}

TEST_CASE("full recomputation repeats the forward transfers", "[plan]") {
  plan::Plan plan = megatron(one_block(), kRanks, kOneBlockSequence);
  plan.recompute_layers = true;
  const program::Program program = plan::lower(plan);
  for (const Component block : {Component::attention, Component::mlp}) {
    CHECK(sent(program, Traffic::activations, block, Phase::forward) == mib(448));
    CHECK(sent(program, Traffic::activations, block, Phase::recompute) == mib(448));
    CHECK(sent(program, Traffic::activations, block, Phase::backward) == mib(672));
    CHECK(sent(program, Traffic::activations, block) == mib(7 * 224));  // 7 N (P - 1) / P
  }

  plan = ulysses_zero3(one_block(), kRanks, kOneBlockSequence, false);
  plan.recompute_layers = true;
  const program::Program sharded = plan::lower(plan);
  CHECK(attention_activations(sharded, Phase::recompute) == mib(112));
  CHECK(attention_activations(sharded) == mib(336));
  CHECK(attention_parameters(sharded) == mib(336));  // gathered three times
  CHECK(attention_gradients(sharded) == mib(224));

  SECTION("FSDP2 keeps for backward what recomputation gathered") {
    plan.gather_after_recompute = false;
    const program::Program fsdp = plan::lower(plan);
    CHECK(attention_parameters(fsdp) == mib(224));
    CHECK(sent(fsdp, Traffic::parameters, Component::attention, Phase::recompute) == mib(112));
    CHECK(sent(fsdp, Traffic::parameters, Component::attention, Phase::backward) == Bytes(0));
  }
  SECTION("kept all along") {
    plan.reshard_after_forward = false;
    CHECK(attention_parameters(plan::lower(plan)) == mib(112));
  }
}

TEST_CASE("Megatron without sequence parallelism all-reduces twice a block", "[plan]") {
  const program::Program program =
      plan::lower(megatron(one_block(), kRanks, kOneBlockSequence, false));
  // Attention and MLP each one all-reduce of N forward and one backward: 2 N (P - 1) / P = 448.
  for (const Component block : {Component::attention, Component::mlp}) {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      CHECK(sent(program, Traffic::activations, block, phase) == mib(448));
    }
  }
  const Bytes reduced = sent_where(program, [](const ledger::ByteEntry& entry) {
    return entry.account.traffic == Traffic::activations &&
           entry.account.collective == CollectiveKind::all_reduce;
  });
  CHECK(reduced == mib(4 * 448));
  // Every rank sees every token: norms need no sum.
  CHECK(sent(program, Traffic::gradients, Component::norm) == Bytes(0));
}

// One Llama-3.1-8B layer with embedding and head: S 32,768, so N = 256 MiB as above.
TEST_CASE("vocabulary-parallel embedding, head and losses", "[plan]") {
  plan::Plan plan = megatron(llama_8b(1), kRanks, kOneBlockSequence);
  plan.loss = config::LossKind::vocabulary_parallel;
  const program::Program program = plan::lower(plan);
  const auto activations = [](const program::Program& of, Component component, Phase phase) {
    return sent(of, Traffic::activations, component, phase);
  };
  CHECK(activations(program, Component::embedding, Phase::forward) == mib(224));
  CHECK(activations(program, Component::embedding, Phase::backward) == mib(224));
  CHECK(activations(program, Component::head, Phase::forward) == mib(224));
  CHECK(activations(program, Component::head, Phase::backward) == mib(448));
  // Three all-reduces of B S fp32: 3 * 2 * (32,768 * 4) * 7 / 8 = 688,128.
  CHECK(activations(program, Component::loss, Phase::forward) == Bytes(688128));
  CHECK(activations(program, Component::loss, Phase::backward) == Bytes(0));
  std::int64_t reductions = 0;
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, kOneNode)) {
    if (entry.account.component == Component::loss) {
      CHECK(entry.account.collective == CollectiveKind::all_reduce);
      CHECK(entry.payload_bytes == Bytes(32768 * 4));
      ++reductions;
    }
  }
  CHECK(reductions == 3);

  SECTION("TransformerEngine gathers 12 bytes of each token and rank") {
    plan.loss = config::LossKind::fused;
    const program::Program fused = plan::lower(plan);
    // 12 * 32,768 bytes from each of 8 ranks, to 7 others.
    CHECK(activations(fused, Component::loss, Phase::forward) == Bytes(12 * 32768 * 7));
    CHECK(activations(fused, Component::head, Phase::forward) == mib(224));
    CHECK(activations(fused, Component::head, Phase::backward) == mib(448));
  }
  SECTION("without sequence parallelism") {
    plan.sequence_sharded = false;
    const program::Program whole = plan::lower(plan);
    CHECK(activations(whole, Component::embedding, Phase::forward) == mib(448));
    CHECK(activations(whole, Component::embedding, Phase::backward) == Bytes(0));
    CHECK(activations(whole, Component::head, Phase::forward) == Bytes(0));
    CHECK(activations(whole, Component::head, Phase::backward) == mib(448));
    CHECK(activations(whole, Component::loss, Phase::forward) == Bytes(688128));
  }
}

TEST_CASE("Megatron adds learned positions to whole sequences", "[plan]") {
  plan::Plan plan = megatron(llama_8b(1), kRanks, kOneBlockSequence);
  plan.model.learned_positions = kOneBlockSequence;
  const auto forward = [](const plan::Plan& of) {
    return sent(plan::lower(of), Traffic::activations, Component::embedding, Phase::forward);
  };
  const auto position_gradients = [](const plan::Plan& of) {
    return sent_where(plan::lower(of), [](const ledger::ByteEntry& entry) {
      return entry.account.traffic == Traffic::gradients &&
             entry.tensor.starts_with("position table");
    });
  };
  // Generic: positions are sharded as the residual is, and their gradients summed:
  // 2 * (32,768 * 4,096 * 4 bytes = 512 MiB) * 7 / 8.
  CHECK(forward(plan) == mib(224));
  CHECK(position_gradients(plan) == mib(896));
  // Megatron: an all-reduce of N instead, and every rank sees every position.
  plan.framework = config::Framework::megatron;
  CHECK(forward(plan) == mib(448));
  CHECK(position_gradients(plan) == Bytes(0));
  CHECK(sent(plan::lower(plan), Traffic::activations, Component::embedding, Phase::backward) ==
        mib(224));
}

TEST_CASE("data parallelism and the ZeRO stages", "[plan]") {
  // W = 128 MiB and G = 256 MiB of attention over 8 data-parallel ranks, three micro batches.
  const auto program_of =
      [](std::int64_t stage, config::GradientReduce reduce, std::int64_t micro_batches) {
        plan::Plan plan = data_parallel(one_block(), kRanks, 1024, stage);
        plan.gradient_reduce = reduce;
        plan.micro_batches = micro_batches;
        return plan::lower(plan);
      };
  const auto all_reduce = config::GradientReduce::all_reduce;
  const auto reduce_scatter = config::GradientReduce::reduce_scatter;

  SECTION("plain: 2 G (P - 1) / P once a step") {
    for (const std::int64_t micro_batches : {1, 3}) {
      const program::Program program = program_of(0, reduce_scatter, micro_batches);
      CHECK(attention_gradients(program) == mib(448));
      CHECK(attention_parameters(program) == Bytes(0));
    }
  }
  SECTION("stage 1 reduces once a step") {
    for (const std::int64_t micro_batches : {1, 3}) {
      const program::Program summed = program_of(1, all_reduce, micro_batches);
      CHECK(attention_gradients(summed) == mib(448));
      CHECK(attention_parameters(summed) == mib(112));  // (2 G + W) (P - 1) / P
      const program::Program scattered = program_of(1, reduce_scatter, micro_batches);
      CHECK(attention_gradients(scattered) == mib(224));
      CHECK(attention_parameters(scattered) == mib(112));  // (G + W) (P - 1) / P
      CHECK(sent(scattered, Traffic::parameters, Component::attention, Phase::optimizer) ==
            mib(112));
    }
  }
  SECTION("stage 2 reduces every micro batch") {
    CHECK(attention_gradients(program_of(2, all_reduce, 1)) == mib(448));
    CHECK(attention_gradients(program_of(2, all_reduce, 3)) == mib(3 * 448));
    CHECK(attention_gradients(program_of(2, reduce_scatter, 3)) == mib(3 * 224));
    CHECK(attention_parameters(program_of(2, reduce_scatter, 3)) == mib(112));
  }
  SECTION("stage 3 also gathers every micro batch, forward and backward") {
    CHECK(attention_gradients(program_of(3, all_reduce, 3)) == mib(3 * 224));
    CHECK(attention_parameters(program_of(3, all_reduce, 3)) == mib(3 * 224));
  }
}

TEST_CASE("ZeRO shards over the combined data and sequence ranks", "[plan]") {
  plan::Plan plan = ulysses_zero3(one_block(), 4, kOneBlockSequence, true);
  plan.data_degree = 2;
  const program::Program program = plan::lower(plan);
  CHECK(attention_parameters(program) == mib(112));  // W (8 - 1) / 8
  CHECK(attention_gradients(program) == mib(224));
  CHECK(tensor_bytes(program, "qkv weight") == 96 * kMiB / 8);
  // Q, K, V and O of N / 4 = 64 MiB, of which 3 / 4 leave, forward and backward.
  CHECK(attention_activations(program) == mib(8 * 48));

  SECTION("of Megatron's ranks only the data-parallel ones") {
    plan::Plan tensor = megatron(one_block(), 4, kOneBlockSequence);
    tensor.data_degree = 2;
    tensor.zero_stage = 1;
    const program::Program sharded = plan::lower(tensor);
    // A rank has W / 4 = 32 MiB and G / 4 = 64 MiB: half of each leaves.
    CHECK(attention_parameters(sharded) == mib(16));
    CHECK(attention_gradients(sharded) == mib(32));
  }
}

TEST_CASE("the naive gather sends N each way and the gradients", "[plan]") {
  const program::Program program =
      plan::lower(sequence_gather(one_block(), kRanks, kOneBlockSequence));
  CHECK(attention_activations(program, Phase::forward) == mib(224));
  CHECK(attention_activations(program, Phase::backward) == mib(224));
  CHECK(attention_gradients(program) == mib(448));
  CHECK(attention_parameters(program) == Bytes(0));
  CHECK(sent(program, Traffic::activations, Component::mlp) == Bytes(0));
}

TEST_CASE("when sequence and ranks grow together Ulysses stays nearly constant", "[plan]") {
  // 4,096 tokens a rank: N / P = 32 MiB. Ulysses 8 (N / P) (P - 1) / P, Megatron 5 N (P - 1) / P.
  for (const std::int64_t ranks : {2, 4, 8, 16, 32}) {
    CAPTURE(ranks);
    const std::int64_t sequence = 4096 * ranks;
    CHECK(attention_activations(plan::lower(ulysses(one_block(), ranks, sequence))) ==
          Bytes(256 * kMiB / ranks * (ranks - 1)));
    CHECK(attention_activations(plan::lower(megatron(one_block(), ranks, sequence))) ==
          mib(160 * (ranks - 1)));
  }
}

TEST_CASE("clipping all-reduces one number of the whole job", "[plan]") {
  plan::Plan plan = ulysses_zero3(one_block(), kRanks, kOneBlockSequence, true);
  const program::Program program = plan::lower(plan);
  std::int64_t reductions = 0;
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, kOneNode)) {
    if (entry.account.component == Component::clipping) {
      CHECK(entry.account.collective == CollectiveKind::all_reduce);
      CHECK(entry.account.traffic == Traffic::optimizer);
      CHECK(entry.payload_bytes == Bytes(4));
      CHECK(entry.ranks == kRanks);
      ++reductions;
    }
  }
  CHECK(reductions == 1);

  plan.clip_gradients = false;
  CHECK(sent(plan::lower(plan), Traffic::optimizer, Component::clipping) == Bytes(0));
}

}  // namespace
}  // namespace trireme
