#include "sim/config/study_file.h"

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sim/config/plan_presets.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

/// The study of the interface's description.
const std::string kStudy = R"(version: 1
model: llama-3.1-8b
cluster: {use: h100-8x-nvlink, nodes: 2, profile: h100-sxm-public}
workload: {sequence: 128K, micro_batch: 1, global_batch: 16, causal: true}
defaults:
  optimizer: {name: adamw, recipe: bf16-fp32-main}
  recompute: full
  loss: {implementation: fused}
  attention: flash2
  overlap: {parameters: false, gradients: false, tensor_parallel: none}
plans:
  - {name: uly8,   ulysses: 8, data_parallel: 2, zero: {stage: 3, reshard_after_forward: false, gradient_type: bf16}, framework: deepspeed}
  - {name: tp8,    tensor_parallel: {degree: 8, sequence: false}, data_parallel: 2, framework: megatron, recompute: none}
  - {name: hybrid, ulysses: {degree: 8, exchange: separate}, mlp: {tensor_parallel: 8}, zero: {stage: 3, only: attention}}
  - {name: usp,    ulysses: 4, ring: 4, zero: {stage: 1, reduce: all_reduce}, recompute: {offload: host}, optimizer: {clip_gradients: false}}
  - {name: naive,  sequence_gather: 8}
require: [{plan: uly8, fits: true}, {plan: tp8, exposed_communication: "< 20 %"}]
)";

StudyFile read(const std::string& text) {
  return StudyFile::parse(std::make_shared<const SourceText>("study.yaml", text), DataSource{});
}

TEST_CASE("every key of a study is read", "[config]") {
  const StudySpec study = read(kStudy).base();
  CHECK(study.name == "study");
  CHECK(study.model.layers.value == 32);
  CHECK(study.cluster.gpus() == 16);
  CHECK(study.workload.sequence.value == Tokens(131072));
  CHECK(study.workload.global_batch->value == 16);
  REQUIRE(study.plans.size() == 5);

  const PlanSpec& uly8 = study.plans[0];
  CHECK(uly8.name == "uly8");
  CHECK(uly8.ulysses.value == 8);
  CHECK(uly8.exchange == ExchangeKind::packed);
  CHECK(uly8.data_parallel->value == 2);
  CHECK(uly8.zero.stage.value == 3);
  CHECK(uly8.zero.reshard == Reshard::keep);
  CHECK(uly8.zero.gradient_type == ElementType::bf16);
  CHECK(uly8.framework == Framework::deepspeed);
  CHECK(uly8.recompute.granularity == Recompute::full);
  CHECK(to_text(uly8.ulysses.where) == "study.yaml:12:29");

  const PlanSpec& tp8 = study.plans[1];
  CHECK(tp8.tensor_parallel.value == 8);
  CHECK_FALSE(tp8.tensor_parallel_sequence);
  CHECK(tp8.ulysses.value == 1);
  CHECK(tp8.recompute.granularity == Recompute::none);  // over the default

  const PlanSpec& hybrid = study.plans[2];
  CHECK(hybrid.exchange == ExchangeKind::separate);
  CHECK(hybrid.mlp_tensor_parallel.value == 8);
  CHECK(hybrid.zero.only == ZeroScope::attention);
  CHECK(hybrid.zero.reshard == Reshard::after_forward);
  CHECK_FALSE(hybrid.data_parallel.has_value());

  const PlanSpec& usp = study.plans[3];
  CHECK(usp.ring.value == 4);
  CHECK(usp.zero.reduce == GradientReduce::all_reduce);
  CHECK(usp.recompute.offload_to_host);
  CHECK_FALSE(usp.optimizer.clip_gradients);
  CHECK(usp.optimizer.recipe == OptimizerRecipe::bf16_fp32_main);

  CHECK(study.plans[4].sequence_gather.value == 8);
  CHECK(study.plans[4].zero.stage.value == 0);

  REQUIRE(study.require.size() == 2);
  CHECK(study.require[0].fits == true);
  CHECK(study.require[1].plan == "tp8");
  CHECK(study.require[1].exposed_communication_below == 0.2);
  CHECK(study.sweep.empty());
}

TEST_CASE("words that no plan models yet are read", "[config]") {
  const StudySpec study = read(R"(version: 1
model: llama-3.1-8b
cluster: h100-8x-nvlink
workload: {sequence: 8K}
defaults:
  recompute: selective
  loss: {implementation: chunked, chunks: 4, logits: bf16}
  attention: unfused
  overlap: {parameters: true, gradients: true, tensor_parallel: ring_exchange}
plans: [{name: ring, ring: 8, framework: torchtitan}]
)")
                              .base();
  const PlanSpec& plan = study.plans[0];
  CHECK(plan.recompute.granularity == Recompute::selective);
  CHECK(plan.loss == LossKind::chunked);
  CHECK(plan.loss_chunks == 4);
  CHECK(plan.logits_type == ElementType::bf16);
  CHECK(plan.attention == AttentionKernel::unfused);
  CHECK(plan.overlap.parameters == true);
  CHECK(plan.overlap.gradients == true);
  CHECK(plan.overlap.tensor_parallel == TensorParallelOverlap::ring_exchange);
  CHECK(plan.framework == Framework::torchtitan);
}

TEST_CASE("every default that was used is echoed once", "[config]") {
  const StudySpec study = read(R"(version: 1
model: llama-3.1-8b
cluster: h100-8x-nvlink
workload: {sequence: 8K}
plans:
  - {name: a, use: ulysses-zero3}
  - {name: b, use: data-parallel}
)")
                              .base();
  CHECK(
      study.defaults_used ==
      std::vector<std::string>{"memory: public",
                               "workload.micro_batch: 1",
                               "workload.global_batch: one micro batch on each data-parallel rank",
                               "workload.causal: true",
                               "plans.a.degree: 8",
                               "plans.a.ulysses.exchange: packed",
                               "plans.a.ulysses.kv_repeat: minimal",
                               "plans.a.zero.gradient_type: fp32",
                               "plans.a.zero.reshard_after_forward: true",
                               "plans.a.zero.only: all",
                               "plans.a.framework: generic",
                               "defaults.optimizer.name: adamw",
                               "defaults.optimizer.recipe: bf16-fp32-main",
                               "defaults.optimizer.clip_gradients: true",
                               "defaults.recompute: none",
                               "defaults.loss.implementation: fused",
                               "defaults.attention: flash2",
                               "defaults.allocator: native",
                               "defaults.overlap.parameters: framework",
                               "defaults.overlap.gradients: framework",
                               "defaults.overlap.tensor_parallel: none",
                               "plans.b.zero.gradient_type: fp32",
                               "plans.b.framework: generic"});
}

TEST_CASE("every plan preset is a plan, and its keys can be overridden", "[config]") {
  const std::string head =
      "version: 1\nmodel: llama-3.1-8b\ncluster: h100-8x-nvlink\nworkload: {sequence: 8K}\n";
  for (const PlanPreset& preset : plan_presets()) {
    CAPTURE(std::string(preset.name));
    const std::string plan = "plans: [{name: a, use: " + std::string(preset.name);
    const PlanSpec of_a_node = read(head + plan + "}]\n").base().plans[0];
    CHECK(of_a_node.preset == preset.name);
    const auto product = [](const PlanSpec& spec) {
      return spec.ulysses.value * spec.sequence_gather.value * spec.ring.value *
             spec.tensor_parallel.value;
    };
    CHECK(product(of_a_node) == (preset.has_degree ? 8 : 1));  // the GPUs of a node
    if (preset.has_degree) {
      const PlanSpec of_four = read(head + plan + ", degree: 4}]\n").base().plans[0];
      CHECK(product(of_four) == 4);
      const PlanSpec of_three = read(head + plan + ", degree: 3}]\n").base().plans[0];
      CHECK(product(of_three) == 3);
    }
  }
  const PlanSpec plan =
      read(head +
           "plans: [{name: a, use: hybrid, ulysses: {exchange: separate}, framework: "
           "pytorch, zero: {gradient_type: bf16}}]\n")
          .base()
          .plans[0];
  CHECK(plan.ulysses.value == 8);
  CHECK(plan.exchange == ExchangeKind::separate);
  CHECK(plan.mlp_tensor_parallel.value == 8);
  CHECK(plan.zero.stage.value == 3);
  CHECK(plan.zero.only == ZeroScope::attention);
  CHECK(plan.zero.gradient_type == ElementType::bf16);
  CHECK(plan.framework == Framework::pytorch);
}

TEST_CASE("several swept keys form a grid, the first varying slowest", "[config]") {
  const StudyFile file = read(kStudy +
                              "sweep: {workload.sequence: [32K, 64K, 1M], cluster.nodes: "
                              "[2, 4]}\n");
  REQUIRE(file.points().size() == 6);
  CHECK(file.base().workload.sequence.value == Tokens(131072));
  CHECK(file.points()[1][0].text == "32K");
  CHECK(file.points()[1][1].text == "4");
  const StudySpec last = file.at(file.points()[5]);
  CHECK(last.workload.sequence.value == Tokens(1048576));
  CHECK(last.cluster.gpus() == 32);
  CHECK(last.plans.size() == 5);
  CHECK(to_text(last.workload.sequence.where) == "study.yaml:18:39");
}

TEST_CASE("a list of maps is taken row by row and reaches every level", "[config]") {
  const StudyFile file = read(kStudy + R"(sweep:
  - {workload.sequence: 32K, plans.uly8.ulysses: 8, plans.hybrid.ulysses: 4, cluster.nodes: 1}
  - {plans.uly8.ulysses: 16, plans.tp8.tensor_parallel: 4, model.layers: 4, model.attention.heads: 16}
  - {defaults.recompute: none, cluster.node.nic_per_gpu: 100 Gbit/s, plans.naive.zero.stage: 3}
  - {plans.uly8.ulysses.exchange: separate, cluster.node.gpu.memory_visible: 70 GiB}
)");
  REQUIRE(file.points().size() == 4);
  const StudySpec first = file.at(file.points()[0]);
  CHECK(first.cluster.gpus() == 8);
  CHECK(first.plans[2].ulysses.value == 4);
  CHECK(first.plans[2].exchange == ExchangeKind::separate);  // the map's other key stays
  const StudySpec second = file.at(file.points()[1]);
  CHECK(second.workload.sequence.value == Tokens(131072));
  CHECK(second.plans[0].ulysses.value == 16);
  CHECK(second.plans[1].tensor_parallel.value == 4);
  CHECK_FALSE(second.plans[1].tensor_parallel_sequence);
  CHECK(second.model.layers.value == 4);
  CHECK(second.model.heads.value == 16);
  CHECK(second.model.kv_heads.value == 8);
  const StudySpec third = file.at(file.points()[2]);
  CHECK(third.plans[0].recompute.granularity == Recompute::none);
  CHECK(third.plans[3].recompute.offload_to_host);
  CHECK(third.cluster.nic_per_gpu == BytesPerSecond(12.5e9));
  CHECK(third.plans[4].zero.stage.value == 3);
  const StudySpec fourth = file.at(file.points()[3]);
  CHECK(fourth.plans[0].ulysses.value == 8);
  CHECK(fourth.plans[0].exchange == ExchangeKind::separate);
  CHECK(fourth.cluster.gpu.memory_visible == Bytes(70LL << 30));
}

TEST_CASE("the largest machines and models of today are within the limits", "[config]") {
  // 126 x 2^18 x 128,256 x 1 sequence of a rank is 4.2e12; 2^18 tokens on 16,384 GPUs are 2^32.
  const StudySpec study = read(R"(version: 1
model: llama-3.1-405b
cluster: {use: h100-8x-nvlink, nodes: 2048}
workload: {sequence: 256K}
plans: [{name: u, ulysses: 8, zero: {stage: 3}}]
)")
                              .base();
  CHECK(study.cluster.gpus() == 16384);
  CHECK(study.workload.sequence.value == Tokens(262144));
}

TEST_CASE("a damaged study gives an Error and nothing else", "[config]") {
  const std::uint64_t seed = Catch::getSeed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string valid = kStudy + "sweep: {workload.sequence: [32K, 64K], cluster.nodes: [1]}\n";
  const std::string alphabet = "{}[]:,-#&*!|>'\"%@`?\n\t 0189.eKMxy~<\\\xC3\xA9\x01";
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  int accepted = 0;
  int refused = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    std::string damaged = valid;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t at = below(damaged.size());
      switch (below(5)) {
        case 0:
          damaged[at] = alphabet[below(alphabet.size())];
          break;
        case 1:
          damaged.insert(at, 1, alphabet[below(alphabet.size())]);
          break;
        case 2:
          damaged.erase(at, 1 + below(20));
          break;
        case 3:
          damaged.insert(at, damaged.substr(below(damaged.size()), below(60)));
          break;
        default:
          damaged.resize(at + 1);
          break;
      }
    }
    CAPTURE(trial, damaged);
    const auto start = std::chrono::steady_clock::now();
    try {
      const StudyFile file = read(damaged);
      for (const SweepPoint& point : file.points()) {
        static_cast<void>(file.at(point));
      }
      ++accepted;
    } catch (const Error& error) {
      ++refused;
      if (error.exit_code() != ExitCode::input_file || error.where().file.empty() ||
          error.message().empty()) {
        FAIL("an Error without a place or a message: " << error.what());
      }
    }
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(1)) {
      FAIL("slower than a second");
    }
  }
  CHECK(refused > 500);
  CHECK(accepted > 0);  // some damage lies in comments, names and spaces
}

}  // namespace
}  // namespace trireme::config
