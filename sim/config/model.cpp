#include "sim/config/model.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "sim/config/bounds.h"
#include "sim/config/map_reader.h"
#include "sim/config/words.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::config {
namespace {

/// A published count and the weight of its last printed digit: 70.6B is 70,600,000,000 to 10^8.
struct PublishedCount {
  Elements count;
  Elements last_digit;
};

PublishedCount parse_published(std::string_view text) {
  constexpr const char* kAccepted = "accepted: a count, such as 8030261248, or 70.6B to its digits";
  if (!text.ends_with('B')) {
    return {Elements(parse_count(text)), Elements(1)};
  }
  const std::string_view billions = text.substr(0, text.size() - 1);
  constexpr double kBillion = 1e9;
  constexpr double kLargest = 1e9;  // billions; beyond it the count would not fit
  const double value = parse_non_negative_number(billions);
  const std::size_t point = billions.find('.');
  const std::size_t decimals = point == std::string_view::npos ? 0 : billions.size() - point - 1;
  if (value > kLargest || decimals > 9 || billions.find('e') != std::string_view::npos) {
    throw BadText(fmt::format("{} is not a count of parameters", in_quotes(text)), kAccepted);
  }
  const double last_digit = std::pow(10.0, 9.0 - static_cast<double>(decimals));
  return {Elements(std::llround(value * kBillion)), Elements(std::llround(last_digit))};
}

void refuse_hugging_face(const Node& reference) {
  for (const Entry& entry : reference.entries) {
    if (entry.key == "hf") {
      refuse(entry.key_where(),
             "hf: reading a Hugging Face config.json is not supported yet",
             "name a preset (see 'trireme models') or write the model as YAML");
    }
  }
}

void read_attention(const MapReader& map, ModelSpec& model) {
  model.heads = map.required_located("heads", count_within("heads"));
  model.kv_heads =
      map.optional_located("kv_heads", count_within("kv_heads"), std::to_string(model.heads.value));
  if (model.heads.value % model.kv_heads.value != 0) {
    throw Error(
        ErrorKind::input,
        model.kv_heads.where,
        fmt::format(
            "kv_heads: {} does not divide the {} heads", model.kv_heads.value, model.heads.value),
        "give a divisor of the number of heads",
        {{model.heads.where, "the heads stand here"}});
  }
  if (map.find("head_dim") == nullptr && model.hidden.value % model.heads.value != 0) {
    refuse(map.where(),
           fmt::format("missing key 'head_dim' in {}, and hidden {} does not divide by {} heads",
                       map.path(),
                       model.hidden.value,
                       model.heads.value),
           "add 'head_dim: ...'");
  }
  model.head_dim = map.optional_located(
      "head_dim", count_within("head_dim"), std::to_string(model.hidden.value / model.heads.value));
  model.attention_bias = map.optional("bias", word_of(kBiasWords), "none");
  model.rotary = map.optional("rotary", parse_bool, "true");
}

void read_vocabulary(const MapReader& root, ModelSpec& model) {
  const Node& node = root.node("vocabulary");
  if (node.is_text()) {
    if (node.text != "none") {
      refuse(node.where(),
             fmt::format("vocabulary: {} is not known here", in_quotes(node.text)),
             "accepted: none, or {tokens: 128256, tied: false}");
    }
    model.vocabulary = {0, node.where()};
    return;
  }
  const MapReader map(node, root.path_of("vocabulary"), {"tokens", "tied"}, root.defaults());
  model.vocabulary = map.required_located("tokens", count_within("vocabulary"));
  model.tied_embeddings = map.optional("tied", parse_bool, "false");
}

}  // namespace

ModelSpec read_model(const Node& reference,
                     const Library& library,
                     std::vector<std::string>* defaults) {
  refuse_hugging_face(reference);
  const Resolved resolved = library.resolve(PresetKind::model, reference, "inline");
  const MapReader root(resolved.node,
                       "model",
                       {"version",
                        "name",
                        "source",
                        "layers",
                        "hidden",
                        "attention",
                        "mlp",
                        "norm",
                        "vocabulary",
                        "learned_positions",
                        "parameters_published"},
                       defaults);
  root.maybe("version", parse_version);
  ModelSpec model;
  model.name = root.maybe("name", parse_word).value_or(resolved.name);
  if (!resolved.overridden.empty()) {
    // Not the published model any more: a report must not call it by that name alone.
    model.name += fmt::format(" with {}", fmt::join(resolved.overridden, ", "));
  }
  model.source = root.maybe("source", parse_word).value_or("");
  model.layers = root.required_located("layers", count_within("layers"));
  model.hidden = root.required_located("hidden", count_within("hidden"));
  read_attention(MapReader(root.node("attention"),
                           "model.attention",
                           {"heads", "kv_heads", "head_dim", "bias", "rotary"},
                           defaults),
                 model);
  const MapReader mlp(root.node("mlp"), "model.mlp", {"kind", "width", "bias"}, defaults);
  model.mlp_kind = mlp.required("kind", word_of(kMlpWords));
  model.mlp_width = mlp.required_located("width", count_within("width"));
  model.mlp_bias = mlp.optional("bias", parse_bool, "false");
  model.norm = root.required("norm", word_of(kNormWords));
  read_vocabulary(root, model);
  model.learned_positions =
      root.maybe("learned_positions", count_within("learned_positions")).value_or(0);
  const auto published = root.maybe_sourced("parameters_published", parse_published);
  if (published && resolved.overridden.empty()) {
    model.parameters_published = published->value.count;
    model.parameters_published_digit = published->value.last_digit;
    model.parameters_source = published->source;
  }
  return model;
}

bool has_final_norm(const ModelSpec& model) {
  return model.vocabulary.value > 0;
}

// EQ parameter-count:  N = L * (A + M + 2 w) + w' + V h (2 - t) + R h
//   L   model.layers                                                          [layers]
//   A   attention: (2 a + 2 g) d h, its biases (a + 2 g) d and, with `all`, h  [elements]
//   M   mlp: 2 h f (gelu) or 3 h f (swiglu), its biases f + h or 2 f + h       [elements]
//   w   one norm: h (rmsnorm) or 2 h (layernorm); w' the final one, if any     [elements]
//   V   model.vocabulary rows; t is 1 when embedding and head are tied         [elements]
//   R   model.learned_positions rows                                           [elements]
// Source: touvron2023llama2, vaswani2017attention; counted tensor by tensor.
// Valid:  decoder-only transformers without experts; padding of the vocabulary left out.
// Tests:  tests/unit/config/model_test.cpp
Elements parameter_count(const ModelSpec& model) {
  const std::int64_t h = model.hidden.value;
  const std::int64_t query_width = model.heads.value * model.head_dim.value;
  const std::int64_t kv_width = model.kv_heads.value * model.head_dim.value;
  const std::int64_t f = model.mlp_width.value;
  std::int64_t attention = h * (2 * query_width + 2 * kv_width);
  if (model.attention_bias != BiasKind::none) {
    attention += query_width + 2 * kv_width;
  }
  if (model.attention_bias == BiasKind::all) {
    attention += h;
  }
  const std::int64_t inner_matrices = model.mlp_kind == MlpKind::swiglu ? 2 : 1;
  std::int64_t mlp = (inner_matrices + 1) * h * f;
  if (model.mlp_bias) {
    mlp += inner_matrices * f + h;
  }
  const std::int64_t norm = model.norm == NormKind::layernorm ? 2 * h : h;
  const std::int64_t final_norm = has_final_norm(model) ? norm : 0;
  const std::int64_t vocabulary_matrices = model.tied_embeddings ? 1 : 2;
  return Elements(model.layers.value * (attention + mlp + 2 * norm) + final_norm +
                  vocabulary_matrices * model.vocabulary.value * h + model.learned_positions * h);
}

bool agrees_with_published(const ModelSpec& model) {
  if (!model.parameters_published) {
    return true;
  }
  const std::int64_t difference =
      std::abs(parameter_count(model).value() - model.parameters_published->value());
  // Half a unit of the last digit either way; with a unit of one that leaves only equality.
  return difference <= model.parameters_published_digit.value() / 2;
}

}  // namespace trireme::config
