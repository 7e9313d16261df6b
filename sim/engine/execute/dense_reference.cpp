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
  Matrix qkv;  // queries and keys rotated
  std::vector<Matrix> probabilities;
  Matrix o;
  Matrix between;
  Matrix between_normed;
  Matrix up;
  Matrix activation;
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

  /// dx = J dy with J = C (1 - u uᵀ / h) / deviation, where C centres for LayerNorm: the whole
  /// Jacobian of one token, whatever that costs.
  Matrix norm_backward(const std::string& kind,
                       std::int64_t layer,
                       const Matrix& x,
                       const Matrix& dy) {
    const std::int64_t h = model_.hidden;
    const Vector weight = parameter(kind + " norm weight", layer).col(0);
    Matrix centre = Matrix::Identity(h, h);
    if (!model_.rmsnorm) {
      centre.array() -= 1.0 / static_cast<double>(h);
    }
    Matrix dx(x.rows(), h);
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      const Normalised row = normalise(x.row(t));
      const Vector d_unit = dy.row(t).transpose().cwiseProduct(weight);
      const Matrix jacobian =
          (Matrix::Identity(h, h) - row.unit * row.unit.transpose() / static_cast<double>(h)) *
          row.inverse_deviation * centre;
      dx.row(t) = (jacobian.transpose() * d_unit).transpose();
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
    return (group * (model_.queries_per_group() + 2) + query) * model_.head_dim;
  }

  [[nodiscard]] std::int64_t key_column(std::int64_t group) const {
    return query_column(group, model_.queries_per_group());
  }

  [[nodiscard]] std::int64_t value_column(std::int64_t group) const {
    return query_column(group, model_.queries_per_group() + 1);
  }

  /// Rotates pairs (i, i + d/2) of every query and key by position · base^(-2i/d).
  void rotate(Matrix& qkv, double direction) const {
    if (!model_.rotary) {
      return;
    }
    const std::int64_t half = model_.head_dim / 2;
    for (std::int64_t group = 0; group < model_.kv_heads; ++group) {
      for (std::int64_t head = 0; head <= model_.queries_per_group(); ++head) {  // the last: key
        const std::int64_t column = query_column(group, head);
        for (std::int64_t t = 0; t < tokens_; ++t) {
          for (std::int64_t i = 0; i < half; ++i) {
            const double angle =
                direction * static_cast<double>(t) *
                std::pow(constants_.rotary_base,
                         -2.0 * static_cast<double>(i) / static_cast<double>(model_.head_dim));
            const double a = qkv(t, column + i);
            const double b = qkv(t, column + half + i);
            qkv(t, column + i) = a * std::cos(angle) - b * std::sin(angle);
            qkv(t, column + half + i) = a * std::sin(angle) + b * std::cos(angle);
          }
        }
      }
    }
  }

  [[nodiscard]] double attention_scale() const {
    return 1.0 / std::sqrt(static_cast<double>(model_.head_dim));
  }

  void attend(LayerTrace& trace) const {
    const std::int64_t d = model_.head_dim;
    const std::int64_t queries = model_.queries_per_group();
    trace.o = Matrix::Zero(tokens_, model_.heads * d);
    for (std::int64_t head = 0; head < model_.heads; ++head) {
      const std::int64_t group = head / queries;
      const auto q = trace.qkv.middleCols(query_column(group, head % queries), d);
      const auto k = trace.qkv.middleCols(key_column(group), d);
      const auto v = trace.qkv.middleCols(value_column(group), d);
      Matrix p = attention_scale() * q * k.transpose();
      for (std::int64_t t = 0; t < tokens_; ++t) {
        const std::int64_t seen = model_.causal ? t + 1 : tokens_;
        const double largest = p.row(t).head(seen).maxCoeff();
        p.row(t).head(seen) = (p.row(t).head(seen).array() - largest).exp();
        p.row(t).tail(tokens_ - seen).setZero();
        p.row(t) /= p.row(t).sum();
      }
      trace.o.middleCols(head * d, d) = p * v;
      trace.probabilities.push_back(p);
    }
  }

  [[nodiscard]] Matrix attend_backward(const LayerTrace& trace, const Matrix& d_o) const {
    const std::int64_t d = model_.head_dim;
    const std::int64_t queries = model_.queries_per_group();
    Matrix d_qkv = Matrix::Zero(tokens_, trace.qkv.cols());
    for (std::int64_t head = 0; head < model_.heads; ++head) {
      const std::int64_t group = head / queries;
      const std::int64_t query = query_column(group, head % queries);
      const Matrix& p = trace.probabilities[static_cast<std::size_t>(head)];
      const Matrix d_head = d_o.middleCols(head * d, d);
      const Matrix dp = d_head * trace.qkv.middleCols(value_column(group), d).transpose();
      Matrix d_scores(tokens_, tokens_);
      for (std::int64_t t = 0; t < tokens_; ++t) {
        const double expected = p.row(t).dot(dp.row(t));
        d_scores.row(t) = p.row(t).array() * (dp.row(t).array() - expected);
      }
      d_scores *= attention_scale();
      d_qkv.middleCols(value_column(group), d) += p.transpose() * d_head;
      d_qkv.middleCols(query, d) += d_scores * trace.qkv.middleCols(key_column(group), d);
      d_qkv.middleCols(key_column(group), d) +=
          d_scores.transpose() * trace.qkv.middleCols(query, d);
    }
    return d_qkv;
  }

  [[nodiscard]] Matrix activate(const Matrix& up) const {
    Matrix y(tokens_, model_.mlp_width);
    for (std::int64_t t = 0; t < tokens_; ++t) {
      for (std::int64_t f = 0; f < model_.mlp_width; ++f) {
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
    for (std::int64_t t = 0; t < tokens_; ++t) {
      for (std::int64_t f = 0; f < model_.mlp_width; ++f) {
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
    trace.qkv = linear("qkv", layer, trace.normed);
    rotate(trace.qkv, 1.0);
    attend(trace);
    trace.between = x + linear("attention output", layer, trace.o);
    trace.between_normed = norm("mlp", layer, trace.between);
    trace.up = linear("mlp up", layer, trace.between_normed);
    trace.activation = activate(trace.up);
    return trace.between + linear("mlp down", layer, trace.activation);
  }

  Matrix layer_backward(std::int64_t layer, const Matrix& dy, const LayerTrace& trace) {
    const Matrix d_activation = linear_backward("mlp down", layer, trace.activation, dy);
    const Matrix d_up = activate_backward(trace.up, d_activation);
    const Matrix d_between_normed = linear_backward("mlp up", layer, trace.between_normed, d_up);
    const Matrix d_between = dy + norm_backward("mlp", layer, trace.between, d_between_normed);
    const Matrix d_o = linear_backward("attention output", layer, trace.o, d_between);
    Matrix d_qkv = attend_backward(trace, d_o);
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

std::vector<DenseParameter> dense_parameters(const DenseModel& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t heads = model.heads * model.head_dim;
  const std::int64_t qkv = (model.heads + 2 * model.kv_heads) * model.head_dim;
  const std::int64_t up = (model.swiglu ? 2 : 1) * model.mlp_width;
  std::vector<DenseParameter> parameters;
  const auto add =
      [&](bool wanted, std::string name, std::int64_t rows, std::int64_t columns, bool per_layer) {
        if (wanted) {
          parameters.push_back({std::move(name), rows, columns, per_layer});
        }
      };
  const bool words = model.vocabulary > 0;
  add(words, "embedding table", model.vocabulary, h, false);
  add(words && model.position_rows > 0, "position table", model.position_rows, h, false);
  add(true, "attention norm weight", h, 1, true);
  add(!model.rmsnorm, "attention norm bias", h, 1, true);
  add(true, "qkv weight", qkv, h, true);
  add(model.qkv_bias, "qkv bias", qkv, 1, true);
  add(true, "attention output weight", h, heads, true);
  add(model.output_bias, "attention output bias", h, 1, true);
  add(true, "mlp norm weight", h, 1, true);
  add(!model.rmsnorm, "mlp norm bias", h, 1, true);
  add(true, "mlp up weight", up, h, true);
  add(model.mlp_bias, "mlp up bias", up, 1, true);
  add(true, "mlp down weight", h, model.mlp_width, true);
  add(model.mlp_bias, "mlp down bias", h, 1, true);
  add(words, "final norm weight", h, 1, false);
  add(words && !model.rmsnorm, "final norm bias", h, 1, false);
  add(words && !model.tied_embeddings, "head weight", model.vocabulary, h, false);
  return parameters;
}

DenseValues dense_zeros(const DenseModel& model) {
  DenseValues values;
  for (const DenseParameter& parameter : dense_parameters(model)) {
    const std::int64_t instances = parameter.per_layer ? model.layers : 1;
    values[parameter.name].assign(
        static_cast<std::size_t>(instances),
        std::vector<double>(static_cast<std::size_t>(parameter.elements()), 0.0));
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
