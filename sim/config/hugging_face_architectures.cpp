#include "sim/config/hugging_face_architectures.h"

#include <array>
#include <optional>
#include <string>

#include <fmt/core.h>

#include "sim/config/map_reader.h"
#include "sim/core/printable.h"

namespace trireme::config {
namespace {

// What the rows have in common is read by translate() in hugging_face.cpp; their `special` adds to
// it or replaces it.

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
  constexpr std::string_view kScore[] = {"scoring_func"};
  if (const auto score = config.maybe_text(kScore)) {
    put(draft.experts, "score", score->first, score->second);
  }
  if (config.has("norm_topk_prob")) {
    put(draft.experts,
        "normalised",
        config.flag_or("norm_topk_prob", true) ? "true" : "false",
        config.where("norm_topk_prob"));
  }
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

}  // namespace

std::span<const Architecture> hugging_face_architectures() {
  return kArchitectures;
}

}  // namespace trireme::config
