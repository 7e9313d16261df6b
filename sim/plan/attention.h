// The attention block of a layer: out = x + attention(norm(x)), lowered one way per file.
#pragma once

#include <span>
#include <string_view>

#include "sim/plan/block.h"
#include "sim/plan/parameters.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// The narrow projections of latent attention.
struct LatentParameters {
  LinearParameters query_down;  // with a narrow query vector
  NormParameters query_norm;    // likewise
  LinearParameters query_up;    // from the input itself without one
  LinearParameters kv_down;     // the narrow vector and the shared part of the keys
  NormParameters kv_norm;
  LinearParameters kv_up;
};

struct AttentionParameters {
  Unit unit;
  NormParameters norm;
  LatentParameters latent;     // of a model that has it: no qkv then
  LinearParameters qkv;        // packed; the queries alone where keys and values have their own
  LinearParameters key_value;  // sequence_gather only
  LinearParameters output;
};

/// What latent attention leaves besides.
struct LatentTensors {
  Ref query_low;
  Ref query_low_normed;
  Ref kv_low;
  Ref kv_narrow;  // the part of kv_low that is normed
  Ref kv_low_normed;
};

/// What the forward pass leaves for the backward pass; of a recomputed layer, the second time.
struct AttentionTensors {
  Ref x;
  Ref norm_parts;  // of a norm that is computed in parts
  Ref normed;
  Ref gathered;  // the normed input of every token, where tokens are gathered
  Ref packed;    // queries, keys and values as core attention gets them, where they are packed
  Ref q;
  Ref k;
  Ref v;
  Ref o;         // as the attention kernel wrote it
  Ref o_tokens;  // as the output projection reads it
  Ref log_sum_exp;
  Ref key_value;  // of a ring: the block of keys and values with which it goes backward
  LatentTensors latent;
};

/// One row per lowering: what it declares, and what it emits going forward and backward.
struct AttentionLoweringInfo {
  AttentionLowering kind;
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  AttentionParameters (*declare)(Step& step, Parameters& parameters);
  /// Writes out, given x: both are the residual stream.
  AttentionTensors (*forward)(
      Step& step, Parameters& parameters, const AttentionParameters& block, Ref x, Ref out);
  /// Writes dx, the gradient of x, given dy, the gradient of out.
  void (*backward)(Step& step,
                   Parameters& parameters,
                   const AttentionParameters& block,
                   const AttentionTensors& saved,
                   Ref dy,
                   Ref dx);
};

[[nodiscard]] std::span<const AttentionLoweringInfo> attention_lowerings();

[[nodiscard]] const AttentionLoweringInfo& attention_lowering(AttentionLowering kind);

/// The row for a plan: of a model with latent attention its own, whatever splits heads or tokens.
[[nodiscard]] const AttentionLoweringInfo& attention_lowering(const Plan& plan);

extern const AttentionLoweringInfo kAttentionLatent;
extern const AttentionLoweringInfo kAttentionMegatron;
extern const AttentionLoweringInfo kAttentionUlysses;
extern const AttentionLoweringInfo kAttentionSequenceGather;

}  // namespace trireme::plan
