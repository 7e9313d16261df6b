// The architectures of Hugging Face: a row each. Included by hugging_face*.cpp alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sim/config/hugging_face_keys.h"
#include "sim/config/node.h"
#include "sim/units/text.h"

namespace trireme::config {

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

inline void put(Node& map, std::string_view key, std::string text, const Position& at) {
  map.set(key, at, make_text(std::move(text), at));
}

inline void put(Node& map, std::string_view key, const Count& count) {
  put(map, key, std::to_string(count.value), count.position);
}

/// Only what is there: a model file leaves false out.
inline void put_flag(Node& map, std::string_view key, bool value, const Position& at) {
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
  void (*special)(const ConfigReader& config, Draft& draft) = nullptr;  // what it alone has
};

/// The number that was put under a key.
inline std::int64_t number(const Node& map, std::string_view key) {
  return parse_count(map.find(key)->text);
}

/// Source: transformers, models/<model_type>/configuration_<model_type>.py for names and defaults,
/// modeling_<model_type>.py for biases and norms; for chatglm, kimi_k2 and old Falcons the code in
/// the model's own repository.
[[nodiscard]] std::span<const Architecture> hugging_face_architectures();

}  // namespace trireme::config
