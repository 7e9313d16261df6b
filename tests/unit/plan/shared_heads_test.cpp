// Megatron with more tensor-parallel ranks than key/value heads.
#include <cstdint>

#include "sim/study/small_model.h"
#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

constexpr std::int64_t kRanks = 16;
constexpr std::int64_t kSequence = 8 * kKiB;

plan::Plan llama_of(std::int64_t kv_heads) {
  plan::ModelShape model = llama_8b(2);
  model.vocabulary = 0;
  model.kv_heads = kv_heads;
  return megatron(model, kRanks, kSequence);
}

TEST_CASE("ranks that share heads gather what they project and scatter its gradient", "[plan]") {
  // 2 e B S (a + 2 g) d (P - 1) / P of each of two layers, half of it forward.
  constexpr std::int64_t kGathered = 2 * kSequence * (32 + 2 * 8) * 128;
  constexpr std::int64_t kMore = 2 * kGathered / kRanks * (kRanks - 1);
  const auto attention = [](const plan::Plan& plan, Phase phase) {
    return sent(plan::lower(plan), Traffic::activations, Component::attention, phase);
  };
  plan::Plan shared = llama_of(8);
  plan::Plan apart = llama_of(16);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    CHECK(attention(shared, phase) - attention(apart, phase) == Bytes(kMore));
  }
  shared.recompute_layers = true;
  apart.recompute_layers = true;
  CHECK(attention(shared, Phase::recompute) - attention(apart, Phase::recompute) == Bytes(kMore));
  // Weights are split, not replicated: no gradient is summed over the ranks.
  CHECK(sent(plan::lower(shared), Traffic::gradients, Component::attention) == Bytes(0));
}

TEST_CASE("a rank that shares heads saves its own queries and one key and value head", "[plan]") {
  const auto saved_by_a_layer = [](plan::Plan plan) {
    plan.model.layers = 6;
    const Bytes six = peak_above_resident(plan);
    plan.model.layers = 7;
    return peak_above_resident(plan) - six;
  };
  // With 16 or with 8 heads of keys and values, a rank attends with one.
  CHECK(saved_by_a_layer(llama_of(8)) == saved_by_a_layer(llama_of(16)));
  CHECK(saved_by_a_layer(llama_of(1)) == saved_by_a_layer(llama_of(16)));
  const Bytes weights = resident(plan::lower(llama_of(8)), program::Role::parameter);
  const Bytes more = resident(plan::lower(llama_of(16)), program::Role::parameter) - weights;
  CHECK(more == Bytes(2 * 2 * (2 * 8 * 128) * 4096 / kRanks));  // two layers, bf16
}

TEST_CASE("a shrunk model still shares heads", "[plan]") {
  for (const std::int64_t kv_heads : {1, 2, 8}) {
    const plan::Plan plan = llama_of(kv_heads);
    const plan::Plan small = study::shrink(plan, study::ModelSize::least, kRanks);
    CHECK(small.model.kv_heads < kRanks);
    CHECK(small.model.heads * kv_heads == 32 * small.model.kv_heads);
  }
}

}  // namespace
}  // namespace trireme
