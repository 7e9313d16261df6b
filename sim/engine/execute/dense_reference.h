// The model on one rank: no plan, no step program, no kernels of the executor. What every plan has
// to reproduce.
//
// Written apart from the kernels on purpose: whole S x S matrices of attention, plain loops.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/execute/kernel.h"

namespace trireme::engine {

/// Latent attention: see config::LatentAttention.
struct DenseLatent {
  std::int64_t query_rank = 0;  // 0: queries from the input itself
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;
};

/// Experts in the layers from `dense_layers` on.
struct DenseExperts {
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  std::int64_t width = 0;
  std::int64_t shared = 0;
  std::int64_t dense_layers = 0;
  bool sigmoid = false;    // else softmax over all experts
  bool normalised = true;  // the weights of a token's experts sum to one
};

/// The model's dimensions and options, as plain numbers.
struct DenseModel {
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t mlp_width = 1;
  std::int64_t vocabulary = 0;     // 0: no embedding and no head
  std::int64_t position_rows = 0;  // of a learned position embedding; 0: none
  bool swiglu = true;              // else GELU, in its tanh form
  bool rmsnorm = true;             // else LayerNorm
  bool rotary = true;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool tied_embeddings = false;
  bool causal = true;
  std::optional<DenseLatent> latent;
  std::optional<DenseExperts> experts;

  /// The head dimension of values.
  [[nodiscard]] std::int64_t value_dim() const { return latent ? latent->value_dim : head_dim; }

  [[nodiscard]] bool has_experts(std::int64_t layer) const {
    return experts && layer >= experts->dense_layers;
  }

  [[nodiscard]] std::int64_t queries_per_group() const { return heads / kv_heads; }
};

/// One parameter in its logical shape, row-major.
///
/// The qkv weight's rows are ordered [group][queries of the group, key, value][head dim], the up
/// weight's of SwiGLU [width][gate, up]; weights are [out, in].
struct DenseParameter {
  std::string name;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  bool per_layer = false;
  std::int64_t first_layer = 0;  // of those that have it, if per_layer
  std::int64_t layers = 1;       // that have it

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

/// The parameters of a model, in the order of the forward pass.
[[nodiscard]] std::vector<DenseParameter> dense_parameters(const DenseModel& model);

/// Values by parameter name: one entry per layer, empty for layers that do not have it, or a single
/// one.
using DenseValues = std::map<std::string, std::vector<std::vector<double>>>;

/// A zero for every parameter.
[[nodiscard]] DenseValues dense_zeros(const DenseModel& model);

/// All sequences of one step, one after another.
struct DenseBatch {
  std::int64_t sequences = 1;
  std::int64_t sequence = 1;         // tokens of each
  std::vector<std::int64_t> ids;     // with a vocabulary
  std::vector<std::int64_t> labels;  // with a vocabulary
  std::vector<double> input;         // [sequences, sequence, hidden], without one
  /// The experts of every token, [sequences, sequence, per_token], layer by layer, and whether each
  /// of them has a slot for the token; empty for layers without experts.
  std::vector<std::vector<std::int64_t>> experts;
  std::vector<std::vector<bool>> kept;
};

struct DenseResult {
  double loss = 0;                     // mean over the tokens of the step
  std::vector<double> output;          // the last residual stream [sequences, sequence, hidden]
  std::vector<double> input_gradient;  // of the first residual stream
  DenseValues gradients;
  double gradient_norm = 0;  // of all parameters together
};

/// Forward and backward pass over a step. The loss is the mean cross entropy of the step's tokens,
/// or half the sum of squares of the output over the number of tokens for a model without
/// vocabulary. Throws std::out_of_range when a parameter is missing.
[[nodiscard]] DenseResult dense_step(const DenseModel& model,
                                     const ExecutionConstants& constants,
                                     const DenseValues& parameters,
                                     const DenseBatch& batch);

struct DenseMoments {
  DenseValues first;
  DenseValues second;
};

/// One AdamW step in place, after scaling gradients down to the largest norm when `clip`.
void dense_adamw(const ExecutionConstants& constants,
                 bool clip,
                 const DenseResult& result,
                 DenseValues& parameters,
                 DenseMoments& moments);

}  // namespace trireme::engine
