// Operation counts of the plans: what the model requires, and what ranks execute.
#include <cstdint>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

plan::ModelShape gpt3() {
  plan::ModelShape model = gelu_model(96, 12288, 96);
  model.vocabulary = 51200;
  model.tied_embeddings = true;
  model.learned_positions = 2048;
  model.qkv_bias = true;
  model.output_bias = true;
  model.mlp_bias = true;
  return model;
}

// 72 B S L h^2 (1 + S / 6 h + V / 12 L h): narayanan2021, equation 3 without recomputation.
double formula(const plan::Plan& plan) {
  const plan::ModelShape& model = plan.model;
  const auto tokens = static_cast<double>(plan.step_tokens());
  const auto sequence = static_cast<double>(plan.sequence);
  const auto layers = static_cast<double>(model.layers);
  const auto hidden = static_cast<double>(model.hidden);
  const auto vocabulary = static_cast<double>(model.vocabulary);
  return 72 * tokens * layers * hidden * hidden *
         (1 + sequence / (6 * hidden) + vocabulary / (12 * layers * hidden));
}

std::vector<plan::Plan> plans_of(const plan::ModelShape& model, std::int64_t sequence) {
  std::vector<plan::Plan> plans = {megatron(model, 8, sequence),
                                   megatron(model, 8, sequence, false),
                                   ulysses(model, 8, sequence),
                                   ulysses_zero3(model, 8, sequence, false),
                                   hybrid(model, 8, sequence, true),
                                   sequence_gather(model, 8, sequence),
                                   data_parallel(model, 1, sequence, 0)};
  for (plan::Plan& plan : plans) {
    plan.causal = false;
  }
  return plans;
}

TEST_CASE("model FLOPs of GPT-3 are the published formula for every plan", "[plan]") {
  const auto loss = GENERATE(config::LossKind::fused, config::LossKind::eager);
  for (plan::Plan plan : plans_of(gpt3(), 2048)) {
    CAPTURE(plan.name);
    plan.loss = loss;
    plan.micro_batch = 2;
    plan.micro_batches = 3;
    const ledger::FlopLedger flops = engine::read_flops(plan::lower(plan));
    CHECK(flops.model.value() == Approx(formula(plan)).epsilon(1e-9));
    CHECK(flops.model_full_attention.value() == flops.model.value());
  }
}

TEST_CASE("a vocabulary that needs padding does not change the model's FLOPs", "[plan]") {
  plan::ModelShape model = gpt3();
  model.vocabulary = 50257;
  const plan::Plan padded = plans_of(model, 2048).front();
  CHECK(engine::read_flops(plan::lower(padded)).model.value() ==
        Approx(formula(padded)).epsilon(1e-9));
}

TEST_CASE("causal attention counts half", "[plan]") {
  plan::Plan plan = megatron(gpt3(), 8, 2048);
  const ledger::FlopLedger causal = engine::read_flops(plan::lower(plan));
  // Full attention, forward and backward twice: 12 B S^2 h L.
  const double full = 12.0 * 2048 * 2048 * 12288 * 96;
  CHECK((causal.model_full_attention - causal.model).value() == Approx(full / 2).epsilon(1e-9));
  CHECK(causal.model_full_attention.value() == Approx(formula(plan)).epsilon(1e-9));
}

TEST_CASE("ranks execute the model's FLOPs, and half of attention's forward more", "[plan]") {
  // The kernel's backward pass is 2.5 times its forward pass, of which the model counts 2.
  const double attention_forward = 4.0 * 2048 * 2048 * 12288 * 96;
  for (const plan::Plan& plan : plans_of(gpt3(), 2048)) {
    if (plan.attention == plan::AttentionLowering::sequence_gather) {
      continue;  // projects the keys and values of all tokens on every rank
    }
    CAPTURE(plan.name);
    const ledger::FlopLedger flops = engine::read_flops(plan::lower(plan));
    const auto ranks = static_cast<double>(plan.ranks());
    CHECK(ranks * flops.executed.value() ==
          Approx(flops.model.value() + 0.5 * attention_forward).epsilon(1e-12));
  }
}

TEST_CASE("the naive gather projects keys and values of every token on every rank", "[plan]") {
  const plan::Plan plan = [] {
    plan::Plan naive = sequence_gather(gelu_model(1, 1024, 8), 8, 4096);
    naive.causal = false;
    return naive;
  }();
  const ledger::FlopLedger flops = engine::read_flops(plan::lower(plan));
  // Forward and twice backward of [S, h] x [h, 2 h]: 12 S h^2, seven times too often.
  const double redundant = 7 * 12.0 * 4096 * 1024 * 1024;
  const double attention_forward = 4.0 * 4096 * 4096 * 1024;
  CHECK(8 * flops.executed.value() ==
        Approx(flops.model.value() + 0.5 * attention_forward + redundant).epsilon(1e-12));
}

TEST_CASE("recomputation executes one more forward pass of the layers", "[plan]") {
  for (plan::Plan plan : plans_of(gpt3(), 2048)) {
    if (plan.attention == plan::AttentionLowering::sequence_gather) {
      continue;
    }
    CAPTURE(plan.name);
    const ledger::FlopLedger once = engine::read_flops(plan::lower(plan));
    plan.recompute_layers = true;
    const ledger::FlopLedger twice = engine::read_flops(plan::lower(plan));
    // Matrices 24 B S h^2 and attention 4 B S^2 h a layer, the head not again.
    const double forward = 96 * (24.0 * 2048 * 12288 * 12288 + 4.0 * 2048 * 2048 * 12288);
    const auto ranks = static_cast<double>(plan.ranks());
    CHECK(ranks * (twice.executed - once.executed).value() == Approx(forward).epsilon(1e-9));
    CHECK(twice.model.value() == once.model.value());
  }
}

}  // namespace
}  // namespace trireme
