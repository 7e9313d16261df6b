#include "sim/engine/execute/dense_reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <Eigen/Dense>

namespace trireme::engine {

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;
using ConstMap = Eigen::Map<const Matrix>;
using MutableMap = Eigen::Map<Matrix>;

/// One sequence on its way through one layer: what the backward pass needs again.
struct LayerTrace {
  Matrix x;
  Matrix normed;
  Matrix query_low;  // of latent attention
  Matrix query_low_normed;
  Matrix kv_low;
  Matrix kv_low_normed;
  Matrix qkv;  // queries and keys rotated
  std::vector<Matrix> probabilities;
  Matrix o;
  Matrix between;
  Matrix between_normed;
  Matrix up;
  Matrix activation;
  Matrix logits;  // of a router
  Matrix scores;
};

/// Keeps the clipping factor finite for a gradient of zero.
/// Source: pytorch, torch/nn/utils/clip_grad.py, clip_grad_norm_
constexpr double kClipEpsilon = 1e-6;

double sigmoid(double z) {
  return 1.0 / (1.0 + std::exp(-z));
}

/// u of gelu(x) = x / 2 (1 + tanh u).
double gelu_argument(double x) {
  return std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(gelu_argument(x)));
}

double gelu_slope(double x) {
  const double t = std::tanh(gelu_argument(x));
  const double du = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x * x);
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du;
}

/// Runs the sequences of a step one after another.
class DenseRun {
 public:
  DenseRun(const DenseModel& model,
           const ExecutionConstants& constants,
           const DenseValues& parameters,
           const DenseBatch& batch)
      : model_(model), constants_(constants), parameters_(parameters), batch_(batch) {
    for (const DenseParameter& parameter : dense_parameters(model)) {
      columns_[parameter.name] = parameter.columns;
    }
    tokens_ = batch.sequence;
    result_.gradients = dense_zeros(model);
    result_.output.resize(static_cast<std::size_t>(batch.sequences * tokens_ * model.hidden));
    result_.input_gradient.resize(result_.output.size());
    per_token_ = 1.0 / static_cast<double>(batch.sequences * tokens_);
  }

  DenseResult run() {
    for (sequence_ = 0; sequence_ < batch_.sequences; ++sequence_) {
      run_sequence();
    }
    double squares = 0;
    for (const auto& [name, instances] : result_.gradients) {
      for (const std::vector<double>& values : instances) {
        for (const double value : values) {
          squares += value * value;
        }
      }
    }
    result_.gradient_norm = std::sqrt(squares);
    return std::move(result_);
  }

 private:
  [[nodiscard]] ConstMap parameter(const std::string& name, std::int64_t layer = 0) const {
    const std::vector<double>& values = parameters_.at(name).at(static_cast<std::size_t>(layer));
    const std::int64_t columns = columns_.at(name);
    return {values.data(), static_cast<std::int64_t>(values.size()) / columns, columns};
  }

  [[nodiscard]] MutableMap gradient(const std::string& name, std::int64_t layer = 0) {
    std::vector<double>& values = result_.gradients.at(name).at(static_cast<std::size_t>(layer));
    const std::int64_t columns = columns_.at(name);
    return {values.data(), static_cast<std::int64_t>(values.size()) / columns, columns};
  }

  [[nodiscard]] bool has(const std::string& name) const { return columns_.count(name) != 0; }

  [[nodiscard]] std::size_t token(std::int64_t position) const {
    return static_cast<std::size_t>(sequence_ * tokens_ + position);
  }

  void run_sequence() {
    Matrix x = embed();
    std::vector<LayerTrace> traces(static_cast<std::size_t>(model_.layers));
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      x = layer_forward(layer, x, traces[static_cast<std::size_t>(layer)]);
    }
    store(x, result_.output);
    Matrix dx = loss_and_gradient(x);
    for (std::int64_t layer = model_.layers - 1; layer >= 0; --layer) {
      dx = layer_backward(layer, dx, traces[static_cast<std::size_t>(layer)]);
    }
    store(dx, result_.input_gradient);
    embed_backward(dx);
  }

  void store(const Matrix& x, std::vector<double>& where) const {
    MutableMap(where.data() + sequence_ * tokens_ * model_.hidden, tokens_, model_.hidden) = x;
  }

  [[nodiscard]] Matrix embed() const {
    if (model_.vocabulary == 0) {
      return ConstMap(
          batch_.input.data() + sequence_ * tokens_ * model_.hidden, tokens_, model_.hidden);
    }
    Matrix x(tokens_, model_.hidden);
    for (std::int64_t t = 0; t < tokens_; ++t) {
      x.row(t) = parameter("embedding table").row(batch_.ids[token(t)]);
      if (model_.position_rows > 0) {
        x.row(t) += parameter("position table").row(t);
      }
    }
    return x;
  }

  void embed_backward(const Matrix& dx) {
    if (model_.vocabulary == 0) {
      return;
    }
    for (std::int64_t t = 0; t < tokens_; ++t) {
      gradient("embedding table").row(batch_.ids[token(t)]) += dx.row(t);
      if (model_.position_rows > 0) {
        gradient("position table").row(t) += dx.row(t);
      }
    }
  }

  /// Centred (LayerNorm) and scaled to unit mean square.
  struct Normalised {
    Vector unit;
    double inverse_deviation = 1;
  };

  [[nodiscard]] Normalised normalise(const Vector& x) const {
    const double mean = model_.rmsnorm ? 0.0 : x.mean();
    const Vector centred = x.array() - mean;
    const double variance = centred.squaredNorm() / static_cast<double>(x.size());
    const double inverse = 1.0 / std::sqrt(variance + constants_.norm_epsilon);
    return {centred * inverse, inverse};
  }

  [[nodiscard]] Matrix norm(const std::string& kind, std::int64_t layer, const Matrix& x) const {
    Matrix y(x.rows(), x.cols());
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      const Vector scaled =
          normalise(x.row(t)).unit.cwiseProduct(parameter(kind + " norm weight", layer).col(0));
      y.row(t) = scaled;
      if (!model_.rmsnorm) {
        y.row(t) += parameter(kind + " norm bias", layer).col(0).transpose();
      }
    }
    return y;
  }

  /// dx = J dy with J = C (1 - u uᵀ / h) / deviation, where C centres for LayerNorm: the factors of
  /// one token's Jacobian as whole matrices, applied one after the other.
  Matrix norm_backward(const std::string& kind,
                       std::int64_t layer,
                       const Matrix& x,
                       const Matrix& dy) {
    const std::int64_t h = x.cols();
    const Vector weight = parameter(kind + " norm weight", layer).col(0);
    Matrix centre = Matrix::Identity(h, h);
    if (!model_.rmsnorm) {
      centre.array() -= 1.0 / static_cast<double>(h);
    }
    Matrix dx(x.rows(), h);
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      const Normalised row = normalise(x.row(t));
      const Vector d_unit = dy.row(t).transpose().cwiseProduct(weight);
      const Matrix off_unit =
          Matrix::Identity(h, h) - row.unit * row.unit.transpose() / static_cast<double>(h);
      const Vector d_centred = row.inverse_deviation * (off_unit.transpose() * d_unit);
      dx.row(t) = (centre.transpose() * d_centred).transpose();
      gradient(kind + " norm weight", layer).col(0) += dy.row(t).transpose().cwiseProduct(row.unit);
      if (!model_.rmsnorm) {
        gradient(kind + " norm bias", layer).col(0) += dy.row(t).transpose();
      }
    }
    return dx;
  }

  [[nodiscard]] Matrix linear(const std::string& kind, std::int64_t layer, const Matrix& x) const {
    Matrix y = x * parameter(kind + " weight", layer).transpose();
    if (has(kind + " bias")) {
      y.rowwise() += parameter(kind + " bias", layer).col(0).transpose();
    }
    return y;
  }

  Matrix linear_backward(const std::string& kind,
                         std::int64_t layer,
                         const Matrix& x,
                         const Matrix& dy) {
    gradient(kind + " weight", layer) += dy.transpose() * x;
    if (has(kind + " bias")) {
      gradient(kind + " bias", layer).col(0) += dy.colwise().sum().transpose();
    }
    return dy * parameter(kind + " weight", layer);
  }

  // Columns of the packed queries, keys and values.
  [[nodiscard]] std::int64_t query_column(std::int64_t group, std::int64_t query) const {
    return group * group_columns() + query * model_.head_dim;
  }

  [[nodiscard]] std::int64_t group_columns() const {
    return (model_.queries_per_group() + 1) * model_.head_dim + model_.value_dim();
  }

  [[nodiscard]] std::int64_t key_column(std::int64_t group) const {
    return query_column(group, model_.queries_per_group());
  }

  [[nodiscard]] std::int64_t value_column(std::int64_t group) const {
    return key_column(group) + model_.head_dim;
  }

  /// Rotates pairs (i, i + d/2) of every query and key by position · base^(-2i/d).
  void rotate(Matrix& qkv, double direction) const {
    if (!model_.rotary) {
      return;
    }
    for (std::int64_t group = 0; group < model_.kv_heads; ++group) {
      for (std::int64_t head = 0; head <= model_.queries_per_group(); ++head) {  // the last: key
        rotate_columns(qkv, query_column(group, head), model_.head_dim, direction);
      }
    }
  }

  void rotate_columns(Matrix& x, std::int64_t column, std::int64_t dim, double direction) const {
    const std::int64_t half = dim / 2;
    for (std::int64_t t = 0; t < tokens_; ++t) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = direction * static_cast<double>(t) *
                             std::pow(constants_.rotary_base,
                                      -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const double a = x(t, column + i);
        const double b = x(t, column + half + i);
        x(t, column + i) = a * std::cos(angle) - b * std::sin(angle);
        x(t, column + half + i) = a * std::sin(angle) + b * std::cos(angle);
      }
    }
  }

  /// Queries, keys and values of latent attention, side by side as others are packed.
  void project_latent(std::int64_t layer, LayerTrace& trace) const {
    const DenseLatent& latent = *model_.latent;
    const std::int64_t d = model_.head_dim;
    Matrix q;
    if (latent.query_rank > 0) {
      trace.query_low = linear("query down", layer, trace.normed);
      trace.query_low_normed = norm("query", layer, trace.query_low);
      q = linear("query up", layer, trace.query_low_normed);
    } else {
      q = linear("query up", layer, trace.normed);
    }
    trace.kv_low = linear("kv down", layer, trace.normed);
    trace.kv_low_normed = norm("kv", layer, trace.kv_low.leftCols(latent.kv_rank));
    const Matrix kv = linear("kv up", layer, trace.kv_low_normed);
    Matrix shared = trace.kv_low.rightCols(latent.rope_dim);
    if (model_.rotary) {
      rotate_columns(shared, 0, latent.rope_dim, 1.0);
    }
    trace.qkv = Matrix::Zero(tokens_, model_.heads * group_columns());
    for (std::int64_t head = 0; head < model_.heads; ++head) {
      if (model_.rotary) {
        rotate_columns(q, head * d + latent.nope_dim, latent.rope_dim, 1.0);
      }
      const std::int64_t column = head * (latent.nope_dim + latent.value_dim);
      trace.qkv.middleCols(query_column(head, 0), d) = q.middleCols(head * d, d);
      trace.qkv.middleCols(key_column(head), latent.nope_dim) =
          kv.middleCols(column, latent.nope_dim);
      trace.qkv.middleCols(key_column(head) + latent.nope_dim, latent.rope_dim) = shared;
      trace.qkv.middleCols(value_column(head), latent.value_dim) =
          kv.middleCols(column + latent.nope_dim, latent.value_dim);
    }
  }

  /// The gradient of the normed input through `project_latent`.
  Matrix project_latent_backward(std::int64_t layer, const LayerTrace& trace, const Matrix& d_qkv) {
    const DenseLatent& latent = *model_.latent;
    const std::int64_t d = model_.head_dim;
    Matrix dq(tokens_, model_.heads * d);
    Matrix d_kv(tokens_, model_.heads * (latent.nope_dim + latent.value_dim));
    Matrix d_shared = Matrix::Zero(tokens_, latent.rope_dim);
    for (std::int64_t head = 0; head < model_.heads; ++head) {
      const std::int64_t column = head * (latent.nope_dim + latent.value_dim);
      dq.middleCols(head * d, d) = d_qkv.middleCols(query_column(head, 0), d);
      d_kv.middleCols(column, latent.nope_dim) =
          d_qkv.middleCols(key_column(head), latent.nope_dim);
      d_shared += d_qkv.middleCols(key_column(head) + latent.nope_dim, latent.rope_dim);
      d_kv.middleCols(column + latent.nope_dim, latent.value_dim) =
          d_qkv.middleCols(value_column(head), latent.value_dim);
      if (model_.rotary) {
        rotate_columns(dq, head * d + latent.nope_dim, latent.rope_dim, -1.0);
      }
    }
    if (model_.rotary) {
      rotate_columns(d_shared, 0, latent.rope_dim, -1.0);
    }
    Matrix d_low(tokens_, latent.kv_rank + latent.rope_dim);
    d_low.leftCols(latent.kv_rank) =
        norm_backward("kv",
                      layer,
                      trace.kv_low.leftCols(latent.kv_rank),
                      linear_backward("kv up", layer, trace.kv_low_normed, d_kv));
    d_low.rightCols(latent.rope_dim) = d_shared;
    Matrix d_normed = linear_backward("kv down", layer, trace.normed, d_low);
    if (latent.query_rank == 0) {
      return d_normed + linear_backward("query up", layer, trace.normed, dq);
    }
    const Matrix d_query =
        norm_backward("query",
                      layer,
                      trace.query_low,
                      linear_backward("query up", layer, trace.query_low_normed, dq));
    return d_normed + linear_backward("query down", layer, trace.normed, d_query);
  }

  // Experts, one token at a time.

  /// Rows of one expert of a parameter [experts · rows, columns].
  [[nodiscard]] Matrix expert_weight(const std::string& name,
                                     std::int64_t layer,
                                     std::int64_t expert) const {
    const std::int64_t rows = parameter(name, layer).rows() / model_.experts->count;
    return parameter(name, layer).middleRows(expert * rows, rows);
  }

  [[nodiscard]] std::size_t choice(std::int64_t t, std::int64_t number) const {
    return token(t) * static_cast<std::size_t>(model_.experts->per_token) +
           static_cast<std::size_t>(number);
  }

  /// Weights of the experts of a token, dropped ones included.
  [[nodiscard]] Vector weights_of(std::int64_t layer, std::int64_t t, const Matrix& scores) const {
    const auto& chosen = batch_.experts.at(static_cast<std::size_t>(layer));
    Vector weights(model_.experts->per_token);
    for (std::int64_t j = 0; j < weights.size(); ++j) {
      weights(j) = scores(t, chosen.at(choice(t, j)));
    }
    return model_.experts->normalised ? Vector(weights / weights.sum()) : weights;
  }

  [[nodiscard]] Matrix router_scores(const Matrix& logits) const {
    Matrix scores(logits.rows(), logits.cols());
    for (std::int64_t t = 0; t < logits.rows(); ++t) {
      const Matrix row = (logits.row(t).array() - logits.row(t).maxCoeff()).exp();
      if (model_.experts->sigmoid) {
        scores.row(t) = logits.row(t).unaryExpr([](double z) { return sigmoid(z); });
      } else {
        scores.row(t) = row / row.sum();
      }
    }
    return scores;
  }

  Matrix experts_forward(std::int64_t layer, LayerTrace& trace) const {
    const DenseExperts& experts = *model_.experts;
    const Matrix& x = trace.between_normed;
    trace.logits = linear("router", layer, x);
    trace.scores = router_scores(trace.logits);
    Matrix y = Matrix::Zero(tokens_, model_.hidden);
    for (std::int64_t t = 0; t < tokens_; ++t) {
      const Vector weights = weights_of(layer, t, trace.scores);
      for (std::int64_t j = 0; j < experts.per_token; ++j) {
        if (kept(layer, t, j)) {
          const std::int64_t expert = expert_of(layer, t, j);
          const Matrix up = x.row(t) * expert_weight("expert up weight", layer, expert).transpose();
          y.row(t) += weights(j) * activate(up) *
                      expert_weight("expert down weight", layer, expert).transpose();
        }
      }
    }
    if (experts.shared > 0) {
      trace.up = linear("shared expert up", layer, x);
      trace.activation = activate(trace.up);
      y += linear("shared expert down", layer, trace.activation);
    }
    return y;
  }

  [[nodiscard]] std::int64_t expert_of(std::int64_t layer, std::int64_t t, std::int64_t j) const {
    return batch_.experts.at(static_cast<std::size_t>(layer)).at(choice(t, j));
  }

  [[nodiscard]] bool kept(std::int64_t layer, std::int64_t t, std::int64_t j) const {
    return batch_.kept.at(static_cast<std::size_t>(layer)).at(choice(t, j));
  }

  Matrix experts_backward(std::int64_t layer, const Matrix& dy, const LayerTrace& trace) {
    const DenseExperts& experts = *model_.experts;
    const Matrix& x = trace.between_normed;
    Matrix dx = Matrix::Zero(tokens_, model_.hidden);
    Matrix d_logits = Matrix::Zero(tokens_, experts.count);
    for (std::int64_t t = 0; t < tokens_; ++t) {
      const Vector weights = weights_of(layer, t, trace.scores);
      Vector d_weights = Vector::Zero(experts.per_token);
      for (std::int64_t j = 0; j < experts.per_token; ++j) {
        if (!kept(layer, t, j)) {
          continue;
        }
        const std::int64_t expert = expert_of(layer, t, j);
        const Matrix in = expert_weight("expert up weight", layer, expert);
        const Matrix out = expert_weight("expert down weight", layer, expert);
        const Matrix up = x.row(t) * in.transpose();
        const Matrix activation = activate(up);
        d_weights(j) = (activation * out.transpose()).row(0).dot(dy.row(t));
        const Matrix d_out = weights(j) * dy.row(t);
        gradient("expert down weight", layer).middleRows(expert * out.rows(), out.rows()) +=
            d_out.transpose() * activation;
        const Matrix d_up = activate_backward(up, d_out * out);
        gradient("expert up weight", layer).middleRows(expert * in.rows(), in.rows()) +=
            d_up.transpose() * x.row(t);
        dx.row(t) += (d_up * in).row(0);
      }
      d_logits.row(t) = router_gradient(layer, t, trace.scores, d_weights);
    }
    dx += linear_backward("router", layer, x, d_logits);
    if (experts.shared > 0) {
      const Matrix d_activation =
          linear_backward("shared expert down", layer, trace.activation, dy);
      dx +=
          linear_backward("shared expert up", layer, x, activate_backward(trace.up, d_activation));
    }
    return dx;
  }

  /// Through the whole Jacobians of normalisation and scores.
  [[nodiscard]] Matrix router_gradient(std::int64_t layer,
                                       std::int64_t t,
                                       const Matrix& scores,
                                       const Vector& d_weights) const {
    const DenseExperts& experts = *model_.experts;
    const std::int64_t k = experts.per_token;
    Vector chosen(k);
    for (std::int64_t j = 0; j < k; ++j) {
      chosen(j) = scores(t, expert_of(layer, t, j));
    }
    Matrix of_choice = Matrix::Identity(k, k);
    if (experts.normalised) {
      const double sum = chosen.sum();
      of_choice = Matrix::Identity(k, k) / sum - chosen * Vector::Ones(k).transpose() / (sum * sum);
    }
    const Vector d_chosen = of_choice.transpose() * d_weights;
    Vector d_scores = Vector::Zero(experts.count);
    for (std::int64_t j = 0; j < k; ++j) {
      d_scores(expert_of(layer, t, j)) += d_chosen(j);
    }
    const Vector s = scores.row(t).transpose();
    Matrix of_scores = s.asDiagonal();
    if (experts.sigmoid) {
      of_scores -= Matrix(s.cwiseProduct(s).asDiagonal());
    } else {
      of_scores -= s * s.transpose();
    }
    return (of_scores * d_scores).transpose();
  }

  [[nodiscard]] double attention_scale() const {
    return 1.0 / std::sqrt(static_cast<double>(model_.head_dim));
  }

  void attend(LayerTrace& trace) const {
    const std::int64_t d = model_.head_dim;
    const std::int64_t queries = model_.queries_per_group();
    const std::int64_t values = model_.value_dim();
    trace.o = Matrix::Zero(tokens_, model_.heads * values);
    for (std::int64_t head = 0; head < model_.heads; ++head) {
      const std::int64_t group = head / queries;
      const auto q = trace.qkv.middleCols(query_column(group, head % queries), d);
      const auto k = trace.qkv.middleCols(key_column(group), d);
      const auto v = trace.qkv.middleCols(value_column(group), values);
      Matrix p = attention_scale() * q * k.transpose();
      for (std::int64_t t = 0; t < tokens_; ++t) {
        const std::int64_t seen = model_.causal ? t + 1 : tokens_;
        const double largest = p.row(t).head(seen).maxCoeff();
        p.row(t).head(seen) = (p.row(t).head(seen).array() - largest).exp();
        p.row(t).tail(tokens_ - seen).setZero();
        p.row(t) /= p.row(t).sum();
      }
      trace.o.middleCols(head * values, values) = p * v;
      trace.probabilities.push_back(p);
    }
  }

  [[nodiscard]] Matrix attend_backward(const LayerTrace& trace, const Matrix& d_o) const {
    const std::int64_t d = model_.head_dim;
    const std::int64_t queries = model_.queries_per_group();
    const std::int64_t values = model_.value_dim();
    Matrix d_qkv = Matrix::Zero(tokens_, trace.qkv.cols());
    for (std::int64_t head = 0; head < model_.heads; ++head) {
      const std::int64_t group = head / queries;
      const std::int64_t query = query_column(group, head % queries);
      const Matrix& p = trace.probabilities[static_cast<std::size_t>(head)];
      const Matrix d_head = d_o.middleCols(head * values, values);
      const Matrix dp = d_head * trace.qkv.middleCols(value_column(group), values).transpose();
      Matrix d_scores(tokens_, tokens_);
      for (std::int64_t t = 0; t < tokens_; ++t) {
        const double expected = p.row(t).dot(dp.row(t));
        d_scores.row(t) = p.row(t).array() * (dp.row(t).array() - expected);
      }
      d_scores *= attention_scale();
      d_qkv.middleCols(value_column(group), values) += p.transpose() * d_head;
      d_qkv.middleCols(query, d) += d_scores * trace.qkv.middleCols(key_column(group), d);
      d_qkv.middleCols(key_column(group), d) +=
          d_scores.transpose() * trace.qkv.middleCols(query, d);
    }
    return d_qkv;
  }

  [[nodiscard]] Matrix activate(const Matrix& up) const {
    const std::int64_t width = model_.swiglu ? up.cols() / 2 : up.cols();
    Matrix y(up.rows(), width);
    for (std::int64_t t = 0; t < up.rows(); ++t) {
      for (std::int64_t f = 0; f < width; ++f) {
        if (model_.swiglu) {
          const double gate = up(t, 2 * f);
          y(t, f) = gate * sigmoid(gate) * up(t, 2 * f + 1);
        } else {
          y(t, f) = gelu(up(t, f));
        }
      }
    }
    return y;
  }

  [[nodiscard]] Matrix activate_backward(const Matrix& up, const Matrix& dy) const {
    Matrix d_up(up.rows(), up.cols());
    for (std::int64_t t = 0; t < up.rows(); ++t) {
      for (std::int64_t f = 0; f < dy.cols(); ++f) {
        if (model_.swiglu) {
          const double gate = up(t, 2 * f);
          const double s = sigmoid(gate);
          d_up(t, 2 * f) = dy(t, f) * up(t, 2 * f + 1) * s * (1.0 + gate * (1.0 - s));
          d_up(t, 2 * f + 1) = dy(t, f) * gate * s;
        } else {
          d_up(t, f) = dy(t, f) * gelu_slope(up(t, f));
        }
      }
    }
    return d_up;
  }

  Matrix layer_forward(std::int64_t layer, const Matrix& x, LayerTrace& trace) const {
    trace.x = x;
    trace.normed = norm("attention", layer, x);
    if (model_.latent) {
      project_latent(layer, trace);
    } else {
      trace.qkv = linear("qkv", layer, trace.normed);
      rotate(trace.qkv, 1.0);
    }
    attend(trace);
    trace.between = x + linear("attention output", layer, trace.o);
    trace.between_normed = norm("mlp", layer, trace.between);
    if (model_.has_experts(layer)) {
      return trace.between + experts_forward(layer, trace);
    }
    trace.up = linear("mlp up", layer, trace.between_normed);
    trace.activation = activate(trace.up);
    return trace.between + linear("mlp down", layer, trace.activation);
  }

  Matrix mlp_backward(std::int64_t layer, const Matrix& dy, const LayerTrace& trace) {
    const Matrix d_activation = linear_backward("mlp down", layer, trace.activation, dy);
    const Matrix d_up = activate_backward(trace.up, d_activation);
    return linear_backward("mlp up", layer, trace.between_normed, d_up);
  }

  Matrix layer_backward(std::int64_t layer, const Matrix& dy, const LayerTrace& trace) {
    const Matrix d_between_normed = model_.has_experts(layer) ? experts_backward(layer, dy, trace)
                                                              : mlp_backward(layer, dy, trace);
    const Matrix d_between = dy + norm_backward("mlp", layer, trace.between, d_between_normed);
    const Matrix d_o = linear_backward("attention output", layer, trace.o, d_between);
    Matrix d_qkv = attend_backward(trace, d_o);
    if (model_.latent) {
      const Matrix d_input = project_latent_backward(layer, trace, d_qkv);
      return d_between + norm_backward("attention", layer, trace.x, d_input);
    }
    rotate(d_qkv, -1.0);
    const Matrix d_normed = linear_backward("qkv", layer, trace.normed, d_qkv);
    return d_between + norm_backward("attention", layer, trace.x, d_normed);
  }

  Matrix loss_and_gradient(const Matrix& x) {
    if (model_.vocabulary == 0) {
      result_.loss += 0.5 * x.squaredNorm() * per_token_;
      return x * per_token_;
    }
    const std::string head = model_.tied_embeddings ? "embedding table" : "head weight";
    const Matrix normed = norm("final", 0, x);
    const Matrix logits = normed * parameter(head).transpose();
    Matrix d_logits(logits.rows(), logits.cols());
    for (std::int64_t t = 0; t < tokens_; ++t) {
      const std::int64_t label = batch_.labels[token(t)];
      const double largest = logits.row(t).maxCoeff();
      const double log_sum = largest + std::log((logits.row(t).array() - largest).exp().sum());
      result_.loss += (log_sum - logits(t, label)) * per_token_;
      d_logits.row(t) = (logits.row(t).array() - log_sum).exp() * per_token_;
      d_logits(t, label) -= per_token_;
    }
    gradient(head) += d_logits.transpose() * normed;
    return norm_backward("final", 0, x, d_logits * parameter(head));
  }

  const DenseModel& model_;
  const ExecutionConstants& constants_;
  const DenseValues& parameters_;
  const DenseBatch& batch_;
  std::map<std::string, std::int64_t> columns_;
  std::int64_t tokens_ = 0;
  std::int64_t sequence_ = 0;
  double per_token_ = 1;
  DenseResult result_;
};

}  // namespace

namespace {

/// Collects the parameters that a model has.
class ParameterList {
 public:
  explicit ParameterList(const DenseModel& model) : layers_(model.layers) {}

  void add(bool wanted, std::string name, std::int64_t rows, std::int64_t columns, bool per_layer) {
    if (wanted) {
      parameters_.push_back(
          {std::move(name), rows, columns, per_layer, 0, per_layer ? layers_ : 1});
    }
  }

  /// Of the layers `first` and up to `end`.
  void add_in(std::int64_t first,
              std::int64_t end,
              bool wanted,
              std::string name,
              std::int64_t rows,
              std::int64_t columns) {
    if (wanted && first < end) {
      parameters_.push_back({std::move(name), rows, columns, true, first, end - first});
    }
  }

  [[nodiscard]] std::vector<DenseParameter> take() { return std::move(parameters_); }

 private:
  std::int64_t layers_;
  std::vector<DenseParameter> parameters_;
};

void add_latent(const DenseModel& model, ParameterList& list) {
  const DenseLatent& latent = *model.latent;
  const std::int64_t h = model.hidden;
  const std::int64_t queries = model.heads * model.head_dim;
  const bool narrow = latent.query_rank > 0;
  list.add(narrow, "query down weight", latent.query_rank, h, true);
  list.add(narrow, "query norm weight", latent.query_rank, 1, true);
  list.add(narrow && !model.rmsnorm, "query norm bias", latent.query_rank, 1, true);
  list.add(true, "query up weight", queries, narrow ? latent.query_rank : h, true);
  list.add(true, "kv down weight", latent.kv_rank + latent.rope_dim, h, true);
  list.add(true, "kv norm weight", latent.kv_rank, 1, true);
  list.add(!model.rmsnorm, "kv norm bias", latent.kv_rank, 1, true);
  list.add(true,
           "kv up weight",
           model.heads * (latent.nope_dim + latent.value_dim),
           latent.kv_rank,
           true);
}

void add_experts(const DenseModel& model, ParameterList& list) {
  const DenseExperts& experts = *model.experts;
  const std::int64_t h = model.hidden;
  const std::int64_t up = (model.swiglu ? 2 : 1) * experts.width;
  const std::int64_t first = experts.dense_layers;
  const bool shared = experts.shared > 0;
  list.add_in(first, model.layers, true, "router weight", experts.count, h);
  list.add_in(first, model.layers, true, "expert up weight", experts.count * up, h);
  list.add_in(first, model.layers, true, "expert down weight", experts.count * h, experts.width);
  list.add_in(first, model.layers, shared, "shared expert up weight", experts.shared * up, h);
  list.add_in(
      first, model.layers, shared, "shared expert down weight", h, experts.shared * experts.width);
}

}  // namespace

std::vector<DenseParameter> dense_parameters(const DenseModel& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t heads = model.heads * model.value_dim();
  const std::int64_t qkv = (model.heads + 2 * model.kv_heads) * model.head_dim;
  const std::int64_t up = (model.swiglu ? 2 : 1) * model.mlp_width;
  const bool packed = !model.latent;
  ParameterList list(model);
  const bool words = model.vocabulary > 0;
  list.add(words, "embedding table", model.vocabulary, h, false);
  list.add(words && model.position_rows > 0, "position table", model.position_rows, h, false);
  list.add(true, "attention norm weight", h, 1, true);
  list.add(!model.rmsnorm, "attention norm bias", h, 1, true);
  list.add(packed, "qkv weight", qkv, h, true);
  list.add(packed && model.qkv_bias, "qkv bias", qkv, 1, true);
  if (model.latent) {
    add_latent(model, list);
  }
  list.add(true, "attention output weight", h, heads, true);
  list.add(model.output_bias, "attention output bias", h, 1, true);
  list.add(true, "mlp norm weight", h, 1, true);
  list.add(!model.rmsnorm, "mlp norm bias", h, 1, true);
  const std::int64_t dense = model.experts ? model.experts->dense_layers : model.layers;
  list.add_in(0, dense, true, "mlp up weight", up, h);
  list.add_in(0, dense, model.mlp_bias, "mlp up bias", up, 1);
  list.add_in(0, dense, true, "mlp down weight", h, model.mlp_width);
  list.add_in(0, dense, model.mlp_bias, "mlp down bias", h, 1);
  if (model.experts) {
    add_experts(model, list);
  }
  list.add(words, "final norm weight", h, 1, false);
  list.add(words && !model.rmsnorm, "final norm bias", h, 1, false);
  list.add(words && !model.tied_embeddings, "head weight", model.vocabulary, h, false);
  return list.take();
}

DenseValues dense_zeros(const DenseModel& model) {
  DenseValues values;
  for (const DenseParameter& parameter : dense_parameters(model)) {
    auto& instances = values[parameter.name];
    instances.resize(static_cast<std::size_t>(parameter.per_layer ? model.layers : 1));
    for (std::int64_t i = 0; i < parameter.layers; ++i) {
      instances[static_cast<std::size_t>(parameter.first_layer + i)].assign(
          static_cast<std::size_t>(parameter.elements()), 0.0);
    }
  }
  return values;
}

DenseResult dense_step(const DenseModel& model,
                       const ExecutionConstants& constants,
                       const DenseValues& parameters,
                       const DenseBatch& batch) {
  return DenseRun(model, constants, parameters, batch).run();
}

void dense_adamw(const ExecutionConstants& constants,
                 bool clip,
                 const DenseResult& result,
                 DenseValues& parameters,
                 DenseMoments& moments) {
  const double shrink =
      clip ? std::min(1.0, constants.clip_norm / (result.gradient_norm + kClipEpsilon)) : 1.0;
  const auto step = static_cast<double>(constants.optimizer_step);
  const double correction1 = 1.0 - std::pow(constants.beta1, step);
  const double correction2 = 1.0 - std::pow(constants.beta2, step);
  for (auto& [name, instances] : parameters) {
    for (std::size_t instance = 0; instance < instances.size(); ++instance) {
      std::vector<double>& values = instances[instance];
      std::vector<double>& first = moments.first.at(name).at(instance);
      std::vector<double>& second = moments.second.at(name).at(instance);
      const std::vector<double>& gradient = result.gradients.at(name).at(instance);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double g = shrink * gradient[i];
        first[i] += (1.0 - constants.beta1) * (g - first[i]);
        second[i] += (1.0 - constants.beta2) * (g * g - second[i]);
        const double direction = (first[i] / correction1) /
                                 (std::sqrt(second[i] / correction2) + constants.adam_epsilon);
        values[i] -= constants.learning_rate * (direction + constants.weight_decay * values[i]);
      }
    }
  }
}

}  // namespace trireme::engine
