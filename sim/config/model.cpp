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

bool flag(const MapReader& map, std::string_view key) {
  return map.maybe(key, parse_bool).value_or(false);
}

/// Features that few models have are switched on by their key; a model without it has none, and
/// nothing is echoed.
void read_attention_features(const MapReader& map, ModelSpec& model) {
  model.alibi = flag(map, "alibi");
  model.qk_norm = flag(map, "qk_norm");
  model.sinks = flag(map, "sinks");
  model.score_softcap = flag(map, "softcap");
  if (const Node* node = map.find("latent")) {
    const MapReader latent(*node,
                           map.path_of("latent"),
                           {"query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim"});
    model.latent =
        LatentAttention{.query_rank = latent.maybe("query_rank", count_within("rank")).value_or(0),
                        .kv_rank = latent.required("kv_rank", count_within("rank")),
                        .nope_dim = latent.required("nope_dim", count_within("head_dim")),
                        .rope_dim = latent.required("rope_dim", count_within("head_dim")),
                        .value_dim = latent.required("value_dim", count_within("head_dim"))};
    const std::int64_t whole = model.latent->nope_dim + model.latent->rope_dim;
    if (model.head_dim.value != whole || model.kv_heads.value != model.heads.value) {
      refuse(latent.where(),
             fmt::format("latent: {} heads of {} + {} need {} key/value heads and head_dim {}, "
                         "found {} and {}",
                         model.heads.value,
                         model.latent->nope_dim,
                         model.latent->rope_dim,
                         model.heads.value,
                         whole,
                         model.kv_heads.value,
                         model.head_dim.value),
             "every head has its own keys and values once they are projected up");
    }
  }
  if (const Node* node = map.find("sliding_window")) {
    const MapReader window(*node, map.path_of("sliding_window"), {"tokens", "full_every"});
    model.sliding_window = SlidingWindow{
        .tokens = window.required("tokens", count_within("window")),
        .full_every = window.maybe("full_every", count_within("full_every")).value_or(0)};
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
  read_attention_features(map, model);
}

void read_experts(const MapReader& root, ModelSpec& model) {
  const Node* const node = root.find("experts");
  if (node == nullptr) {
    return;
  }
  const MapReader map(
      *node,
      root.path_of("experts"),
      {"count", "per_token", "width", "shared", "dense_layers", "bias", "score", "normalised"});
  const auto per_token = map.required_located("per_token", count_within("experts"));
  model.experts =
      Experts{.count = map.required("count", count_within("experts")),
              .per_token = per_token.value,
              .width = map.required("width", count_within("width")),
              .shared = map.maybe("shared", count_within("shared")).value_or(0),
              .dense_layers = map.maybe("dense_layers", count_within("dense_layers")).value_or(0),
              .bias = flag(map, "bias"),
              .score = map.maybe("score", word_of(kRouterWords)).value_or(RouterScore::softmax),
              .normalised = map.maybe("normalised", parse_bool).value_or(true)};
  if (model.experts->per_token > model.experts->count) {
    refuse(
        per_token.where,
        fmt::format("per_token: {} of {} experts", model.experts->per_token, model.experts->count),
        "a token cannot pass more experts than there are");
  }
  if (model.experts->dense_layers >= model.layers.value) {
    refuse(map.where(),
           fmt::format("dense_layers: {} of {} layers leave none with experts",
                       model.experts->dense_layers,
                       model.layers.value),
           "leave experts out of a dense model");
  }
}

/// A model whose layers all have experts has no plain MLP, so no width of one.
void read_mlp(const MapReader& root, ModelSpec& model) {
  read_experts(root, model);
  const MapReader map(root.node("mlp"), "model.mlp", {"kind", "width", "bias"}, root.defaults());
  model.mlp_kind = map.required("kind", word_of(kMlpWords));
  const bool only_experts = model.experts && model.experts->dense_layers == 0;
  if (only_experts && map.find("width") == nullptr) {
    model.mlp_width = {model.experts->width, map.where()};
  } else {
    model.mlp_width = map.required_located("width", count_within("width"));
  }
  model.mlp_bias = map.optional("bias", parse_bool, "false");
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
  const MapReader map(
      node, root.path_of("vocabulary"), {"tokens", "tied", "softcap"}, root.defaults());
  model.vocabulary = map.required_located("tokens", count_within("vocabulary"));
  model.tied_embeddings = map.optional("tied", parse_bool, "false");
  model.logit_softcap = flag(map, "softcap");
}

}  // namespace

ModelSpec read_model(const Node& reference,
                     const Library& library,
                     std::vector<std::string>* defaults) {
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
                        "experts",
                        "norm",
                        "norms_per_layer",
                        "parallel_blocks",
                        "embedding_norm",
                        "vocabulary",
                        "learned_positions",
                        "parameters_published"},
                       defaults);
  if (defaults != nullptr) {
    for (const std::string& note : resolved.notes) {
      defaults->push_back("model.hf." + note);
    }
  }
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
                           {"heads",
                            "kv_heads",
                            "head_dim",
                            "bias",
                            "rotary",
                            "alibi",
                            "qk_norm",
                            "sinks",
                            "softcap",
                            "latent",
                            "sliding_window"},
                           defaults),
                 model);
  read_mlp(root, model);
  model.norm = root.required("norm", word_of(kNormWords));
  model.norms_per_layer =
      root.maybe("norms_per_layer", count_within("norms_per_layer")).value_or(2);
  model.parallel_blocks = flag(root, "parallel_blocks");
  model.embedding_norm = flag(root, "embedding_norm");
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

namespace {

/// Elements of one norm over `width` features.
std::int64_t norm_elements(const ModelSpec& model, std::int64_t width) {
  return model.norm == NormKind::layernorm ? 2 * width : width;
}

// EQ latent-attention-parameters:  A = h c + w(c) + c a (n + r) + h (k + r) + w(k) + k a (n + v) +
// a v h
//   a   heads                                                                  [heads]
//   h   hidden                                                                 [elements]
//   c   latent.query_rank; without it the first three terms are h a (n + r)    [elements]
//   k   latent.kv_rank                                                         [elements]
//   n   latent.nope_dim; r latent.rope_dim; v latent.value_dim                 [elements]
//   w   norm_elements: the two norms of the narrow vectors                     [elements]
// Source: deepseek2024-v2, section 2.1; transformers, modeling_deepseek_v3.py.
// Valid:  no biases.
// Tests:  tests/unit/config/model_test.cpp
std::int64_t latent_attention_parameters(const ModelSpec& model) {
  const LatentAttention& latent = *model.latent;
  const std::int64_t h = model.hidden.value;
  const std::int64_t query_width = model.heads.value * (latent.nope_dim + latent.rope_dim);
  const std::int64_t queries =
      latent.query_rank == 0 ? h * query_width
                             : h * latent.query_rank + norm_elements(model, latent.query_rank) +
                                   latent.query_rank * query_width;
  const std::int64_t keys_and_values =
      h * (latent.kv_rank + latent.rope_dim) + norm_elements(model, latent.kv_rank) +
      latent.kv_rank * model.heads.value * (latent.nope_dim + latent.value_dim);
  return queries + keys_and_values + model.heads.value * latent.value_dim * h;
}

// EQ attention-parameters:  A = (2 a + 2 g) d h + b + 2 w(d) q + a s
//   a   heads, g kv_heads                                                      [heads]
//   d   head_dim, h hidden                                                     [elements]
//   b   biases: (a + 2 g) d and, with `all`, h                                 [elements]
//   q   1 with qk_norm, else 0; w(d) norm_elements of a head                   [1]
//   s   1 with sinks, else 0                                                   [1]
// Source: vaswani2017attention; ainslie2023-gqa; transformers, modeling_qwen3.py,
//         modeling_gpt_oss.py.
// Valid:  one query projection, one each for keys and values, one output projection.
// Tests:  tests/unit/config/model_test.cpp
std::int64_t attention_parameters(const ModelSpec& model) {
  if (model.latent) {
    return latent_attention_parameters(model);
  }
  const std::int64_t h = model.hidden.value;
  const std::int64_t query_width = model.heads.value * model.head_dim.value;
  const std::int64_t kv_width = model.kv_heads.value * model.head_dim.value;
  std::int64_t count = h * (2 * query_width + 2 * kv_width);
  if (model.attention_bias != BiasKind::none) {
    count += query_width + 2 * kv_width;
  }
  if (model.attention_bias == BiasKind::all) {
    count += h;
  }
  if (model.qk_norm) {
    count += 2 * norm_elements(model, model.head_dim.value);
  }
  return model.sinks ? count + model.heads.value : count;
}

// EQ mlp-parameters:  M = (i + 1) h f + (i f + h) b
//   i   matrices in: 2 when gated (swiglu, geglu), 1 otherwise                 [1]
//   h   hidden, f width                                                        [elements]
//   b   1 with biases, else 0                                                  [1]
// Source: vaswani2017attention; shazeer2020-glu.
// Valid:  one MLP, or one expert.
// Tests:  tests/unit/config/model_test.cpp
std::int64_t mlp_parameters(const ModelSpec& model, std::int64_t width, bool bias) {
  const std::int64_t h = model.hidden.value;
  const bool gated = model.mlp_kind == MlpKind::swiglu || model.mlp_kind == MlpKind::geglu;
  const std::int64_t matrices_in = gated ? 2 : 1;
  return (matrices_in + 1) * h * width + (bias ? matrices_in * width + h : 0);
}

// EQ expert-layer-parameters:  E = (x + s) M(f) + x (h + b)
//   x   experts.count, s experts.shared                                        [experts]
//   M   mlp-parameters of one expert of width f = experts.width                [elements]
//   h   hidden: the router has one row per expert; b 1 with its bias, else 0   [elements]
// Source: fedus2022-switch; dai2024-deepseekmoe; transformers, modeling_mixtral.py.
// Valid:  shared experts as wide as routed ones; the buffer that balances the routing of
//         DeepSeek-V3 is not trained by gradients and left out.
// Tests:  tests/unit/config/model_test.cpp
std::int64_t expert_layer_parameters(const ModelSpec& model) {
  const Experts& experts = *model.experts;
  return (experts.count + experts.shared) * mlp_parameters(model, experts.width, experts.bias) +
         experts.count * (model.hidden.value + (experts.bias ? 1 : 0));
}

}  // namespace

// EQ parameter-count:  N = L (A + k w) + D M + (L - D) E + w' + V h (2 - t) + R h
//   L   model.layers; D of them have a plain MLP: all without experts,
//       experts.dense_layers with                                              [layers]
//   A   attention-parameters or latent-attention-parameters                    [elements]
//   M   mlp-parameters; E expert-layer-parameters                              [elements]
//   w   one norm: h (rmsnorm) or 2 h (layernorm); k norms_per_layer; w' the
//       final one and the embedding's, where there are any                     [elements]
//   V   model.vocabulary rows; t is 1 when embedding and head are tied         [elements]
//   R   model.learned_positions rows                                           [elements]
// Source: touvron2023llama2, vaswani2017attention; counted tensor by tensor.
// Valid:  decoder-only transformers; padding of the vocabulary, multi-token prediction and vision
//         encoders left out.
// Tests:  tests/unit/config/model_test.cpp
Elements parameter_count(const ModelSpec& model) {
  const std::int64_t h = model.hidden.value;
  const std::int64_t layers = model.layers.value;
  const std::int64_t dense_layers = model.experts ? model.experts->dense_layers : layers;
  const std::int64_t norm = norm_elements(model, h);
  std::int64_t count = layers * (attention_parameters(model) + model.norms_per_layer * norm) +
                       dense_layers * mlp_parameters(model, model.mlp_width.value, model.mlp_bias);
  if (model.experts) {
    count += (layers - dense_layers) * expert_layer_parameters(model);
  }
  count += (has_final_norm(model) ? norm : 0) + (model.embedding_norm ? norm : 0);
  const std::int64_t vocabulary_matrices = model.tied_embeddings ? 1 : 2;
  return Elements(count + vocabulary_matrices * model.vocabulary.value * h +
                  model.learned_positions * h);
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
