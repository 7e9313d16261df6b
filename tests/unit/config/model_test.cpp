#include "sim/config/model.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "sim/config/study_spec.h"
#include "sim/config/yaml_reader.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

ModelSpec preset(const std::string& name) {
  return read_model(make_text(name, Position{}), Library(DataSource{}));
}

ModelSpec inline_model(const std::string& yaml) {
  const Node node = read_yaml(std::make_shared<const SourceText>("m.yaml", yaml));
  return read_model(node, Library(DataSource{}));
}

TEST_CASE("every preset has the published number of parameters", "[config]") {
  const Library library(DataSource{});
  REQUIRE(library.names(PresetKind::model).size() == 41);
  for (const std::string& name : library.names(PresetKind::model)) {
    CAPTURE(name);
    const ModelSpec model = preset(name);
    CHECK(model.name == name);
    CHECK_FALSE(model.source.empty());
    REQUIRE(model.parameters_published.has_value());
    CHECK_FALSE(model.parameters_source.empty());
    const std::int64_t published = model.parameters_published->value();
    const std::int64_t off = std::abs(parameter_count(model).value() - published);
    CHECK(200 * off <= published);  // 0.5 %
    // To the digits that were published, with one exception, which its file explains.
    CHECK((2 * off <= model.parameters_published_digit.value()) == (name != "opt-66b"));
    CHECK(agrees_with_published(model) == (name != "opt-66b"));
  }
}

TEST_CASE("the parameters of a program are those of its model", "[config]") {
  const Library library(DataSource{});
  int compared = 0;
  for (const std::string& name : library.names(PresetKind::model)) {
    CAPTURE(name);
    config::StudySpec study;
    study.model = preset(name);
    // Fewer layers, as the count of the others is the same; a window as long as the sequence.
    study.model.layers.value = 2;
    if (study.model.experts) {  // of each kind of layer one, where there are two
      study.model.experts->dense_layers =
          std::min<std::int64_t>(study.model.experts->dense_layers, 1);
    }
    study.cluster.nodes = {1, {}};
    study.cluster.gpus_per_node = {1, {}};
    study.workload.sequence = {Tokens(64), {}};
    study.workload.micro_batch = {1, {}};
    PlanSpec spec;
    for (Located<std::int64_t>* const degree : {&spec.ulysses,
                                                &spec.sequence_gather,
                                                &spec.ring,
                                                &spec.tensor_parallel,
                                                &spec.mlp_tensor_parallel}) {
      degree->value = 1;
    }
    const plan::Resolution resolution = plan::resolve(study, spec);
    if (!resolution.feasibility.legal()) {
      continue;  // what is not modelled has no program
    }
    ++compared;
    const auto bytes = engine::read_memory(plan::lower(resolution.plan))
                           .by_item[static_cast<std::size_t>(MemoryItem::parameters)];
    CHECK(bytes.value() == 2 * parameter_count(study.model).value());  // bf16
  }
  CHECK(compared >= 23);
}

TEST_CASE("published counts that are exact are met exactly", "[config]") {
  CHECK(parameter_count(preset("llama-2-7b")) == Elements(6738415616));
  CHECK(parameter_count(preset("llama-2-70b")) == Elements(68976648192));
  CHECK(parameter_count(preset("llama-3.1-8b")) == Elements(8030261248));
  CHECK(parameter_count(preset("llama-3.1-70b")) == Elements(70553706496));
  CHECK(parameter_count(preset("llama-3.1-405b")) == Elements(405853388800));
  CHECK(parameter_count(preset("qwen2.5-14b")) == Elements(14770033664));
  CHECK(parameter_count(preset("gpt-neox-20b")) == Elements(20554567680));
}

TEST_CASE("the reference study's model has the study's matrices", "[config]") {
  const ModelSpec model = preset("ulysses-study-8-layer");
  // 8 layers of two LayerNorms with weight and bias: 8 * 2 * 2 * 6,144 = 196,608; no final norm.
  CHECK(parameter_count(model) == Elements(3'623'878'656 + 196'608));
  CHECK(model.vocabulary.value == 0);
  CHECK_FALSE(has_final_norm(model));
}

TEST_CASE("biases, tied embeddings and learned positions are counted", "[config]") {
  const ModelSpec model = inline_model(
      "layers: 2\nhidden: 8\nattention: {heads: 2, kv_heads: 1, head_dim: 3, bias: all}\n"
      "mlp: {kind: swiglu, width: 5, bias: true}\nnorm: layernorm\n"
      "vocabulary: {tokens: 11, tied: true}\nlearned_positions: 7\n");
  // A layer: q 8*6, k and v 8*3 each, o 6*8 = 144, biases 6+3+3+8 = 20; MLP 3*8*5 = 120, biases
  // 5+5+8 = 18; norms 2*16 = 32: 334. Twice is 668. Final norm 16, embedding 88, positions 56.
  CHECK(parameter_count(model) == Elements(828));
  CHECK(model.name == "inline");
  CHECK(agrees_with_published(model));  // nothing was published
}

TEST_CASE("experts, normalised heads, sinks and more norms are counted", "[config]") {
  const std::string base =
      "layers: 3\nhidden: 8\nnorm: rmsnorm\nvocabulary: {tokens: 11, tied: true}\n";
  // Attention: q 8*6, k and v 8*3 each, o 6*8: 144. MLP 3*8*5 = 120. Norms 2*8. A layer: 280.
  const std::string attention = "attention: {heads: 2, kv_heads: 1, head_dim: 3";
  const std::string mlp = "mlp: {kind: swiglu, width: 5}\n";
  const std::int64_t rest = 8 + 88;  // the final norm, the embedding
  CHECK(parameter_count(inline_model(base + attention + "}\n" + mlp)) == Elements(840 + rest));
  // Two norms over 3 for queries and keys, a score for each of 2 heads: 8 more in each layer.
  CHECK(parameter_count(inline_model(base + attention + ", qk_norm: true, sinks: true}\n" + mlp)) ==
        Elements(840 + 3 * 8 + rest));
  CHECK(parameter_count(inline_model(base + attention + "}\n" + mlp +
                                     "norms_per_layer: 4\nembedding_norm: true\n")) ==
        Elements(840 + 3 * 16 + 8 + rest));
  // geglu is gated, relu is not: 2*8*5 = 80 in the place of 120.
  CHECK(parameter_count(inline_model(base + attention + "}\nmlp: {kind: relu, width: 5}\n")) ==
        Elements(720 + rest));
  CHECK(parameter_count(inline_model(base + attention + "}\nmlp: {kind: geglu, width: 5}\n")) ==
        Elements(840 + rest));
  // Two layers of 4 experts and 1 shared of 3*8*2 = 48, and a router of 4*8: 272 each; one layer
  // keeps its MLP of 120.
  const std::string experts = "experts: {count: 4, per_token: 2, width: 2, shared: 1";
  CHECK(parameter_count(
            inline_model(base + attention + "}\n" + mlp + experts + ", dense_layers: 1}\n")) ==
        Elements(3 * 160 + 120 + 2 * 272 + rest));
  // With biases an expert has 2*2 + 8 = 12 more, the router 4 more: 5*60 + 36 = 336.
  CHECK(parameter_count(inline_model(base + attention + "}\nmlp: {kind: swiglu}\n" + experts +
                                     ", bias: true}\n")) == Elements(3 * (160 + 336) + rest));
}

TEST_CASE("latent attention is counted", "[config]") {
  const std::string model =
      "layers: 1\nhidden: 8\nnorm: rmsnorm\nvocabulary: none\nmlp: {kind: gelu, width: 1}\n"
      "attention:\n  heads: 2\n  kv_heads: 2\n  head_dim: 5\n"
      "  latent: {kv_rank: 4, nope_dim: 3, rope_dim: 2, value_dim: 6";
  // MLP 16, norms 16. Keys and values: 8 (4 + 2) + 4 + 4 * 2 (3 + 6) = 124; output 2 * 6 * 8 = 96.
  // Queries: 8 * 2 * 5 = 80, or by way of 7: 56 + 7 + 7 * 10 = 133.
  CHECK(parameter_count(inline_model(model + "}\n")) == Elements(32 + 124 + 96 + 80));
  CHECK(parameter_count(inline_model(model + ", query_rank: 7}\n")) ==
        Elements(32 + 124 + 96 + 133));
}

TEST_CASE("parts of a model that do not fit together are refused", "[config]") {
  const auto message = [](const std::string& yaml) -> std::string {
    try {
      static_cast<void>(inline_model(yaml));
    } catch (const Error& error) {
      return to_text(error.where()) + ": " + error.message();
    }
    return "accepted";
  };
  const std::string base =
      "layers: 2\nhidden: 8\nnorm: rmsnorm\nvocabulary: none\nmlp: {kind: gelu, width: 1}\n";
  CHECK(message(base + "attention: {heads: 2, head_dim: 4, latent: {kv_rank: 4, nope_dim: 3, "
                       "rope_dim: 2, value_dim: 6}}\n") ==
        "m.yaml:6:44: latent: 2 heads of 3 + 2 need 2 key/value heads and head_dim 5, found 2 and "
        "4");
  CHECK(message(base + "attention: {heads: 2}\nexperts: {count: 4, per_token: 5, width: 2}\n") ==
        "m.yaml:7:32: per_token: 5 of 4 experts");
  CHECK(message(base + "attention: {heads: 2}\n"
                       "experts: {count: 4, per_token: 2, width: 2, dense_layers: 2}\n") ==
        "m.yaml:7:10: dense_layers: 2 of 2 layers leave none with experts");
  CHECK(message("layers: 2\nhidden: 8\nnorm: rmsnorm\nvocabulary: none\nmlp: {kind: gelu}\n"
                "attention: {heads: 2}\n") == "m.yaml:5:6: missing key 'width' in model.mlp");
}

TEST_CASE("presets: heads that are not what they seem", "[config]") {
  CHECK(preset("falcon-7b").kv_heads.value == 1);
  CHECK(preset("qwen3-32b").head_dim.value == 128);
  CHECK(preset("qwen3-32b").hidden.value / preset("qwen3-32b").heads.value == 80);
}

TEST_CASE("attention of a model has defaults that are echoed", "[config]") {
  const Node node = read_yaml(std::make_shared<const SourceText>(
      "m.yaml",
      "layers: 2\nhidden: 64\nattention: {heads: 4}\nmlp: {kind: gelu, width: 256}\n"
      "norm: rmsnorm\nvocabulary: none\n"));
  std::vector<std::string> defaults;
  const ModelSpec model = read_model(node, Library(DataSource{}), &defaults);
  CHECK(model.kv_heads.value == 4);
  CHECK(model.head_dim.value == 16);
  CHECK(defaults == std::vector<std::string>{"model.attention.kv_heads: 4",
                                             "model.attention.head_dim: 16",
                                             "model.attention.bias: none",
                                             "model.attention.rotary: true",
                                             "model.mlp.bias: false"});
}

TEST_CASE("an overridden preset does not keep its name or its published count", "[config]") {
  const ModelSpec model = inline_model("use: llama-3.1-8b\nlayers: 16\nattention: {kv_heads: 4}\n");
  CHECK(model.name == "llama-3.1-8b with layers, attention");
  CHECK(model.layers.value == 16);
  CHECK(model.kv_heads.value == 4);
  CHECK(model.heads.value == 32);
  CHECK(to_text(model.layers.where) == "m.yaml:2:9");
  CHECK_FALSE(model.parameters_published.has_value());
}

}  // namespace
}  // namespace trireme::config
