// A transformer as its YAML file describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/core/error.h"
#include "sim/core/vocabulary.h"
#include "sim/units/units.h"

namespace trireme::config {

/// swiglu and geglu are gated: two matrices in, one out.
enum class MlpKind : std::uint8_t { gelu, swiglu, relu, geglu };
enum class NormKind : std::uint8_t { layernorm, rmsnorm };

/// Which linear layers of a block carry a bias. For attention: none, qkv, or all (qkv and output).
enum class BiasKind : std::uint8_t { none, qkv, all };

/// Multi-head latent attention (DeepSeek): queries, and keys with values, pass through a narrow
/// vector; a key's rotary part is shared by all heads.
struct LatentAttention {
  std::int64_t query_rank = 0;  // 0: queries are projected directly
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;   // of a query or key head, without rotary embedding
  std::int64_t rope_dim = 0;   // of a query or key head, with it
  std::int64_t value_dim = 0;  // of a value head
};

/// Attention to the last `tokens` tokens only, in all layers but each `full_every`-th.
struct SlidingWindow {
  std::int64_t tokens = 0;
  std::int64_t full_every = 0;  // 0: no layer attends to everything
};

/// Experts in the place of the MLP.
struct Experts {
  std::int64_t count = 0;         // routed experts of a layer
  std::int64_t per_token = 0;     // of them, for each token
  std::int64_t width = 0;         // of one expert, routed or shared
  std::int64_t shared = 0;        // experts that every token passes
  std::int64_t dense_layers = 0;  // the first layers, which keep a plain MLP
  bool bias = false;              // of router and experts
  RouterScore score = RouterScore::softmax;
  bool normalised = true;  // the weights of a token's experts sum to one
};

struct ModelSpec {
  std::string name;
  Located<std::int64_t> layers;
  Located<std::int64_t> hidden;
  Located<std::int64_t> heads;     // query heads
  Located<std::int64_t> kv_heads;  // key/value heads
  Located<std::int64_t> head_dim;  // of queries and keys
  BiasKind attention_bias = BiasKind::none;
  bool rotary = true;          // on all of a head or a part of it: sizes do not depend on it
  bool alibi = false;          // a bias of the scores that grows with distance (BLOOM)
  bool qk_norm = false;        // queries and keys are normalised head by head (Qwen3, Gemma 3)
  bool sinks = false;          // one learned score per head beside those of the tokens (gpt-oss)
  bool score_softcap = false;  // scores pass through a tanh (Gemma 2)
  std::optional<LatentAttention> latent;
  std::optional<SlidingWindow> sliding_window;
  MlpKind mlp_kind = MlpKind::swiglu;
  Located<std::int64_t> mlp_width;  // without dense layers: of one expert
  bool mlp_bias = false;
  std::optional<Experts> experts;
  NormKind norm = NormKind::rmsnorm;
  std::int64_t norms_per_layer = 2;
  bool parallel_blocks = false;  // attention and MLP read the same input (Falcon, GPT-NeoX)
  /// Rows of the embedding; 0 for `vocabulary: none` (no embedding, no head).
  Located<std::int64_t> vocabulary;
  bool tied_embeddings = false;
  bool embedding_norm = false;  // a norm behind the embedding (BLOOM)
  bool logit_softcap = false;   // logits pass through a tanh (Gemma 2)
  /// Rows of a learned position embedding (GPT-3); 0 without one.
  std::int64_t learned_positions = 0;
  std::optional<Elements> parameters_published;
  Elements parameters_published_digit{1};  // weight of the last digit published; 1 when exact
  std::string parameters_source;
  std::string source;  // of the dimensions
};

}  // namespace trireme::config
