// config.json of Hugging Face: every preset that has one, the oddities of each architecture, and
// what is said about wrong ones.
#include "sim/config/hugging_face.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/model.h"
#include "sim/core/files.h"
#include "tests/catch.h"
#include "tests/support/golden.h"

namespace trireme::config {
namespace {

namespace fs = std::filesystem;

const fs::path kTests = fs::path(TRIREME_SOURCE_DIR) / "tests";

/// The files of a folder with this extension, sorted.
std::vector<fs::path> files_of(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// `model: {hf: path}`.
Node reference_to(const std::string& path) {
  Node reference = make_map({});
  reference.set("hf", {}, make_text(path, {}));
  return reference;
}

ModelSpec model_of(const std::string& json, std::vector<std::string>* notes = nullptr) {
  HuggingFaceModel model =
      translate_hugging_face(read_json(std::make_shared<const SourceText>("config.json", json)));
  if (notes != nullptr) {
    *notes = model.notes;
  }
  return read_model(model.node, Library(DataSource{}));
}

/// Every dimension and feature as text, so that a difference shows where it is.
std::vector<std::string> dimensions(const ModelSpec& model) {
  std::vector<std::string> found;
  const auto say = [&](const std::string& key, auto value) {
    found.push_back(key + " " + std::to_string(static_cast<std::int64_t>(value)));
  };
  say("layers", model.layers.value);
  say("hidden", model.hidden.value);
  say("heads", model.heads.value);
  say("kv_heads", model.kv_heads.value);
  say("head_dim", model.head_dim.value);
  say("bias", model.attention_bias);
  say("rotary", model.rotary);
  say("alibi", model.alibi);
  say("qk_norm", model.qk_norm);
  say("sinks", model.sinks);
  say("score_softcap", model.score_softcap);
  const LatentAttention latent = model.latent.value_or(LatentAttention{});
  say("query_rank", latent.query_rank);
  say("kv_rank", latent.kv_rank);
  say("nope_dim", latent.nope_dim);
  say("rope_dim", latent.rope_dim);
  say("value_dim", latent.value_dim);
  const SlidingWindow window = model.sliding_window.value_or(SlidingWindow{});
  say("window", window.tokens);
  say("full_every", window.full_every);
  say("mlp", model.mlp_kind);
  say("width", model.mlp_width.value);
  say("mlp_bias", model.mlp_bias);
  const Experts experts = model.experts.value_or(Experts{});
  say("experts", experts.count);
  say("per_token", experts.per_token);
  say("expert width", experts.width);
  say("shared", experts.shared);
  say("dense_layers", experts.dense_layers);
  say("expert bias", experts.bias);
  say("norm", model.norm);
  say("norms_per_layer", model.norms_per_layer);
  say("parallel_blocks", model.parallel_blocks);
  say("vocabulary", model.vocabulary.value);
  say("tied", model.tied_embeddings);
  say("embedding_norm", model.embedding_norm);
  say("logit_softcap", model.logit_softcap);
  say("learned_positions", model.learned_positions);
  return found;
}

TEST_CASE("each config.json is read as its preset", "[config]") {
  const std::vector<fs::path> configs = files_of(kTests / "data" / "hugging_face", ".json");
  REQUIRE(configs.size() == 39);
  const Library library(DataSource{});
  for (const fs::path& config : configs) {
    const std::string name = config.stem().string();
    CAPTURE(name);
    const ModelSpec imported = read_model(reference_to(config.string()), library);
    const ModelSpec preset = read_model(make_text(name, {}), library);
    CHECK(dimensions(imported) == dimensions(preset));
    CHECK(parameter_count(imported) == parameter_count(preset));
    CHECK(imported.name == name);
    CHECK_FALSE(imported.parameters_published.has_value());
  }
}

TEST_CASE("wrong config.json: each kind has its message", "[config][golden]") {
  const std::vector<fs::path> configs = files_of(kTests / "golden" / "hugging_face", ".json");
  REQUIRE(configs.size() >= 22);
  for (const fs::path& config : configs) {
    const std::string name = config.stem().string();
    CAPTURE(name);
    std::string printed;
    try {
      const auto source =
          std::make_shared<const SourceText>(name + ".json", read_text_file(config));
      static_cast<void>(
          read_model(translate_hugging_face(read_json(source)).node, Library(DataSource{})));
    } catch (const Error& error) {
      CHECK(error.exit_code() == ExitCode::input_file);
      CHECK(error.message().find('\n') == std::string::npos);
      CHECK_FALSE(error.hint().empty());
      CHECK(error.where().line > 0);
      printed = std::string(error.what()) + "\n";
    }
    REQUIRE_FALSE(printed.empty());
    test::check_golden(fs::path("hugging_face") / (name + ".txt"), printed);
  }
}

TEST_CASE("a damaged config.json is a located error or still a model", "[config]") {
  const std::uint64_t seed = Catch::getSeed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Library library(DataSource{});
  const std::vector<fs::path> configs = files_of(kTests / "data" / "hugging_face", ".json");
  constexpr std::string_view kPieces = "{}[]\",:-0123456789eE. \\untrfalsN";
  int refused = 0;
  constexpr int kDamaged = 1500;
  for (int i = 0; i < kDamaged; ++i) {
    std::string text = read_text_file(configs[random() % configs.size()]);
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = kPieces[random() % kPieces.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          text += text.empty() ? " " : "";
          break;
        default:
          text.insert(at, 1, kPieces[random() % kPieces.size()]);
      }
    }
    CAPTURE(text);
    try {
      const ModelSpec model = read_model(
          translate_hugging_face(read_json(std::make_shared<const SourceText>("c.json", text)))
              .node,
          library);
      CHECK(parameter_count(model).value() > 0);
    } catch (const Error& error) {
      ++refused;
      CHECK(error.where().line > 0);
      CHECK_FALSE(error.message().empty());
    }
  }
  CHECK(refused > kDamaged / 10);  // the damage is real
}

/// A Llama of two layers with `more` keys.
std::string llama(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 320)" +
         more + "}";
}

TEST_CASE("Llama: what its configuration leaves out", "[config]") {
  std::vector<std::string> notes;
  const ModelSpec model = model_of(llama(""), &notes);
  CHECK(model.kv_heads.value == 4);   // as many as heads
  CHECK(model.head_dim.value == 16);  // 64 / 4
  CHECK_FALSE(model.tied_embeddings);
  CHECK(model.attention_bias == BiasKind::none);
  CHECK(notes == std::vector<std::string>{"num_key_value_heads: 4", "head_dim: 16"});

  CHECK(model_of(llama(R"(, "attention_bias": true)")).attention_bias == BiasKind::all);
  CHECK(model_of(llama(R"(, "mlp_bias": true)")).mlp_bias);
  CHECK(model_of(llama(R"(, "tie_word_embeddings": true)")).tied_embeddings);
  CHECK(model_of(llama(R"(, "head_dim": null)")).head_dim.value == 16);
  CHECK(model_of(llama(R"(, "head_dim": 24, "num_key_value_heads": 2)")).head_dim.value == 24);
  CHECK(model_of(llama(R"(, "n_layer": 2)")).layers.value == 2);  // two names that agree
}

TEST_CASE("activations name the kind of MLP; without one the class has its own", "[config]") {
  CHECK(model_of(llama("")).mlp_kind == MlpKind::swiglu);
  CHECK(model_of(llama(R"(, "hidden_act": "gelu_pytorch_tanh")")).mlp_kind == MlpKind::geglu);
  const std::string opt =
      R"({"model_type": "opt", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "ffn_dim": 256, "vocab_size": 320,
          "max_position_embeddings": 128)";
  CHECK(model_of(opt + "}").mlp_kind == MlpKind::relu);
  CHECK(model_of(opt + R"(, "activation_function": "gelu"})").mlp_kind == MlpKind::gelu);
  CHECK(model_of(opt + "}").learned_positions == 130);  // and two that are reserved
  CHECK(model_of(opt + R"(, "enable_bias": false})").attention_bias == BiasKind::none);
}

TEST_CASE("overrides are laid over a config.json", "[config]") {
  Node reference = reference_to((kTests / "data/hugging_face/qwen3-32b.json").string());
  reference.set("layers", {}, make_text("4", {}));
  std::vector<std::string> defaults;
  const ModelSpec model = read_model(reference, Library(DataSource{}), &defaults);
  CHECK(model.layers.value == 4);
  CHECK(model.head_dim.value == 128);
  CHECK(model.qk_norm);
  CHECK(model.name == "qwen3-32b with layers");
  CHECK(model.source == "config.json, model_type qwen3");

  reference.set("use", {}, make_text("llama-3.1-8b", {}));
  CHECK_THROWS_AS(read_model(reference, Library(DataSource{})), Error);
}

TEST_CASE("a value of config.json stands where it was written", "[config]") {
  const ModelSpec model = model_of(
      "{\n  \"model_type\": \"llama\", \"x\": \"a \\\"quoted\\\" text\",\n"
      "  \"num_attention_heads\":4 , \"hidden_size\": 64,\n"
      "  \"num_hidden_layers\": 2, \"intermediate_size\": 128,\"vocab_size\":320}");
  CHECK(to_text(model.heads.where) == "config.json:3:25");
  CHECK(to_text(model.hidden.where) == "config.json:3:44");
  CHECK(to_text(model.vocabulary.where) == "config.json:4:65");
}

TEST_CASE("Falcon: which of its names of key/value heads counts", "[config]") {
  const auto falcon = [](const std::string& more) {
    return model_of(R"({"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2,
                        "num_attention_heads": 8, "vocab_size": 320)" +
                    more + "}");
  };
  CHECK(falcon(R"(, "num_kv_heads": 8, "multi_query": true)").kv_heads.value == 1);
  CHECK(falcon("").kv_heads.value == 1);  // multi_query is the default of its class
  CHECK(falcon(R"(, "multi_query": false)").kv_heads.value == 8);
  CHECK(falcon(R"(, "multi_query": false, "num_kv_heads": 2)").kv_heads.value == 2);
  const ModelSpec grouped =
      falcon(R"(, "num_kv_heads": 2, "multi_query": true, "new_decoder_architecture": true)");
  CHECK(grouped.kv_heads.value == 2);
  CHECK(grouped.norms_per_layer == 2);
  CHECK(grouped.parallel_blocks);
  CHECK(falcon("").norms_per_layer == 1);
  CHECK(falcon(R"(, "parallel_attn": false)").norms_per_layer == 2);
  CHECK_FALSE(falcon(R"(, "parallel_attn": false)").parallel_blocks);
  CHECK(falcon("").mlp_width.value == 256);  // 4 x 64
  CHECK(falcon(R"(, "alibi": true)").alibi);
  CHECK_FALSE(falcon(R"(, "alibi": true)").rotary);

  SECTION("as it was called before transformers knew it") {
    const ModelSpec old = model_of(
        R"({"model_type": "RefinedWeb", "hidden_size": 64, "n_layer": 2, "n_head": 8,
            "n_head_kv": 4, "vocab_size": 320})");
    CHECK(old.kv_heads.value == 4);
    CHECK(old.layers.value == 2);
  }
}

TEST_CASE("sliding windows: on, off and in some layers", "[config]") {
  const auto window_of = [](const std::string& type, const std::string& more) {
    return model_of(R"({"model_type": ")" + type +
                    R"(", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8,
                        "num_key_value_heads": 4, "head_dim": 8, "intermediate_size": 128,
                        "vocab_size": 320)" +
                    more + "}")
        .sliding_window;
  };
  CHECK(window_of("mistral", "")->tokens == 4096);  // the default of its class
  CHECK(window_of("mistral", "")->full_every == 0);
  CHECK_FALSE(window_of("mistral", R"(, "sliding_window": null)").has_value());
  CHECK_FALSE(window_of("qwen2", R"(, "sliding_window": 512)").has_value());
  CHECK(window_of("qwen2",
                  R"(, "sliding_window": 512, "use_sliding_window": true,
                     "max_window_layers": 0)")
            ->tokens == 512);
  CHECK_FALSE(window_of("qwen2",
                        R"(, "sliding_window": 512, "use_sliding_window": true,
                           "max_window_layers": 4)")
                  .has_value());
  CHECK(window_of("gemma2", "")->full_every == 2);
  CHECK(window_of("gemma3_text", "")->full_every == 6);
  CHECK(window_of("gemma3_text", R"(, "sliding_window_pattern": 3)")->full_every == 3);
  CHECK(window_of("gemma2",
                  R"(, "layer_types": ["sliding_attention", "sliding_attention",
                     "full_attention", "sliding_attention"])")
            ->full_every == 3);
  CHECK_FALSE(window_of("gemma2",
                        R"(, "layer_types": ["full_attention", "full_attention",
                           "full_attention", "full_attention"])")
                  .has_value());
}

TEST_CASE("a nested text_config may leave its type and its tie to the whole", "[config]") {
  const std::string text = R"("hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128)";
  std::vector<std::string> notes;
  const ModelSpec model = model_of(
      R"({"model_type": "gemma3", "tie_word_embeddings": false, "vision_config": {},
          "text_config": {)" +
          text + R"(, "num_attention_heads": 8, "vocab_size": 320}})",
      &notes);
  CHECK(model.kv_heads.value == 4);  // the defaults of its class
  CHECK(model.head_dim.value == 256);
  CHECK_FALSE(model.tied_embeddings);
  CHECK(std::find(notes.begin(),
                  notes.end(),
                  "vision_config: left out: vision encoders are not modelled") != notes.end());
  CHECK(model_of(R"({"model_type": "gemma3_text", "num_attention_heads": 8, "vocab_size": 320, )" +
                 text + "}")
            .tied_embeddings);  // the default of its class
}

TEST_CASE("latent attention: its heads are not those of config.json", "[config]") {
  const std::string json =
      R"({"model_type": "deepseek_v2", "hidden_size": 64, "num_hidden_layers": 3,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
          "vocab_size": 320, "q_lora_rank": null, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
          "qk_rope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 8, "num_experts_per_tok": 2,
          "moe_intermediate_size": 32, "n_shared_experts": null, "first_k_dense_replace": 1})";
  const ModelSpec model = model_of(json);
  CHECK(model.kv_heads.value == 4);
  CHECK(model.head_dim.value == 12);
  REQUIRE(model.latent.has_value());
  CHECK(model.latent->query_rank == 0);
  REQUIRE(model.experts.has_value());
  CHECK(model.experts->shared == 0);
  CHECK(model.experts->dense_layers == 1);
  CHECK(model.mlp_width.value == 128);
  CHECK(model.experts->score == RouterScore::softmax);
  CHECK(model.experts->normalised);
  const std::string router = R"(, "scoring_func": "sigmoid", "norm_topk_prob": false})";
  const ModelSpec routed = model_of(json.substr(0, json.size() - 1) + router);
  REQUIRE(routed.experts.has_value());
  CHECK(routed.experts->score == RouterScore::sigmoid);
  CHECK_FALSE(routed.experts->normalised);
}

TEST_CASE("multi-query attention of other names", "[config]") {
  const auto bigcode = [](const std::string& more) {
    return model_of(R"({"model_type": "gpt_bigcode", "n_embd": 64, "n_layer": 2, "n_head": 8,
                        "n_positions": 128, "vocab_size": 320)" +
                    more + "}");
  };
  CHECK(bigcode("").kv_heads.value == 1);
  CHECK(bigcode(R"(, "multi_query": false)").kv_heads.value == 8);
  CHECK(bigcode(R"(, "n_inner": null)").mlp_width.value == 256);  // 4 x 64
  const std::string glm =
      R"({"model_type": "chatglm", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 8,
          "kv_channels": 8, "ffn_hidden_size": 96, "padded_vocab_size": 320)";
  CHECK(model_of(glm + "}").kv_heads.value == 8);
  const ModelSpec grouped =
      model_of(glm + R"(, "multi_query_attention": true, "multi_query_group_num": 2,
                        "add_qkv_bias": true})");
  CHECK(grouped.kv_heads.value == 2);
  CHECK(grouped.attention_bias == BiasKind::qkv);
  CHECK(model_of(glm + R"(, "add_bias_linear": true})").attention_bias == BiasKind::all);
}

}  // namespace
}  // namespace trireme::config
