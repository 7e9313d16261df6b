#include "sim/config/model.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "sim/config/yaml_reader.h"
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
  REQUIRE(library.names(PresetKind::model).size() >= 8);
  for (const std::string& name : library.names(PresetKind::model)) {
    CAPTURE(name);
    const ModelSpec model = preset(name);
    CHECK(model.name == name);
    CHECK_FALSE(model.source.empty());
    REQUIRE(model.parameters_published.has_value());
    CHECK_FALSE(model.parameters_source.empty());
    const std::int64_t off =
        std::abs(parameter_count(model).value() - model.parameters_published->value());
    CHECK(2 * off <= model.parameters_published_digit.value());
    CHECK(agrees_with_published(model));
  }
}

TEST_CASE("published counts that are exact are met exactly", "[config]") {
  CHECK(parameter_count(preset("llama-2-7b")) == Elements(6738415616));
  CHECK(parameter_count(preset("llama-2-70b")) == Elements(68976648192));
  CHECK(parameter_count(preset("llama-3.1-8b")) == Elements(8030261248));
  CHECK(parameter_count(preset("llama-3.1-70b")) == Elements(70553706496));
  CHECK(parameter_count(preset("llama-3.1-405b")) == Elements(405853388800));
  CHECK(parameter_count(preset("qwen2.5-14b")) == Elements(14770033664));
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
