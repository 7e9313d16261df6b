// What runs again before it goes backward: which layers, what is saved instead, and what it costs.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/layers.h"
#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;
using Again = plan::LayerRun::Again;
using config::LayerChoice;

constexpr std::int64_t kRanks = 8;
constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kSequence = 32 * kKiB;
constexpr std::int64_t kShard = kSequence * kHidden * 2 / kRanks;  // N / P: 8 MiB
constexpr std::int64_t kLogSumExp = 4 * kSequence * kHeads / kRanks;
constexpr std::int64_t kTransfer = kShard * (kRanks - 1);  // N (P - 1) / P

/// What `more` more layers, a whole number of units, add to the peak beyond their states.
Bytes saved_by(plan::Plan plan, std::int64_t more) {
  plan.model.layers = 4 * more;
  const Bytes fewer = peak_above_resident(plan);
  plan.model.layers = 5 * more;
  return peak_above_resident(plan) - fewer;
}

plan::Plan with_layers(LayerChoice choice, std::int64_t number, std::int64_t layers) {
  plan::Plan plan = megatron(gelu_model(layers, kHidden, kHeads), kRanks, kSequence);
  plan.recompute_layers = true;
  plan.recompute_choice = choice;
  plan.recompute_number = number;
  return plan;
}

std::vector<std::vector<std::int64_t>> runs_of(const plan::Plan& plan) {
  std::vector<std::vector<std::int64_t>> runs;
  for (const plan::LayerRun& run :
       plan::layer_runs(plan, 0, plan.model.layers, plan.model.dense_layers())) {
    runs.push_back({run.first, run.size, run.units, static_cast<std::int64_t>(run.again)});
  }
  return runs;
}

TEST_CASE("layers that run again are chosen as frameworks choose them", "[plan][recompute]") {
  using Runs = std::vector<std::vector<std::int64_t>>;
  constexpr auto kNothing = static_cast<std::int64_t>(Again::nothing);
  constexpr auto kLast = static_cast<std::int64_t>(Again::last);
  constexpr auto kAll = static_cast<std::int64_t>(Again::all);
  plan::Plan plan = megatron(gelu_model(7, kHidden, kHeads), kRanks, kSequence);
  CHECK(runs_of(plan) == Runs{{0, 1, 7, kNothing}});
  CHECK(plan::recomputed_layers(plan) == 0);

  CHECK(runs_of(with_layers(LayerChoice::every, 1, 7)) == Runs{{0, 1, 7, kLast}});
  CHECK(runs_of(with_layers(LayerChoice::every, 3, 7)) ==
        Runs{{0, 3, 2, kLast}, {6, 1, 1, kNothing}});
  CHECK(runs_of(with_layers(LayerChoice::every, 8, 7)) == Runs{{0, 1, 7, kNothing}});
  CHECK(runs_of(with_layers(LayerChoice::block, 3, 7)) ==
        Runs{{0, 1, 3, kAll}, {3, 1, 4, kNothing}});
  CHECK(runs_of(with_layers(LayerChoice::block, 9, 7)) == Runs{{0, 1, 7, kAll}});
  CHECK(runs_of(with_layers(LayerChoice::uniform, 3, 7)) == Runs{{0, 3, 2, kAll}, {6, 1, 1, kAll}});
  CHECK(plan::recomputed_layers(with_layers(LayerChoice::every, 3, 7)) == 2);
  CHECK(plan::recomputed_layers(with_layers(LayerChoice::block, 3, 7)) == 3);
  CHECK(plan::recomputed_layers(with_layers(LayerChoice::uniform, 3, 7)) == 7);
}

TEST_CASE("layers that run again save their unit's input", "[plan][recompute]") {
  constexpr std::int64_t kLayer = 16 * kShard + kLogSumExp;
  // Of three layers one saves its input, the others everything.
  CHECK(saved_by(with_layers(LayerChoice::every, 3, 1), 3) == Bytes(2 * kLayer + kShard));
  // Of each three the first one's input.
  CHECK(saved_by(with_layers(LayerChoice::uniform, 3, 1), 3) == Bytes(kShard));
  // Beyond the block everything.
  CHECK(saved_by(with_layers(LayerChoice::block, 2, 1), 1) == Bytes(kLayer));

  // A unit of three that runs again holds three layers while its last goes backward.
  plan::Plan plan = with_layers(LayerChoice::uniform, 1, 12);
  const Bytes one = peak_above_resident(plan);
  plan.recompute_number = 3;
  const Bytes three = peak_above_resident(plan);
  // Two more layers without their input, and 8 of the 11 inputs that were kept besides are not.
  CHECK(three - one == Bytes(2 * kLayer - 8 * kShard));
}

TEST_CASE("parts that run again are not saved", "[plan][recompute]") {
  struct Row {
    config::RecomputeModules modules;
    std::int64_t megatron_shards;  // of N / P that a layer saves less
    std::int64_t ulysses_shards;
    bool log_sum_exp;
  };

  // Of Megatron's 16: norms 2, QKV 3 and o, up 4, activation 4, both inputs. Ulysses saves o twice:
  // what was exchanged is given up with core attention, what the exchange started from is kept.
  const std::array rows = {Row{{.core_attention = true}, 0, 1, true},
                           Row{{.layernorm = true}, 2, 2, false},
                           Row{{.mlp = true}, 8, 8, false},
                           Row{{.mlp_activation = true}, 4, 4, false},
                           Row{{.layernorm = true, .mlp = true}, 10, 10, false},
                           Row{{true, true, true, true}, 10, 11, true}};
  const plan::ModelShape model = gelu_model(1, kHidden, kHeads);
  for (const Row& row : rows) {
    const std::int64_t rest = row.log_sum_exp ? 0 : kLogSumExp;
    plan::Plan plan = megatron(model, kRanks, kSequence);
    plan.recompute_modules = row.modules;
    CHECK(saved_by(plan, 1) == Bytes((16 - row.megatron_shards) * kShard + rest));
    plan = ulysses(model, kRanks, kSequence);
    plan.recompute_modules = row.modules;
    CHECK(saved_by(plan, 1) == Bytes((17 - row.ulysses_shards) * kShard + rest));
  }
}

TEST_CASE("what runs again sends again what its forward pass sent", "[plan][recompute]") {
  const auto sent_again = [](const plan::Plan& plan, Component block) {
    return sent(plan::lower(plan), Traffic::activations, block, Phase::recompute);
  };
  plan::Plan plan = with_layers(LayerChoice::every, 3, 7);
  CHECK(sent_again(plan, Component::mlp) == Bytes(2 * 2 * kTransfer));
  CHECK(sent_again(plan, Component::attention) == Bytes(2 * 2 * kTransfer));

  plan = megatron(gelu_model(7, kHidden, kHeads), kRanks, kSequence);
  plan.recompute_modules = {.core_attention = true, .layernorm = true, .mlp_activation = true};
  CHECK(sent_again(plan, Component::mlp) == Bytes(0));
  CHECK(sent_again(plan, Component::attention) == Bytes(0));
  plan.recompute_modules = {.mlp = true};  // gathered before, scattered after
  CHECK(sent_again(plan, Component::mlp) == Bytes(7 * 2 * kTransfer));
  CHECK(sent_again(plan, Component::attention) == Bytes(0));

  // Core attention holds Ulysses' exchanges: Q, K, V and O, N (P - 1) / P^2 each.
  plan = ulysses(gelu_model(7, kHidden, kHeads), kRanks, kSequence);
  plan.recompute_modules = {.core_attention = true};
  CHECK(sent_again(plan, Component::attention) == Bytes(7 * 4 * kTransfer / kRanks));
}

TEST_CASE("core attention that runs again redoes the kernel's forward pass", "[plan][recompute]") {
  plan::Plan plan = megatron(gelu_model(3, kHidden, kHeads), kRanks, kSequence);
  plan.causal = false;
  const ledger::FlopLedger once = engine::read_flops(plan::lower(plan));
  const auto more = [&](const config::RecomputeModules& modules) {
    plan.recompute_modules = modules;
    const ledger::FlopLedger again = engine::read_flops(plan::lower(plan));
    CHECK(again.model.value() == once.model.value());
    return kRanks * (again.executed - once.executed).value() / 3;
  };
  const auto tokens = static_cast<double>(kSequence);
  const auto hidden = static_cast<double>(kHidden);
  CHECK(more({.core_attention = true}) == Approx(4 * tokens * tokens * hidden).epsilon(1e-9));
  CHECK(more({.mlp = true}) == Approx(16 * tokens * hidden * hidden).epsilon(1e-9));
  CHECK(more({.layernorm = true, .mlp_activation = true}) == 0);
}

TEST_CASE("every third layer with FSDP2 gathers again only where nothing ran again",
          "[plan][recompute]") {
  plan::Plan plan = ulysses_zero3(gelu_model(6, kHidden, kHeads), kRanks, kSequence, false);
  plan.recompute_layers = true;
  plan.recompute_number = 3;
  plan.gather_after_recompute = false;
  // Attention's 4 h^2 in bf16, 7/8 from others: forward and, for backward, in every layer once
  // more.
  constexpr std::int64_t kGather = 4 * kHidden * kHidden * 2 / kRanks * (kRanks - 1);
  const auto gathered = [&] {
    return sent(plan::lower(plan), Traffic::parameters, Component::attention);
  };
  CHECK(gathered() == Bytes(6 * 2 * kGather));
  plan.gather_after_recompute = true;  // three times in two of the six layers
  CHECK(gathered() == Bytes((6 * 2 + 2) * kGather));
}

}  // namespace
}  // namespace trireme
