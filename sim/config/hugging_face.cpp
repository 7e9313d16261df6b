#include "sim/config/hugging_face.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "sim/config/map_reader.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::config {
namespace {

/// The names of one quantity, the most common first.
using Names = std::span<const std::string_view>;

constexpr std::string_view kHidden[] = {"hidden_size", "n_embd", "n_embed", "d_model"};
constexpr std::string_view kLayers[] = {"num_hidden_layers", "n_layer", "num_layers"};
constexpr std::string_view kHeads[] = {"num_attention_heads", "n_head"};
constexpr std::string_view kKvHeads[] = {"num_key_value_heads"};
constexpr std::string_view kFalconKvHeads[] = {"num_kv_heads", "n_head_kv"};
constexpr std::string_view kGroups[] = {"multi_query_group_num"};
constexpr std::string_view kHeadDim[] = {"head_dim"};
constexpr std::string_view kChannels[] = {"kv_channels"};
constexpr std::string_view kWidth[] = {
    "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"};
constexpr std::string_view kVocabulary[] = {"vocab_size"};
constexpr std::string_view kPaddedVocabulary[] = {"padded_vocab_size"};
constexpr std::string_view kPositions[] = {"n_positions", "max_position_embeddings"};
constexpr std::string_view kActivation[] = {
    "hidden_activation", "hidden_act", "activation_function", "activation"};
constexpr std::string_view kExperts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
constexpr std::string_view kExpertsPerToken[] = {"num_experts_per_tok", "experts_per_token"};
constexpr std::string_view kWindowPattern[] = {"sliding_window_pattern", "_sliding_window_pattern"};

/// A whole number of config.json, or derived from it.
struct Count {
  std::int64_t value = 0;
  Position position;
};

/// Reads the keys of config.json. It has many that are of no concern here, so that, unlike in a
/// file of trireme, a key that is not known is no error; one that is missing is looked for among
/// them.
class ConfigReader {
 public:
  ConfigReader(const JsonValue& config, std::vector<std::string>& notes)
      : config_(config), notes_(notes) {}

  [[nodiscard]] const Position& position() const { return config_.position; }

  /// The value under one of the names; null counts as missing. Refuses two names that differ.
  [[nodiscard]] const JsonValue* find(Names names) const {
    const JsonValue* found = nullptr;
    std::string_view found_name;
    for (const std::string_view name : names) {
      const JsonValue* const value = config_.find(name);
      if (value == nullptr || value->kind == JsonKind::null) {
        continue;
      }
      if (found == nullptr) {
        found = value;
        found_name = name;
      } else if (found->text != value->text || found->kind != value->kind) {
        throw Error(ErrorKind::input,
                    value->position.location(),
                    fmt::format("{} and {} name one quantity and differ", found_name, name),
                    "remove one of the two",
                    {{found->position.location(), fmt::format("{} stands here", found_name)}});
      }
    }
    return found;
  }

  [[nodiscard]] const JsonValue* find(std::string_view name) const { return find(Names(&name, 1)); }

  /// Whether the key is there, be it with null.
  [[nodiscard]] bool has(std::string_view name) const { return config_.find(name) != nullptr; }

  [[nodiscard]] std::optional<Count> maybe_count(Names names) const {
    const JsonValue* const value = find(names);
    return value == nullptr ? std::optional<Count>() : Count{whole_number(*value), value->position};
  }

  [[nodiscard]] Count count(Names names) const {
    const auto found = maybe_count(names);
    if (!found) {
      refuse_missing(names);
    }
    return *found;
  }

  [[nodiscard]] Count count(std::string_view name) const { return count(Names(&name, 1)); }

  /// The number, or `otherwise`, which is then noted.
  [[nodiscard]] Count count_or(Names names, std::int64_t otherwise) const {
    if (const auto found = maybe_count(names)) {
      return *found;
    }
    note(names.front(), std::to_string(otherwise));
    return {otherwise, config_.position};
  }

  /// The truth value, or `otherwise`; not noted, as most are of rare options.
  [[nodiscard]] bool flag_or(std::string_view name, bool otherwise) const {
    const JsonValue* const value = find(name);
    if (value == nullptr) {
      return otherwise;
    }
    if (value->kind != JsonKind::boolean) {
      refuse(value->position.location(),
             fmt::format("{}: expected true or false, found {}", name, description(value->kind)),
             "write true or false");
    }
    return value->text == "true";
  }

  [[nodiscard]] std::optional<std::pair<std::string, Position>> maybe_text(Names names) const {
    const JsonValue* const value = find(names);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (value->kind != JsonKind::text) {
      refuse(value->position.location(),
             fmt::format("{}: expected a text, found {}", names.front(), description(value->kind)),
             "write a text in quotes");
    }
    return std::pair(value->text, value->position);
  }

  /// Where a key stands, or the whole file when it is not there.
  [[nodiscard]] Position where(std::string_view name) const {
    const JsonValue* const value = config_.find(name);
    return value == nullptr ? config_.position : value->position;
  }

  void note(std::string_view key, std::string_view text) const {
    notes_.push_back(fmt::format("{}: {}", key, text));
  }

  [[noreturn]] void refuse_missing(Names names) const {
    std::vector<std::string> present;
    for (const JsonMember& member : config_.members) {
      present.push_back(member.key);
    }
    for (const std::string_view name : names) {
      if (const auto near = nearest(name, present); near && *near != name) {
        const auto twin = std::find_if(config_.members.begin(),
                                       config_.members.end(),
                                       [&](const JsonMember& m) { return m.key == *near; });
        refuse(twin->key_position.location(),
               fmt::format("missing key '{}', but {} stands here", name, in_quotes(*near)),
               fmt::format("did you mean '{}'?", name));
      }
    }
    refuse(config_.position.location(),
           fmt::format("missing key '{}'", names.front()),
           names.size() == 1
               ? std::string("add it to config.json")
               : fmt::format("accepted: {}", fmt::join(names.begin(), names.end(), ", ")));
  }

 private:
  static std::int64_t whole_number(const JsonValue& value) {
    if (value.kind != JsonKind::number) {
      refuse(value.position.location(),
             fmt::format("expected a whole number, found {}", description(value.kind)),
             "write a whole number without quotes");
    }
    // Beyond every bound of a model file, and small enough for sums and products of a few.
    constexpr std::int64_t kLargest = std::int64_t{1} << 30;
    try {
      return count_between(0, kLargest)(value.text);
    } catch (const BadText& bad) {
      refuse(value.position.location(), bad.what(), bad.hint());
    }
  }

  const JsonValue& config_;
  std::vector<std::string>& notes_;
};

/// The parts of a model file, filled entry by entry. Ranges are checked when it is read.
struct Draft {
  Node attention;
  Node mlp;
  Node experts;
  Node latent;
  Node window;
  Node vocabulary;
  Node root;

  explicit Draft(const Position& at)
      : attention(make_map(at)),
        mlp(make_map(at)),
        experts(make_map(at)),
        latent(make_map(at)),
        window(make_map(at)),
        vocabulary(make_map(at)),
        root(make_map(at)) {}
};

void put(Node& map, std::string_view key, std::string text, const Position& at) {
  map.set(key, at, make_text(std::move(text), at));
}

void put(Node& map, std::string_view key, const Count& count) {
  put(map, key, std::to_string(count.value), count.position);
}

/// Only what is there: a model file leaves false out.
void put_flag(Node& map, std::string_view key, bool value, const Position& at) {
  if (value) {
    put(map, key, "true", at);
  }
}

/// A choice of the class, or of a key that a configuration may have.
struct Switch {
  std::string_view key;  // empty: the class has no such key
  bool otherwise = false;

  [[nodiscard]] bool in(const ConfigReader& config) const {
    return key.empty() ? otherwise : config.flag_or(key, otherwise);
  }
};

struct Architecture {
  std::string_view model_type;
  std::string_view mlp_kind = "swiglu";  // when the activation is absent; gated or not in any case
  std::string_view norm = "rmsnorm";
  std::string_view attention_bias_word = "all";  // what a bias of attention means here
  Switch attention_bias{};
  Switch mlp_bias{};
  bool tied = false;          // when tie_word_embeddings is absent
  std::int64_t kv_heads = 0;  // when num_key_value_heads is absent; 0: as many as heads
  std::int64_t head_dim = 0;  // when head_dim is absent; 0: hidden / heads
  void (*special)(const ConfigReader& config, Draft& draft) = nullptr;
};

// What the rows below have in common is read by translate(); their `special` adds to it or replaces
// it.

std::int64_t number(const Node& map, std::string_view key) {
  return parse_count(map.find(key)->text);
}

/// Layers with a window and layers without, in the order of `layer_types`. Refuses an order other
/// than "every k-th layer, counted from 1, attends to everything".
std::int64_t full_every(const JsonValue& types) {
  if (types.kind != JsonKind::array) {
    refuse(types.position.location(),
           fmt::format("layer_types: expected a list, found {}", description(types.kind)),
           "write a list in brackets");
  }
  std::int64_t first_full = 0;
  std::int64_t layer = 0;
  for (const JsonValue& item : types.items) {
    ++layer;
    const bool full = item.text == "full_attention";
    if (item.kind != JsonKind::text || (!full && item.text != "sliding_attention")) {
      refuse(item.position.location(),
             fmt::format("layer_types: {} is not known here", in_quotes(item.text)),
             "accepted: full_attention, sliding_attention");
    }
    if (full && first_full == 0) {
      first_full = layer;
    }
    if (full != (first_full != 0 && layer % first_full == 0)) {
      refuse(item.position.location(),
             fmt::format("layer_types: layer {} breaks the pattern of one full layer in {}",
                         layer,
                         first_full),
             "write the model as YAML with sliding_window: {tokens: ..., full_every: ...}");
    }
  }
  return first_full;
}

void put_window(Draft& draft, const Count& tokens, std::int64_t every) {
  if (every == 1) {
    return;  // every layer attends to everything
  }
  put(draft.window, "tokens", tokens);
  if (every > 1) {
    put(draft.window, "full_every", std::to_string(every), tokens.position);
  }
}

/// `every`: one layer in so many is full when there is no layer_types.
void read_window(const ConfigReader& config,
                 Draft& draft,
                 std::optional<std::int64_t> default_tokens,
                 std::int64_t every) {
  const std::string_view name = "sliding_window";
  std::optional<Count> tokens = config.maybe_count(Names(&name, 1));
  if (!tokens && default_tokens && !config.has(name)) {
    tokens = config.count_or(Names(&name, 1), *default_tokens);
  }
  if (!tokens) {
    return;
  }
  const JsonValue* const types = config.find("layer_types");
  put_window(draft, *tokens, types != nullptr ? full_every(*types) : every);
}

/// Qwen's window is off unless use_sliding_window says otherwise; then the layers from
/// max_window_layers on have it.
void read_qwen_window(const ConfigReader& config, Draft& draft) {
  if (!config.flag_or("use_sliding_window", false)) {
    return;
  }
  constexpr std::string_view kFirst[] = {"max_window_layers"};
  const Count first = config.count_or(kFirst, 28);
  const std::int64_t layers = number(draft.root, "layers");
  if (first.value >= layers) {
    return;
  }
  if (first.value > 0) {
    refuse(first.position.location(),
           fmt::format("max_window_layers: the first {} of {} layers attend to everything, the "
                       "others to a window: a model file cannot say so",
                       first.value,
                       layers),
           "sliding windows in all layers, or in all but every k-th, can be said");
  }
  read_window(config, draft, 4096, 0);
}

void read_qwen2(const ConfigReader& config, Draft& draft) {
  read_qwen_window(config, draft);
}

void read_qwen3(const ConfigReader& config, Draft& draft) {
  put_flag(draft.attention, "qk_norm", true, config.position());
  read_qwen_window(config, draft);
}

void put_experts(const ConfigReader& config, Draft& draft, const Count& width) {
  put(draft.experts, "count", config.count(kExperts));
  put(draft.experts, "per_token", config.count(kExpertsPerToken));
  put(draft.experts, "width", width);
}

/// A model without plain MLPs has no width of one, whatever config.json says.
void drop_mlp_width(Draft& draft) {
  std::erase_if(draft.mlp.entries, [](const Entry& entry) { return entry.key == "width"; });
}

void put_dense_layers(Draft& draft, const Count& dense) {
  if (dense.value == 0) {
    drop_mlp_width(draft);
  } else {
    put(draft.experts, "dense_layers", dense);
  }
}

void refuse_every_other_layer(const ConfigReader& config, std::string_view key) {
  const Count step = config.maybe_count(Names(&key, 1)).value_or(Count{1, {}});
  if (step.value != 1) {
    refuse(
        step.position.location(),
        fmt::format("{}: experts in one layer of {}: a model file cannot say so", key, step.value),
        "dense layers can stand before those with experts only");
  }
}

void read_qwen3_moe(const ConfigReader& config, Draft& draft) {
  read_qwen3(config, draft);
  put_experts(config, draft, config.count("moe_intermediate_size"));
  refuse_every_other_layer(config, "decoder_sparse_step");
  const JsonValue* const dense = config.find("mlp_only_layers");
  Count dense_layers{0, config.position()};
  if (dense != nullptr) {
    if (dense->kind != JsonKind::array) {
      refuse(dense->position.location(),
             fmt::format("mlp_only_layers: expected a list, found {}", description(dense->kind)),
             "write a list in brackets");
    }
    for (const JsonValue& layer : dense->items) {
      if (layer.text != std::to_string(dense_layers.value)) {
        refuse(layer.position.location(),
               "mlp_only_layers: layers without experts that are not the first ones: a model file "
               "cannot say so",
               "accepted: 0, 1, 2, ... in this order");
      }
      ++dense_layers.value;
    }
    dense_layers.position = dense->position;
  }
  put_dense_layers(draft, dense_layers);
}

void read_mistral(const ConfigReader& config, Draft& draft) {
  read_window(config, draft, 4096, 0);
}

void read_phi3(const ConfigReader& config, Draft& draft) {
  read_window(config, draft, std::nullopt, 0);
}

void read_mixtral(const ConfigReader& config, Draft& draft) {
  read_window(config, draft, std::nullopt, 0);
  put_experts(config, draft, config.count(kWidth));
  drop_mlp_width(draft);
}

void read_softcap(const ConfigReader& config, std::string_view key, bool otherwise, Node& map) {
  const bool on = config.has(key) ? config.find(key) != nullptr : otherwise;
  put_flag(map, "softcap", on, config.where(key));
}

void read_gemma2(const ConfigReader& config, Draft& draft) {
  put(draft.root, "norms_per_layer", "4", config.position());
  read_softcap(config, "attn_logit_softcapping", true, draft.attention);
  read_softcap(config, "final_logit_softcapping", true, draft.vocabulary);
  read_window(config, draft, 4096, 2);
}

void read_gemma3(const ConfigReader& config, Draft& draft) {
  put(draft.root, "norms_per_layer", "4", config.position());
  put_flag(draft.attention, "qk_norm", true, config.position());
  read_softcap(config, "attn_logit_softcapping", false, draft.attention);
  read_softcap(config, "final_logit_softcapping", false, draft.vocabulary);
  const Count pattern = config.maybe_count(kWindowPattern).value_or(Count{6, {}});
  read_window(config, draft, 4096, pattern.value);
}

void read_gpt_oss(const ConfigReader& config, Draft& draft) {
  put_flag(draft.attention, "sinks", true, config.position());
  read_window(config, draft, 128, 2);
  put_experts(config, draft, config.count(kWidth));
  put_flag(draft.experts, "bias", true, config.position());
  drop_mlp_width(draft);
}

void read_deepseek(const ConfigReader& config, Draft& draft) {
  if (config.flag_or("attention_bias", false)) {
    refuse(config.where("attention_bias").location(),
           "attention_bias: biases in latent attention: a model file cannot say so",
           "accepted: false");
  }
  constexpr std::string_view kQueryRank[] = {"q_lora_rank"};
  if (const auto query_rank = config.maybe_count(kQueryRank)) {
    put(draft.latent, "query_rank", *query_rank);
  } else if (!config.has("q_lora_rank")) {
    config.refuse_missing(kQueryRank);  // null says that there is none; absence says nothing
  }
  const Count nope = config.count("qk_nope_head_dim");
  const Count rope = config.count("qk_rope_head_dim");
  put(draft.latent, "kv_rank", config.count("kv_lora_rank"));
  put(draft.latent, "nope_dim", nope);
  put(draft.latent, "rope_dim", rope);
  put(draft.latent, "value_dim", config.count("v_head_dim"));
  // num_key_value_heads and head_dim of config.json are not those of the heads that attend.
  put(draft.attention, "head_dim", {nope.value + rope.value, nope.position});
  put(draft.attention, "kv_heads", {number(draft.attention, "heads"), config.position()});
  put_experts(config, draft, config.count("moe_intermediate_size"));
  refuse_every_other_layer(config, "moe_layer_freq");
  constexpr std::string_view kShared[] = {"n_shared_experts"};
  if (const auto shared = config.maybe_count(kShared); shared && shared->value > 0) {
    put(draft.experts, "shared", *shared);
  }
  constexpr std::string_view kDense[] = {"first_k_dense_replace"};
  put_dense_layers(draft, config.count(kDense));
  constexpr std::string_view kNext[] = {"num_nextn_predict_layers"};
  if (const auto next = config.maybe_count(kNext); next && next->value > 0) {
    config.note("num_nextn_predict_layers",
                fmt::format("{} left out: multi-token prediction is not modelled", next->value));
  }
}

void put_four_times_hidden(const ConfigReader& config, Draft& draft) {
  if (draft.mlp.find("width") == nullptr) {
    const std::int64_t width = 4 * number(draft.root, "hidden");
    config.note("intermediate_size", std::to_string(width));
    put(draft.mlp, "width", {width, config.position()});
  }
}

void put_positions(const ConfigReader& config, Draft& draft, std::int64_t reserved) {
  Count positions = config.count(kPositions);
  positions.value += reserved;
  put(draft.root, "learned_positions", positions);
  put(draft.attention, "rotary", "false", positions.position);
}

void read_gpt2(const ConfigReader& config, Draft& draft) {
  put_positions(config, draft, 0);
  put_four_times_hidden(config, draft);
}

void read_gpt_bigcode(const ConfigReader& config, Draft& draft) {
  read_gpt2(config, draft);
  if (config.flag_or("multi_query", true)) {
    put(draft.attention, "kv_heads", {1, config.where("multi_query")});
  }
}

void read_gpt_neox(const ConfigReader& config, Draft& draft) {
  put_flag(draft.root,
           "parallel_blocks",
           config.flag_or("use_parallel_residual", true),
           config.where("use_parallel_residual"));
}

void read_opt(const ConfigReader& config, Draft& draft) {
  constexpr std::int64_t kReservedPositions = 2;  // modeling_opt.py, OPTLearnedPositionalEmbedding
  put_positions(config, draft, kReservedPositions);
  if (!config.flag_or("do_layer_norm_before", true)) {
    refuse(config.where("do_layer_norm_before").location(),
           "do_layer_norm_before: norms behind the blocks: a model file cannot say so",
           "accepted: true");
  }
  constexpr std::string_view kProjected[] = {"word_embed_proj_dim"};
  const auto projected = config.maybe_count(kProjected);
  if (projected && projected->value != number(draft.root, "hidden")) {
    refuse(
        projected->position.location(),
        fmt::format("word_embed_proj_dim: an embedding of {} beside hidden layers of {}: a model "
                    "file cannot say so",
                    projected->value,
                    number(draft.root, "hidden")),
        "accepted: the same as hidden_size");
  }
}

void read_falcon(const ConfigReader& config, Draft& draft, bool new_by_default) {
  const bool grouped = config.flag_or("new_decoder_architecture", new_by_default);
  const auto written = config.maybe_count(kFalconKvHeads);
  if (!grouped && config.flag_or("multi_query", true)) {
    put(draft.attention, "kv_heads", {1, config.where("multi_query")});
    if (written && written->value != 1) {
      config.note(kFalconKvHeads[0],
                  fmt::format("{} not used, as multi_query is set and new_decoder_architecture is "
                              "not",
                              written->value));
    }
  } else if (written) {
    put(draft.attention, "kv_heads", *written);
  }
  const bool parallel = grouped || config.flag_or("parallel_attn", true);
  put_flag(draft.root, "parallel_blocks", parallel, config.where("parallel_attn"));
  constexpr std::string_view kNorms[] = {"num_ln_in_parallel_attn"};
  const std::int64_t norms =
      grouped ? config.maybe_count(kNorms).value_or(Count{2, {}}).value : (parallel ? 1 : 2);
  if (norms != 2) {
    put(draft.root, "norms_per_layer", {norms, config.position()});
  }
  if (config.flag_or("alibi", false)) {
    put(draft.attention, "rotary", "false", config.where("alibi"));
    put_flag(draft.attention, "alibi", true, config.where("alibi"));
  }
  put_four_times_hidden(config, draft);
}

void read_bloom(const ConfigReader& config, Draft& draft) {
  put(draft.attention, "rotary", "false", config.position());
  put_flag(draft.attention, "alibi", true, config.position());
  put_flag(draft.root, "embedding_norm", true, config.position());
  put_four_times_hidden(config, draft);
}

void read_chatglm(const ConfigReader& config, Draft& draft) {
  put(draft.attention, "head_dim", config.count(kChannels));
  put(draft.vocabulary, "tokens", config.count(kPaddedVocabulary));
  if (config.flag_or("multi_query_attention", false)) {
    put(draft.attention, "kv_heads", config.count(kGroups));
  }
  if (!config.flag_or("add_bias_linear", false) && config.flag_or("add_qkv_bias", false)) {
    put(draft.attention, "bias", "qkv", config.where("add_qkv_bias"));
  }
  if (!config.flag_or("rmsnorm", true)) {
    put(draft.root, "norm", "layernorm", config.where("rmsnorm"));
  }
  if (!config.flag_or("post_layer_norm", true)) {
    refuse(config.where("post_layer_norm").location(),
           "post_layer_norm: a model without a norm behind its layers: a model file cannot say so",
           "accepted: true");
  }
}

constexpr Switch kAlways{"", true};
constexpr Switch kAttentionBias{"attention_bias", false};

constexpr std::array kArchitectures = {
    Architecture{
        .model_type = "llama", .attention_bias = kAttentionBias, .mlp_bias = {"mlp_bias", false}},
    Architecture{.model_type = "qwen2",
                 .attention_bias_word = "qkv",
                 .attention_bias = kAlways,
                 .kv_heads = 32,
                 .special = read_qwen2},
    Architecture{.model_type = "qwen3",
                 .attention_bias = kAttentionBias,
                 .kv_heads = 32,
                 .head_dim = 128,
                 .special = read_qwen3},
    Architecture{.model_type = "qwen3_moe",
                 .attention_bias = kAttentionBias,
                 .kv_heads = 4,
                 .special = read_qwen3_moe},
    Architecture{.model_type = "mistral", .kv_heads = 8, .special = read_mistral},
    Architecture{.model_type = "mixtral", .kv_heads = 8, .special = read_mixtral},
    Architecture{.model_type = "gemma2",
                 .mlp_kind = "geglu",
                 .attention_bias = kAttentionBias,
                 .tied = true,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .special = read_gemma2},
    Architecture{.model_type = "gemma3_text",
                 .mlp_kind = "geglu",
                 .attention_bias = kAttentionBias,
                 .tied = true,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .special = read_gemma3},
    Architecture{.model_type = "phi3", .special = read_phi3},
    Architecture{.model_type = "deepseek_v2", .special = read_deepseek},
    Architecture{.model_type = "deepseek_v3", .special = read_deepseek},
    Architecture{.model_type = "kimi_k2", .special = read_deepseek},
    Architecture{.model_type = "gpt_oss",
                 .attention_bias = {"attention_bias", true},
                 .kv_heads = 8,
                 .head_dim = 64,
                 .special = read_gpt_oss},
    Architecture{.model_type = "gpt2",
                 .mlp_kind = "gelu",
                 .norm = "layernorm",
                 .attention_bias = kAlways,
                 .mlp_bias = kAlways,
                 .tied = true,
                 .special = read_gpt2},
    Architecture{.model_type = "gpt_bigcode",
                 .mlp_kind = "gelu",
                 .norm = "layernorm",
                 .attention_bias = kAlways,
                 .mlp_bias = kAlways,
                 .tied = true,
                 .special = read_gpt_bigcode},
    Architecture{.model_type = "gpt_neox",
                 .mlp_kind = "gelu",
                 .norm = "layernorm",
                 .attention_bias = {"attention_bias", true},
                 .mlp_bias = kAlways,
                 .special = read_gpt_neox},
    Architecture{.model_type = "opt",
                 .mlp_kind = "relu",
                 .norm = "layernorm",
                 .attention_bias = {"enable_bias", true},
                 .mlp_bias = {"enable_bias", true},
                 .tied = true,
                 .special = read_opt},
    Architecture{.model_type = "falcon",
                 .mlp_kind = "gelu",
                 .norm = "layernorm",
                 .attention_bias = {"bias", false},
                 .mlp_bias = {"bias", false},
                 .tied = true,
                 .special = [](const ConfigReader& config,
                               Draft& draft) { read_falcon(config, draft, false); }},
    Architecture{.model_type = "RefinedWebModel",  // Falcon 7B, before transformers knew it
                 .mlp_kind = "gelu",
                 .norm = "layernorm",
                 .attention_bias = {"bias", false},
                 .mlp_bias = {"bias", false},
                 .tied = true,
                 .special = [](const ConfigReader& config,
                               Draft& draft) { read_falcon(config, draft, false); }},
    Architecture{.model_type = "RefinedWeb",  // Falcon 40B
                 .mlp_kind = "gelu",
                 .norm = "layernorm",
                 .attention_bias = {"bias", false},
                 .mlp_bias = {"bias", false},
                 .tied = true,
                 .special = [](const ConfigReader& config,
                               Draft& draft) { read_falcon(config, draft, true); }},
    Architecture{.model_type = "bloom",
                 .mlp_kind = "gelu",
                 .norm = "layernorm",
                 .attention_bias = kAlways,
                 .mlp_bias = kAlways,
                 .tied = true,
                 .special = read_bloom},
    Architecture{.model_type = "chatglm",
                 .attention_bias = {"add_bias_linear", false},
                 .mlp_bias = {"add_bias_linear", false},
                 .special = read_chatglm},
};

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
  for (const Architecture& architecture : kArchitectures) {
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
  for (const Architecture& architecture : kArchitectures) {
    types.emplace_back(architecture.model_type);
  }
  return types;
}

}  // namespace trireme::config
