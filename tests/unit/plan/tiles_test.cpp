// Tiles of the MLP and chunks of the loss: how many, what they save, and what they cost.
#include <cstdint>
#include <vector>

#include "sim/plan/chunks.h"
#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

constexpr std::int64_t kRanks = 8;
constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kSequence = 32 * kKiB;
constexpr std::int64_t kTokens = kSequence / kRanks;    // 4,096
constexpr std::int64_t kShard = kTokens * kHidden * 2;  // N / P: 8 MiB
constexpr std::int64_t kLogSumExp = 4 * kTokens * kHeads;

plan::Plan tiled(const plan::ModelShape& model, std::int64_t tiles) {
  plan::Plan plan = ulysses(model, kRanks, kSequence);
  plan.mlp = plan::MlpLowering::tiled;
  plan.mlp_tiles = tiles;
  return plan;
}

TEST_CASE("tokens are cut as torch.chunk cuts them", "[plan][tiles]") {
  plan::Plan plan = ulysses(gelu_model(1, kHidden, kHeads), 2, 20);  // ten tokens on a rank
  const auto cut = [&](std::int64_t parts) {
    const plan::Chunks chunks = plan::chunks_in(plan, parts);
    return std::vector<std::int64_t>{chunks.sequence, chunks.count, chunks.last};
  };
  using Cut = std::vector<std::int64_t>;
  CHECK(cut(1) == Cut{10, 1, 10});
  CHECK(cut(3) == Cut{4, 3, 2});
  CHECK(cut(4) == Cut{3, 4, 1});
  CHECK(cut(6) == Cut{2, 5, 2});  // one fewer than asked for
  CHECK(cut(99) == Cut{1, 10, 1});
}

TEST_CASE("automatic tiles and chunks follow the sizes", "[plan][tiles]") {
  plan::Plan plan = ulysses(llama_8b(), 8, 128 * kKiB);  // 16,384 tokens, h 4,096
  CHECK(plan::automatic_mlp_tiles(plan) == 4);
  // 16,384 x 128,256 fp32 logits take 7.83 GiB.
  CHECK(plan::automatic_loss_chunks(plan) == 8);
  plan.micro_batch = 2;
  CHECK(plan::automatic_loss_chunks(plan) == 16);
  plan.sequence = 8;
  CHECK(plan::automatic_mlp_tiles(plan) == 1);
  CHECK(plan::automatic_loss_chunks(plan) == 1);
  plan.framework = config::Framework::torchtitan;
  CHECK(plan::automatic_loss_chunks(plan) == 8);
}

TEST_CASE("a tiled MLP saves its input alone, and a tile is all that is there of it",
          "[plan][tiles]") {
  const auto at = [](std::int64_t tiles, std::int64_t layers) {
    return peak_above_resident(tiled(gelu_model(layers, kHidden, kHeads), tiles));
  };
  // Of a layer's 17 N / P under Ulysses, the up projection's and the activation's 8 are not saved.
  CHECK(at(4, 7) - at(4, 6) == Bytes(9 * kShard + kLogSumExp));
  CHECK(at(1, 7) - at(1, 6) == Bytes(9 * kShard + kLogSumExp));
  // Activation, up and their gradients are one tile's.
  CHECK(at(1, 2) > at(4, 2));
}

TEST_CASE("a tiled MLP sends nothing and runs forward twice", "[plan][tiles]") {
  const plan::ModelShape model = gelu_model(3, kHidden, kHeads);
  const ledger::FlopLedger whole =
      engine::read_flops(plan::lower(ulysses(model, kRanks, kSequence)));
  for (const std::int64_t tiles : {1, 3, 4}) {
    const program::Program program = plan::lower(tiled(model, tiles));
    const ledger::FlopLedger flops = engine::read_flops(program);
    CHECK(flops.model.value() == Approx(whole.model.value()).epsilon(1e-12));
    // Three layers of 16 T h^2.
    CHECK((flops.executed - whole.executed).value() ==
          Approx(3 * 16.0 * kTokens * kHidden * kHidden).epsilon(1e-9));
    CHECK(sent(program, Traffic::activations, Component::mlp) == Bytes(0));
  }
}

TEST_CASE("a chunk's logits are all that is there of them", "[plan][tiles]") {
  plan::ModelShape model = gelu_model(1, kHidden, kHeads);
  model.vocabulary = 64 * kKiB;
  plan::Plan plan = ulysses(model, kRanks, kSequence);
  plan.loss = config::LossKind::chunked;
  const auto peak_in = [&](std::int64_t chunks, ElementType type) {
    plan.loss_chunks = chunks;
    plan.logits_type = type;
    return peak_above_resident(plan);
  };
  const auto logits = [](std::int64_t chunks) { return kTokens / chunks * 64 * kKiB; };
  // fp32: log-probabilities and gradient, 8 bytes per logit.
  CHECK(peak_in(2, ElementType::fp32) - peak_in(4, ElementType::fp32) ==
        Bytes(8 * (logits(2) - logits(4))));
  // bf16: 4 bytes per logit.
  CHECK(peak_in(2, ElementType::bf16) - peak_in(4, ElementType::bf16) ==
        Bytes(4 * (logits(2) - logits(4))));
}

}  // namespace
}  // namespace trireme
