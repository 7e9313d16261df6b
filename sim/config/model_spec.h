// A transformer as its YAML file describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/core/error.h"
#include "sim/units/units.h"

namespace trireme::config {

enum class MlpKind : std::uint8_t { gelu, swiglu };
enum class NormKind : std::uint8_t { layernorm, rmsnorm };

/// Which linear layers of a block carry a bias. For attention: none, qkv, or all (qkv and output).
enum class BiasKind : std::uint8_t { none, qkv, all };

struct ModelSpec {
  std::string name;
  Located<std::int64_t> layers;
  Located<std::int64_t> hidden;
  Located<std::int64_t> heads;     // query heads
  Located<std::int64_t> kv_heads;  // key/value heads
  Located<std::int64_t> head_dim;
  BiasKind attention_bias = BiasKind::none;
  bool rotary = true;
  MlpKind mlp_kind = MlpKind::swiglu;
  Located<std::int64_t> mlp_width;
  bool mlp_bias = false;
  NormKind norm = NormKind::rmsnorm;
  /// Rows of the embedding; 0 for `vocabulary: none` (no embedding, no head).
  Located<std::int64_t> vocabulary;
  bool tied_embeddings = false;
  /// Rows of a learned position embedding (GPT-3); 0 without one.
  std::int64_t learned_positions = 0;
  std::optional<Elements> parameters_published;
  Elements parameters_published_digit{1};  // weight of the last digit published; 1 when exact
  std::string parameters_source;
  std::string source;  // of the dimensions
};

}  // namespace trireme::config
