#include "sim/config/hugging_face.h"

#include <optional>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "sim/config/hugging_face_architectures.h"
#include "sim/config/map_reader.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"

namespace trireme::config {
namespace {

/// Which of the kinds of MLP an activation makes.
void put_mlp_kind(const ConfigReader& config, const Architecture& architecture, Draft& draft) {
  struct Activation {
    std::string_view name;
    std::string_view gated;  // empty: not known in this place
    std::string_view plain;
  };

  constexpr Activation kActivations[] = {{"silu", "swiglu", ""},
                                         {"swish", "swiglu", ""},
                                         {"gelu", "geglu", "gelu"},
                                         {"gelu_new", "geglu", "gelu"},
                                         {"gelu_fast", "geglu", "gelu"},
                                         {"gelu_pytorch_tanh", "geglu", "gelu"},
                                         {"relu", "", "relu"}};
  const auto written = config.maybe_text(kActivation);
  if (!written) {
    put(draft.mlp, "kind", std::string(architecture.mlp_kind), config.position());
    return;
  }
  const bool gated = architecture.mlp_kind.ends_with("glu");
  std::vector<std::string> accepted;
  for (const Activation& activation : kActivations) {
    const std::string_view kind = gated ? activation.gated : activation.plain;
    if (kind.empty()) {
      continue;
    }
    if (activation.name == written->first) {
      put(draft.mlp, "kind", std::string(kind), written->second);
      return;
    }
    accepted.emplace_back(activation.name);
  }
  refuse(written->second.location(),
         fmt::format("the activation {} is not known here", in_quotes(written->first)),
         hint_near(written->first, accepted));
}

void put_attention(const ConfigReader& config, const Architecture& architecture, Draft& draft) {
  const Count heads = config.count(kHeads);
  if (heads.value == 0) {
    refuse(heads.position.location(),
           "a model without attention heads",
           fmt::format("accepted: a whole number from 1, in one of {}",
                       fmt::join(std::begin(kHeads), std::end(kHeads), ", ")));
  }
  put(draft.attention, "heads", heads);
  if (const auto kv_heads = config.maybe_count(kKvHeads)) {
    put(draft.attention, "kv_heads", *kv_heads);
  } else {
    const Count assumed{architecture.kv_heads == 0 ? heads.value : architecture.kv_heads,
                        config.position()};
    put(draft.attention, "kv_heads", assumed);
  }
  if (const auto head_dim = config.maybe_count(kHeadDim)) {
    put(draft.attention, "head_dim", *head_dim);
  } else if (architecture.head_dim != 0) {
    put(draft.attention, "head_dim", {architecture.head_dim, config.position()});
  }
  put(draft.attention,
      "bias",
      architecture.attention_bias.in(config) ? std::string(architecture.attention_bias_word)
                                             : std::string("none"),
      config.where(architecture.attention_bias.key));
  put(draft.attention, "rotary", "true", config.position());
}

/// What `special` had no say in and config.json does not state is an assumption: it is noted.
void note_assumptions(const ConfigReader& config, const Draft& draft) {
  const Node* const kv_heads = draft.attention.find("kv_heads");
  if (!config.maybe_count(kKvHeads) && kv_heads->position.offset == config.position().offset &&
      draft.latent.entries.empty()) {
    config.note(kKvHeads[0], kv_heads->text);
  }
  const Node* const head_dim = draft.attention.find("head_dim");
  if (head_dim->position.offset == config.position().offset) {
    config.note(kHeadDim[0], head_dim->text);
  }
}

/// hidden / heads; Falcon, GPT-2 and most others.
void put_head_dim(const ConfigReader& config, Draft& draft) {
  if (draft.attention.find("head_dim") != nullptr) {
    return;
  }
  const std::int64_t hidden = number(draft.root, "hidden");
  const std::int64_t heads = number(draft.attention, "heads");
  if (heads == 0 || hidden % heads != 0) {
    refuse(draft.root.find("hidden")->where(),
           fmt::format("missing key 'head_dim', and hidden_size {} does not divide by {} heads",
                       hidden,
                       heads),
           "add 'head_dim'");
  }
  put(draft.attention, "head_dim", {hidden / heads, config.position()});
}

HuggingFaceModel translate(const JsonValue& json,
                           const JsonValue& whole,
                           const Architecture& architecture) {
  HuggingFaceModel model;
  const ConfigReader config(json, model.notes);
  Draft draft(json.position);
  put(draft.root,
      "source",
      fmt::format("config.json, model_type {}", architecture.model_type),
      json.position);
  put(draft.root, "layers", config.count(kLayers));
  put(draft.root, "hidden", config.count(kHidden));
  put(draft.root, "norm", std::string(architecture.norm), json.position);
  put_attention(config, architecture, draft);
  put_mlp_kind(config, architecture, draft);
  if (const auto width = config.maybe_count(kWidth)) {
    put(draft.mlp, "width", *width);
  }
  put(draft.mlp,
      "bias",
      architecture.mlp_bias.in(config) ? "true" : "false",
      config.where(architecture.mlp_bias.key));
  if (const auto vocabulary = config.maybe_count(kVocabulary)) {
    put(draft.vocabulary, "tokens", *vocabulary);
  }
  if (architecture.special != nullptr) {
    architecture.special(config, draft);
  }
  put_head_dim(config, draft);
  note_assumptions(config, draft);
  if (draft.vocabulary.find("tokens") == nullptr) {
    config.refuse_missing(kVocabulary);
  }
  if (draft.mlp.find("width") == nullptr && draft.experts.entries.empty()) {
    config.refuse_missing(kWidth);
  }
  // A nested text_config may leave the tie to the whole.
  std::vector<std::string> ignored;
  const bool outer = ConfigReader(whole, ignored).flag_or("tie_word_embeddings", architecture.tied);
  put(draft.vocabulary,
      "tied",
      config.flag_or("tie_word_embeddings", outer) ? "true" : "false",
      config.where("tie_word_embeddings"));

  const auto nest = [](Node& outer_map, std::string_view key, Node inner) {
    if (!inner.entries.empty()) {
      const Position at = inner.position;
      outer_map.set(key, at, std::move(inner));
    }
  };
  nest(draft.attention, "latent", std::move(draft.latent));
  nest(draft.attention, "sliding_window", std::move(draft.window));
  nest(draft.root, "attention", std::move(draft.attention));
  nest(draft.root, "mlp", std::move(draft.mlp));
  nest(draft.root, "experts", std::move(draft.experts));
  nest(draft.root, "vocabulary", std::move(draft.vocabulary));
  model.node = std::move(draft.root);
  return model;
}

/// The configuration of the language model, which others may be wrapped around.
const JsonValue& text_part(const JsonValue& config) {
  if (config.kind != JsonKind::object) {
    refuse(config.position.location(),
           fmt::format("expected an object, found {}", description(config.kind)),
           "is this the config.json of a model?");
  }
  const JsonValue* const text = config.find("text_config");
  if (text == nullptr) {
    return config;
  }
  if (text->kind != JsonKind::object) {
    refuse(text->position.location(),
           fmt::format("text_config: expected an object, found {}", description(text->kind)),
           "write an object in braces");
  }
  return *text;
}

const Architecture& architecture_of(const JsonValue& text, const JsonValue& whole) {
  std::vector<std::string> ignored;
  constexpr std::string_view kModelType[] = {"model_type"};
  auto written = ConfigReader(text, ignored).maybe_text(kModelType);
  if (!written) {
    written = ConfigReader(whole, ignored).maybe_text(kModelType);
  }
  if (!written) {
    refuse(whole.position.location(),
           "missing key 'model_type'",
           fmt::format("accepted: {}", fmt::join(hugging_face_model_types(), ", ")));
  }
  // A text_config may leave its type to the model around it.
  const std::string name = written->first == "gemma3" ? "gemma3_text" : written->first;
  for (const Architecture& architecture : hugging_face_architectures()) {
    if (architecture.model_type == name) {
      return architecture;
    }
  }
  refuse(
      written->second.location(),
      fmt::format("model_type {} is not known: config.json does not say which of its layers have "
                  "biases, whether its MLP is gated, which norms it has and what ties its "
                  "embeddings",
                  in_quotes(written->first)),
      fmt::format("write the model as YAML; known: {}",
                  fmt::join(hugging_face_model_types(), ", ")));
}

}  // namespace

HuggingFaceModel translate_hugging_face(const JsonValue& config) {
  const JsonValue& text = text_part(config);
  HuggingFaceModel model = translate(text, config, architecture_of(text, config));
  if (config.find("vision_config") != nullptr) {
    model.notes.emplace_back("vision_config: left out: vision encoders are not modelled");
  }
  return model;
}

std::vector<std::string> hugging_face_model_types() {
  std::vector<std::string> types;
  for (const Architecture& architecture : hugging_face_architectures()) {
    types.emplace_back(architecture.model_type);
  }
  return types;
}

}  // namespace trireme::config
