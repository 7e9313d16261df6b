#include "calibrate/probe/gpu/attention_graph.h"

#include <optional>
#include <stdexcept>

namespace trireme::calibrate::gpu {

namespace {

using Tensor = GraphBuilder::Tensor;

/// [batch, heads, tokens, head dim] over [batch, tokens, heads, head dim] in memory.
TensorSpec activation(std::int64_t batch,
                      std::int64_t heads,
                      std::int64_t tokens,
                      std::int64_t head_dim) {
  return {.type = CUDNN_DATA_BFLOAT16,
          .dims = {batch, heads, tokens, head_dim},
          .strides = {tokens * heads * head_dim, head_dim, heads * head_dim, 1},
          .is_virtual = false};
}

TensorSpec intermediate(const Extents& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  return {.type = type, .dims = dims, .strides = packed(dims)};
}

TensorSpec real(TensorSpec tensor) {
  tensor.is_virtual = false;
  return tensor;
}

TensorSpec scalar(cudnnDataType_t type) {
  return {.type = type, .is_virtual = false, .by_value = true};
}

/// Builds the graphs of one point.
class Lowering {
 public:
  explicit Lowering(const AttentionPoint& point)
      : batch_(point.sequences),
        heads_(point.heads),
        kv_heads_(point.kv_heads),
        queries_(point.query_tokens.value()),
        keys_(point.key_tokens.value()),
        head_dim_(point.head_dim),
        causal_(point.causal),
        scores_(intermediate({batch_, heads_, queries_, keys_})),
        row_(intermediate({batch_, heads_, queries_, 1})) {}

  AttentionGraph unified_forward() {
    const Tensor q = graph_.tensor(query(), attention_id::q);
    const Tensor k = graph_.tensor(key(), attention_id::k);
    const Tensor v = graph_.tensor(key(), attention_id::v);
    const Tensor scale = graph_.tensor(scalar(CUDNN_DATA_FLOAT), attention_id::scale);
    const Tensor output = graph_.tensor(query(), attention_id::output);
    const Tensor stats = graph_.tensor(real(row_), attention_id::stats);
    graph_.attention_forward(q, k, v, scale, output, stats);
    return finish();
  }

  AttentionGraph forward() {
    const Tensor q = graph_.tensor(query(), attention_id::q);
    const Tensor k_transposed = graph_.tensor(transposed(key()), attention_id::k);
    const Tensor v = graph_.tensor(key(), attention_id::v);
    const Tensor output = graph_.tensor(query(), attention_id::output);
    const Tensor stats = graph_.tensor(real(row_), attention_id::stats);
    scale_ = graph_.tensor(scalar(CUDNN_DATA_FLOAT), attention_id::scale);

    const Tensor scores = masked(scaled_scores(q, k_transposed));
    const Tensor largest = graph_.tensor(row_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
    const Tensor exponential = exp(subtract(scores, largest));
    const Tensor sum = graph_.tensor(row_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
    const Tensor log_sum = graph_.tensor(row_);
    graph_.pointwise(CUDNN_POINTWISE_LOG, sum, log_sum);
    graph_.pointwise(CUDNN_POINTWISE_ADD, largest, log_sum, stats);
    const Tensor probability =
        graph_.tensor(intermediate(scores_.dims, CUDNN_DATA_BFLOAT16));  // fp32 has no engine
    graph_.pointwise(CUDNN_POINTWISE_DIV, exponential, sum, probability);
    graph_.matmul(probability, v, output);
    return finish();
  }

  AttentionGraph backward() {
    const Tensor q = graph_.tensor(query(), attention_id::q);
    const Tensor k_transposed = graph_.tensor(transposed(key()), attention_id::k);
    const Tensor v_transposed = graph_.tensor(transposed(key()), attention_id::v);
    const Tensor output = graph_.tensor(query(), attention_id::output);
    const Tensor gradient = graph_.tensor(query(), attention_id::output_gradient);
    const Tensor stats = graph_.tensor(real(row_), attention_id::stats);
    const Tensor q_gradient = graph_.tensor(query(), attention_id::q_gradient);
    const Tensor k_gradient = graph_.tensor(key(), attention_id::k_gradient);
    const Tensor v_gradient = graph_.tensor(key(), attention_id::v_gradient);
    scale_ = graph_.tensor(scalar(CUDNN_DATA_FLOAT), attention_id::scale);

    const Tensor row_sum = sum_of_products(gradient, output);
    const Tensor probability = exp(masked(subtract(scaled_scores(q, k_transposed), stats)));

    sum_over_group(turned(probability), gradient, v_gradient);

    const Tensor probability_gradient = graph_.tensor(scores_);
    graph_.matmul(gradient, v_transposed, probability_gradient);
    const Tensor centred = subtract(probability_gradient, row_sum);
    const Tensor unscaled = multiply(centred, probability);
    const Tensor score_gradient = multiply(unscaled, scale_);

    sum_over_group(turned(score_gradient), q, k_gradient);

    const Tensor k =
        graph_.tensor({.type = CUDNN_DATA_BFLOAT16, .dims = key().dims, .strides = key().strides});
    graph_.reshape(k_transposed, k);
    const Tensor accumulator =
        graph_.tensor(real(intermediate(query().dims)), attention_id::q_accumulator);
    graph_.matmul(score_gradient, k, accumulator);
    graph_.pointwise(CUDNN_POINTWISE_IDENTITY, accumulator, q_gradient);
    return finish();
  }

 private:
  [[nodiscard]] TensorSpec query() const { return activation(batch_, heads_, queries_, head_dim_); }

  [[nodiscard]] TensorSpec key() const { return activation(batch_, kv_heads_, keys_, head_dim_); }

  Tensor subtract(Tensor x, Tensor y) {
    const Tensor result = graph_.tensor(scores_);
    graph_.pointwise(CUDNN_POINTWISE_SUB, x, y, result);
    return result;
  }

  Tensor multiply(Tensor x, Tensor y) {
    const Tensor result = graph_.tensor(scores_);
    graph_.pointwise(CUDNN_POINTWISE_MUL, x, y, result);
    return result;
  }

  Tensor exp(Tensor x) {
    const Tensor result = graph_.tensor(scores_);
    graph_.pointwise(CUDNN_POINTWISE_EXP, x, result);
    return result;
  }

  Tensor scaled_scores(Tensor q, Tensor k_transposed) {
    const Tensor scores = graph_.tensor(scores_);
    graph_.matmul(q, k_transposed, scores);
    return multiply(scores, scale_);
  }

  /// The scores where a query sees the key, minus infinity elsewhere.
  Tensor masked(Tensor scores) {
    if (!causal_) {
      return scores;
    }
    const TensorSpec indices = intermediate(scores_.dims, CUDNN_DATA_INT32);
    const Tensor row = graph_.tensor(indices);
    graph_.index(scores, 2, row);
    Tensor last_key = row;
    if (queries_ != keys_) {  // query i sees the keys up to i + keys - queries
      const Tensor keys = graph_.tensor(scalar(CUDNN_DATA_INT32), attention_id::key_tokens);
      const Tensor queries = graph_.tensor(scalar(CUDNN_DATA_INT32), attention_id::query_tokens);
      const Tensor shifted = graph_.tensor(indices);
      graph_.pointwise(CUDNN_POINTWISE_ADD, row, keys, shifted, CUDNN_DATA_INT32);
      last_key = graph_.tensor(indices);
      graph_.pointwise(CUDNN_POINTWISE_SUB, shifted, queries, last_key, CUDNN_DATA_INT32);
    }
    const Tensor column = graph_.tensor(indices);
    graph_.index(scores, 3, column);
    const Tensor keep = graph_.tensor(intermediate(scores_.dims, CUDNN_DATA_BOOLEAN));
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, last_key, column, keep, CUDNN_DATA_BOOLEAN);
    const Tensor minus_infinity =
        graph_.tensor(scalar(CUDNN_DATA_FLOAT), attention_id::minus_infinity);
    const Tensor result = graph_.tensor(scores_);
    graph_.select(scores, minus_infinity, keep, result);
    return result;
  }

  /// The sum of gradient . output over each row, in scratch memory.
  Tensor sum_of_products(Tensor gradient, Tensor output) {
    const Tensor products = graph_.tensor(intermediate(query().dims));
    graph_.pointwise(CUDNN_POINTWISE_MUL, gradient, output, products);
    const Tensor sums = graph_.tensor(row_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
    // Without dropout the keep probability that the engines expect here is one.
    const Tensor one = graph_.tensor(scalar(CUDNN_DATA_FLOAT), attention_id::one);
    const Tensor kept = graph_.tensor(real(row_), attention_id::softmax_sum);
    graph_.pointwise(CUDNN_POINTWISE_MUL, sums, one, kept);
    return kept;
  }

  /// Scores turned round: [batch, heads, keys, queries] in bf16 over the same memory.
  Tensor turned(Tensor scores) {
    TensorSpec spec = transposed(scores_);
    spec.type = CUDNN_DATA_BFLOAT16;
    const Tensor result = graph_.tensor(spec);
    graph_.reshape(scores, result);
    return result;
  }

  /// result = scores x rows, summed over the query heads that share a key/value head.
  void sum_over_group(Tensor scores, Tensor rows, Tensor result) {
    if (heads_ == kv_heads_) {
      graph_.matmul(scores, rows, result);
      return;
    }
    const Tensor of_every_head =
        graph_.tensor(intermediate({batch_, heads_, keys_, head_dim_}, CUDNN_DATA_BFLOAT16));
    graph_.matmul(scores, rows, of_every_head);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, of_every_head, result);
  }

  AttentionGraph finish() {
    const std::size_t operations = graph_.operations();
    Descriptor graph = graph_.build();
    return {
        .parts = graph_.take_descriptors(), .graph = std::move(graph), .operations = operations};
  }

  std::int64_t batch_;
  std::int64_t heads_;
  std::int64_t kv_heads_;
  std::int64_t queries_;
  std::int64_t keys_;
  std::int64_t head_dim_;
  bool causal_;
  TensorSpec scores_;
  TensorSpec row_;
  GraphBuilder graph_;
  Tensor scale_ = 0;
};

}  // namespace

AttentionGraph build_attention(const AttentionPoint& point) {
  Lowering lowering(point);
  if (point.kernel == kUnifiedAttention && !point.causal && point.pass == Pass::forward) {
    return lowering.unified_forward();
  }
  if (point.kernel != kCompositeAttention) {
    throw std::logic_error("build_attention: not a kernel of cuDNN's");
  }
  return point.pass == Pass::forward ? lowering.forward() : lowering.backward();
}

Bytes attention_scratch(const AttentionPoint& point) {
  if (point.pass == Pass::forward) {
    return Bytes(0);
  }
  const std::int64_t rows = point.sequences * point.heads * point.query_tokens.value();
  return Bytes(4 * rows * point.head_dim + 4 * rows);
}

Bytes cudnn_attention_workspace(const AttentionPoint& point) {
  constexpr Bytes kLeast(256);
  if (point.pass == Pass::forward || point.heads == point.kv_heads) {
    return kLeast;
  }
  return kLeast +
         Bytes(4 * point.sequences * point.heads * point.key_tokens.value() * point.head_dim);
}

}  // namespace trireme::calibrate::gpu
