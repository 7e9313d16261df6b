#include "calibrate/probe/cpu/executor_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "calibrate/harness/stopwatch.h"
#include "calibrate/probe/cpu/executor_trial.h"
#include "sim/engine/work.h"
#include "sim/program/builder.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

using engine::LocalTensor;
using program::Function;
using program::Operand;
using program::Role;
using program::Shape;
using program::TensorId;

/// Largest relative error that counts as rounding.
constexpr double kTolerance = 1e-9;

void expect_near(double found, double expected, double scale, const std::string& what) {
  if (!(std::abs(found - expected) <= kTolerance * std::max(scale, std::abs(expected)))) {
    throw WrongResult(fmt::format("{}: {} where it has to be {}", what, found, expected));
  }
}

/// Emits one operation on tensors of its own for each layer.
class Draft {
 public:
  explicit Draft(std::int64_t layers) : layers_(layers), builder_(mesh(), {1, layers, 1}) {}

  /// A tensor that is there before the step.
  TensorId given(std::string_view name,
                 const Shape& shape,
                 ElementType type = ElementType::bf16,
                 Role role = Role::activation) {
    return declare(name, shape, type, role, true);
  }

  /// The last `tokens` of a tensor of tokens, by the shape that they have.
  TensorId last_tokens(TensorId base, std::string_view name, const Shape& shape) {
    const std::int64_t tokens = shape[program::kSequenceDim].size;
    const std::int64_t all = builder_.tensor(base).shape[program::kSequenceDim].size;
    return builder_.declare_view(
        base, name, shape, {.dim = program::kSequenceDim, .first = all - tokens, .extent = tokens});
  }

  /// A tensor that the operation brings into being.
  TensorId result(std::string_view name, const Shape& shape, ElementType type = ElementType::bf16) {
    return declare(name, shape, type, Role::workspace, false);
  }

  program::Op& emit(Function function, std::span<const Operand> operands) {
    program::Op* emitted = nullptr;
    builder_.repeat(program::Index::layer, 0, 1, layers_, [&] {
      builder_.begin_segment("measured");
      emitted = &builder_.emit(function, program::info(function).name, operands);
    });
    return *emitted;
  }

  RepeatedOperation close(CheckOperands check) && {
    return {std::move(builder_).close(), layers_, std::move(check), {}};
  }

 private:
  static program::Mesh mesh() {
    program::Mesh mesh;
    mesh.add_axis("rank", 1);
    return mesh;
  }

  TensorId declare(
      std::string_view name, const Shape& shape, ElementType type, Role role, bool resident) {
    program::TensorSpec spec;
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.varies = program::kPerLayer;
    spec.shape = shape;
    spec.resident = resident;
    return builder_.declare(spec);
  }

  std::int64_t layers_;
  program::Builder builder_;
};

/// A probe of points of one kind, each an operation of the executor.
template <class PointKind>
class ExecutorProbe final : public Probe {
 public:
  using Draw = std::function<RepeatedOperation(const PointKind& point)>;

  ExecutorProbe(std::string_view name, std::vector<PointKind> points, Draw draw)
      : name_(name), points_(std::move(points)), draw_(std::move(draw)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }

  [[nodiscard]] std::vector<Point> points() const override {
    return {points_.begin(), points_.end()};
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    return std::make_unique<ExecutorTrial>(draw_(std::get<PointKind>(point)), nullptr);
  }

 private:
  std::string_view name_;
  std::vector<PointKind> points_;
  Draw draw_;
};

Shape tokens_by(std::int64_t tokens, std::int64_t features) {
  return {{1, "B"}, {tokens, "S"}, {features, "h"}};
}

// ---- matrix products ----

/// Some elements of result[m, n] = sum over k of left * right, with the places of the factors.
template <class Left, class Right>
void check_product(const GemmPoint& point, const OperandValues& operands, Left left, Right right) {
  constexpr std::int64_t kSampled = 7;
  const std::vector<double>& a = operands[0].values;
  const std::vector<double>& b = operands[1].values;
  const std::vector<double>& result = operands[2].values;
  for (std::int64_t sample = 0; sample < kSampled; ++sample) {
    const std::int64_t row = sample * (point.m - 1) / (kSampled - 1);
    const std::int64_t column = (kSampled - 1 - sample) * (point.n - 1) / (kSampled - 1);
    double sum = 0;
    double scale = 0;
    for (std::int64_t k = 0; k < point.k; ++k) {
      const double term =
          a[static_cast<std::size_t>(left(row, k))] * b[static_cast<std::size_t>(right(k, column))];
      sum += term;
      scale += std::abs(term);
    }
    expect_near(result[static_cast<std::size_t>(row * point.n + column)],
                sum,
                scale,
                fmt::format("gemm: element {}, {}", row, column));
  }
}

RepeatedOperation draw_gemm(const GemmPoint& point) {
  const auto [m, n, k] = std::array{point.m, point.n, point.k};
  const Flops work(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  Draft draft(rotated_layers(m * k + k * n + m * n, work));
  switch (point.pass) {
    case GemmPass::forward: {
      const TensorId x = draft.given("x", tokens_by(m, k));
      const TensorId weight =
          draft.given("weight", {{n, "out"}, {k, "in"}}, point.type, Role::parameter);
      const TensorId y = draft.result("y", tokens_by(m, n));
      draft.emit(Function::gemm_forward,
                 std::array{program::read(x), program::read(weight), program::write(y)});
      return std::move(draft).close([point](const OperandValues& seen) {
        check_product(
            point,
            seen,
            [&](auto row, auto i) { return row * point.k + i; },
            [&](auto i, auto column) { return column * point.k + i; });
      });
    }
    case GemmPass::data_gradient: {
      const TensorId dy = draft.given("dy", tokens_by(m, k));
      const TensorId weight =
          draft.given("weight", {{k, "out"}, {n, "in"}}, point.type, Role::parameter);
      const TensorId dx = draft.result("dx", tokens_by(m, n));
      draft.emit(Function::gemm_input_gradient,
                 std::array{program::read(dy), program::read(weight), program::write(dx)});
      return std::move(draft).close([point](const OperandValues& seen) {
        check_product(
            point,
            seen,
            [&](auto row, auto i) { return row * point.k + i; },
            [&](auto i, auto column) { return i * point.n + column; });
      });
    }
    case GemmPass::weight_gradient:
      break;
  }
  const TensorId dy = draft.given("dy", tokens_by(k, m));
  const TensorId x = draft.given("x", tokens_by(k, n));
  const Shape shape{{m, "out"}, {n, "in"}};
  const bool adds = point.fp32_accumulation;
  const TensorId dweight = adds ? draft.given("dweight", shape, ElementType::fp32)
                                : draft.result("dweight", shape, point.type);
  draft.emit(Function::gemm_weight_gradient,
             std::array{program::read(dy),
                        program::read(x),
                        adds ? program::update(dweight) : program::write(dweight)});
  RepeatedOperation operation = std::move(draft).close([point](const OperandValues& seen) {
    check_product(
        point,
        seen,
        [&](auto row, auto i) { return i * point.m + row; },
        [&](auto i, auto column) { return i * point.n + column; });
  });
  operation.fill = [](const engine::InstanceIndex& instance, LocalTensor& local) {
    fill_any(instance, local);
    if (local.tensor->type == ElementType::fp32) {  // the sum, which is checked after one product
      std::fill(local.values.begin(), local.values.end(), 0.0);
    }
  };
  return operation;
}

struct LinearShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

std::vector<GemmPoint> gemm_points(Grid grid) {
  const std::vector<std::int64_t> tokens = grid == Grid::few
                                               ? std::vector<std::int64_t>{32, 256}
                                               : std::vector<std::int64_t>{16, 128, 512};
  const std::vector<LinearShape> layers =
      grid == Grid::few ? std::vector<LinearShape>{{64, 64}, {128, 512}, {512, 128}}
                        : std::vector<LinearShape>{{64, 64}, {128, 512}, {512, 128}, {768, 768}};
  std::vector<GemmPoint> points;
  for (const std::int64_t s : tokens) {
    for (const auto& [in, out] : layers) {
      points.push_back({.m = s, .n = out, .k = in, .pass = GemmPass::forward});
      points.push_back({.m = s, .n = in, .k = out, .pass = GemmPass::data_gradient});
      for (const bool adds : {false, true}) {
        points.push_back({.m = out,
                          .n = in,
                          .k = s,
                          .pass = GemmPass::weight_gradient,
                          .fp32_accumulation = adds});
      }
    }
  }
  return points;
}

// ---- attention ----

/// One query row of one head by the definition: its scores, and what softmax makes of them.
struct DenseRow {
  std::vector<double> weights;
  std::vector<double> output;
  double log_sum_exp = 0;
};

/// Places of one head's numbers in q [S, g, a/g, d] and k [S, g, d].
struct HeadPlace {
  const AttentionPoint& point;
  std::int64_t head = 0;

  [[nodiscard]] std::size_t q(std::int64_t token, std::int64_t i) const {
    return static_cast<std::size_t>((token * point.heads + head) * point.head_dim + i);
  }

  [[nodiscard]] std::size_t kv(std::int64_t token, std::int64_t i) const {
    const std::int64_t group = head / (point.heads / point.kv_heads);
    return static_cast<std::size_t>((token * point.kv_heads + group) * point.head_dim + i);
  }

  [[nodiscard]] std::size_t row(std::int64_t token) const {
    return static_cast<std::size_t>(token * point.heads + head);
  }
};

DenseRow dense_row(const HeadPlace& place,
                   std::int64_t query,
                   const std::vector<double>& q,
                   const std::vector<double>& k,
                   const std::vector<double>& v) {
  const AttentionPoint& point = place.point;
  const std::int64_t seen = point.causal
                                ? query + point.key_tokens.value() - point.query_tokens.value() + 1
                                : point.key_tokens.value();
  DenseRow row;
  double total = 0;
  for (std::int64_t key = 0; key < seen; ++key) {
    double score = 0;
    for (std::int64_t i = 0; i < point.head_dim; ++i) {
      score += q[place.q(query, i)] * k[place.kv(key, i)];
    }
    row.weights.push_back(std::exp(score / std::sqrt(static_cast<double>(point.head_dim))));
    total += row.weights.back();
  }
  row.output.assign(static_cast<std::size_t>(point.head_dim), 0);
  for (std::int64_t key = 0; key < seen; ++key) {
    double& weight = row.weights[static_cast<std::size_t>(key)];
    weight /= total;
    for (std::int64_t i = 0; i < point.head_dim; ++i) {
      row.output[static_cast<std::size_t>(i)] += weight * v[place.kv(key, i)];
    }
  }
  row.log_sum_exp = std::log(total);
  return row;
}

void check_attention_forward(const AttentionPoint& point, const OperandValues& seen) {
  const HeadPlace place{point, point.heads - 1};
  for (const std::int64_t query : {std::int64_t{0}, point.query_tokens.value() - 1}) {
    const DenseRow row = dense_row(place, query, seen[0].values, seen[1].values, seen[2].values);
    for (std::int64_t i = 0; i < point.head_dim; ++i) {
      expect_near(seen[3].values[place.q(query, i)],
                  row.output[static_cast<std::size_t>(i)],
                  1,
                  fmt::format("attention: query {}, element {}", query, i));
    }
    expect_near(seen[4].values[place.row(query)],
                row.log_sum_exp,
                1,
                fmt::format("attention: log-sum-exp of query {}", query));
  }
}

/// dq of the last query. The saved output and log-sum-exp are any numbers: with them
/// p = exp(score - log-sum-exp), D = sum of o do, and dq = sum over keys of p (do v - D) k /
/// sqrt(d).
void check_attention_backward(const AttentionPoint& point, const OperandValues& seen) {
  const HeadPlace place{point, point.heads - 1};
  const std::int64_t query = point.query_tokens.value() - 1;
  const auto value = [&](std::size_t operand, std::size_t at) { return seen[operand].values[at]; };
  double row_sum = 0;
  for (std::int64_t i = 0; i < point.head_dim; ++i) {
    row_sum += value(3, place.q(query, i)) * value(5, place.q(query, i));
  }
  const double root = std::sqrt(static_cast<double>(point.head_dim));
  std::vector<double> dq(static_cast<std::size_t>(point.head_dim), 0);
  double scale = 1;
  for (std::int64_t key = 0; key < point.key_tokens.value(); ++key) {
    double score = 0;
    double product = 0;
    for (std::int64_t i = 0; i < point.head_dim; ++i) {
      score += value(0, place.q(query, i)) * value(1, place.kv(key, i));
      product += value(5, place.q(query, i)) * value(2, place.kv(key, i));
    }
    const double ds = std::exp(score / root - value(4, place.row(query))) * (product - row_sum);
    scale += std::abs(ds);
    for (std::int64_t i = 0; i < point.head_dim; ++i) {
      dq[static_cast<std::size_t>(i)] += ds * value(1, place.kv(key, i)) / root;
    }
  }
  for (std::int64_t i = 0; i < point.head_dim; ++i) {
    expect_near(value(6, place.q(query, i)),
                dq[static_cast<std::size_t>(i)],
                scale,
                fmt::format("attention backward: query {}, element {}", query, i));
  }
}

RepeatedOperation draw_attention(const AttentionPoint& point) {
  const program::Dim batch{point.sequences, "B"};
  const program::Dim queries{point.query_tokens.value(), "S"};
  const program::Dim keys{point.key_tokens.value(), "S"};
  const program::Dim groups{point.kv_heads, "g"};
  const program::Dim per_group{point.heads / point.kv_heads, "a/g"};
  const program::Dim head_dim{point.head_dim, "d"};
  const Shape q_shape{batch, queries, groups, per_group, head_dim};
  const Shape kv_shape{batch, keys, groups, head_dim};
  const Shape rows{batch, queries, groups, per_group};
  const bool forward = point.pass == Pass::forward;
  const std::int64_t tensors = forward ? 2 : 4;
  // Two products of every query's row with the keys it sees, about half of them; five backward.
  const Flops work((forward ? 2.0 : 5.0) * static_cast<double>(q_shape.elements()) *
                   static_cast<double>(keys.size));
  Draft draft(rotated_layers(tensors * (q_shape.elements() + kv_shape.elements()), work));
  TensorId q = draft.given("q", q_shape.with(program::kSequenceDim, keys));
  if (queries.size < keys.size) {  // the last of a sequence, as the slowest rank has them
    q = draft.last_tokens(q, "last q", q_shape);
  }
  const TensorId k = draft.given("k", kv_shape);
  const TensorId v = draft.given("v", kv_shape);
  using program::read;
  using program::write;
  if (forward) {
    const TensorId o = draft.result("o", q_shape);
    const TensorId statistics = draft.result("log-sum-exp", rows, ElementType::fp32);
    draft
        .emit(Function::attention_forward,
              std::array{read(q), read(k), read(v), write(o), write(statistics)})
        .causal = point.causal;
    return std::move(draft).close(
        [point](const OperandValues& seen) { check_attention_forward(point, seen); });
  }
  const TensorId o = draft.given("o", q_shape);
  const TensorId statistics = draft.given("log-sum-exp", rows, ElementType::fp32);
  const TensorId d_o = draft.given("do", q_shape);
  // The workspaces of flash2: what a step program's backward writes beside the gradients.
  const TensorId accumulator =
      draft.result("query gradient accumulator", q_shape, ElementType::fp32);
  const TensorId sums = draft.result("row sums of o times do", rows, ElementType::fp32);
  draft
      .emit(Function::attention_backward,
            std::array{read(q),
                       read(k),
                       read(v),
                       read(o),
                       read(statistics),
                       read(d_o),
                       write(draft.result("dq", q_shape)),
                       write(draft.result("dk", kv_shape)),
                       write(draft.result("dv", kv_shape)),
                       write(accumulator),
                       write(sums)})
      .causal = point.causal;
  return std::move(draft).close(
      [point](const OperandValues& seen) { check_attention_backward(point, seen); });
}

std::vector<AttentionPoint> attention_points(Grid grid) {
  constexpr std::int64_t kHeads = 2;  // the executor takes one after the other
  const std::vector<std::int64_t> tokens = grid == Grid::few
                                               ? std::vector<std::int64_t>{64, 256}
                                               : std::vector<std::int64_t>{128, 384, 768};
  const std::vector<std::int64_t> head_dims =
      grid == Grid::few ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{32, 64, 128};
  std::vector<AttentionPoint> points;
  for (const std::int64_t head_dim : head_dims) {
    for (const std::int64_t s : tokens) {
      for (const std::int64_t queries : {s, s / 2}) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          points.push_back({.kernel = "flash2",  // the algorithm that the executor computes
                            .pass = pass,
                            .query_tokens = Tokens(queries),
                            .key_tokens = Tokens(s),
                            .heads = kHeads,
                            .kv_heads = kHeads,
                            .head_dim = head_dim,
                            .causal = true});
        }
      }
    }
  }
  return points;
}

// ---- kernels that memory bounds ----

/// A kernel on `tokens` x `features`, as step programs use it.
struct MemoryBoundKernel {
  cost::PointwiseClass kind;
  Function function;
  void (*emit)(Draft& draft, std::int64_t tokens, std::int64_t features);
};

void emit_unary(Draft& draft, Function function, std::int64_t tokens, std::int64_t features) {
  const TensorId x = draft.given("x", tokens_by(tokens, features));
  draft.emit(
      function,
      std::array{program::read(x), program::write(draft.result("y", tokens_by(tokens, features)))});
}

void emit_norm(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const TensorId x = draft.given("x", tokens_by(tokens, features));
  const TensorId weight =
      draft.given("weight", {{features, "h"}}, ElementType::bf16, Role::parameter);
  draft.emit(Function::norm_forward,
             std::array{program::read(x),
                        program::read(weight),
                        program::write(draft.result("y", tokens_by(tokens, features)))});
}

void emit_norm_backward(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const TensorId dy = draft.given("dy", tokens_by(tokens, features));
  const TensorId x = draft.given("x", tokens_by(tokens, features));
  const TensorId weight =
      draft.given("weight", {{features, "h"}}, ElementType::bf16, Role::parameter);
  draft.emit(Function::norm_backward,
             std::array{program::read(dy),
                        program::read(x),
                        program::read(weight),
                        program::write(draft.result("dx", tokens_by(tokens, features))),
                        program::write(draft.result("dweight", {{features, "h"}}))});
}

void emit_gelu(Draft& draft, std::int64_t tokens, std::int64_t features) {
  emit_unary(draft, Function::gelu, tokens, features);
}

/// Of rows with a gate for every value, as SwiGLU takes them.
void emit_swiglu(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const TensorId x = draft.given("x", tokens_by(tokens, 2 * features));
  draft.emit(
      Function::swiglu,
      std::array{program::read(x), program::write(draft.result("y", tokens_by(tokens, features)))});
}

void emit_swiglu_backward(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const TensorId dy = draft.given("dy", tokens_by(tokens, features));
  const TensorId x = draft.given("x", tokens_by(tokens, 2 * features));
  draft.emit(Function::swiglu_backward,
             std::array{program::read(dy),
                        program::read(x),
                        program::write(draft.result("dx", tokens_by(tokens, 2 * features)))});
}

void emit_copy(Draft& draft, std::int64_t tokens, std::int64_t features) {
  emit_unary(draft, Function::copy, tokens, features);
}

void emit_gelu_backward(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const TensorId dy = draft.given("dy", tokens_by(tokens, features));
  const TensorId x = draft.given("x", tokens_by(tokens, features));
  draft.emit(Function::gelu_backward,
             std::array{program::read(dy),
                        program::read(x),
                        program::write(draft.result("dx", tokens_by(tokens, features)))});
}

void emit_add(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const TensorId a = draft.given("a", tokens_by(tokens, features));
  const TensorId b = draft.given("b", tokens_by(tokens, features));
  draft.emit(Function::add,
             std::array{program::read(a),
                        program::read(b),
                        program::write(draft.result("c", tokens_by(tokens, features)))});
}

void emit_adam(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const Shape shape{{tokens, "out"}, {features, "in"}};
  const auto state = [&](std::string_view name) {
    return program::update(draft.given(name, shape, ElementType::fp32, Role::optimizer_state));
  };
  draft.emit(Function::adam,
             std::array{program::read(draft.given("gradient", shape)),
                        state("master"),
                        state("first moment"),
                        state("second moment"),
                        program::update(
                            draft.given("parameter", shape, ElementType::bf16, Role::parameter))});
}

void emit_cross_entropy(Draft& draft, std::int64_t tokens, std::int64_t features) {
  const Shape logits{{1, "B"}, {tokens, "S"}, {features, "V"}};
  draft.emit(
      Function::cross_entropy,
      std::array{
          program::read(draft.given("logits", logits, ElementType::fp32)),
          program::read(draft.given("labels", {{1, "B"}, {tokens, "S"}}, ElementType::int64)),
          program::write(draft.result("log-probabilities", logits, ElementType::fp32)),
          program::update(draft.given("loss", {{1, ""}}, ElementType::fp32))});
}

constexpr std::array kMemoryBoundKernels = {
    MemoryBoundKernel{cost::PointwiseClass::copy, Function::copy, emit_copy},
    MemoryBoundKernel{cost::PointwiseClass::pointwise, Function::add, emit_add},
    MemoryBoundKernel{cost::PointwiseClass::pointwise, Function::gelu, emit_gelu},
    MemoryBoundKernel{cost::PointwiseClass::pointwise, Function::gelu_backward, emit_gelu_backward},
    MemoryBoundKernel{cost::PointwiseClass::pointwise, Function::swiglu, emit_swiglu},
    MemoryBoundKernel{
        cost::PointwiseClass::pointwise, Function::swiglu_backward, emit_swiglu_backward},
    MemoryBoundKernel{cost::PointwiseClass::norm_forward, Function::norm_forward, emit_norm},
    MemoryBoundKernel{
        cost::PointwiseClass::norm_backward, Function::norm_backward, emit_norm_backward},
    MemoryBoundKernel{cost::PointwiseClass::adam, Function::adam, emit_adam},
    MemoryBoundKernel{
        cost::PointwiseClass::cross_entropy, Function::cross_entropy, emit_cross_entropy},
};

/// What can be told of any kernel: its results are finite. Those whose definition is one line are
/// computed again.
void check_memory_bound(Function function, const OperandValues& seen) {
  for (std::size_t operand = 0; operand < seen.size(); ++operand) {
    for (const double value : seen[operand].values) {
      if (!std::isfinite(value)) {
        throw WrongResult(
            fmt::format("{}: operand {} is not finite", program::info(function).name, operand + 1));
      }
    }
  }
  const std::size_t last = seen.back().values.size() - 1;
  if (function == Function::copy) {
    expect_near(seen[1].values[last], seen[0].values[last], 1, "copy: the last element");
  } else if (function == Function::add) {
    expect_near(seen[2].values[last],
                seen[0].values[last] + seen[1].values[last],
                1,
                "add: the last element");
  }
}

constexpr std::int64_t kFeatures = 256;

RepeatedOperation draw_kernel(const MemoryBoundKernel& kernel, std::int64_t tokens) {
  constexpr std::int64_t kTensors = 5;  // of the widest, Adam
  Draft draft(rotated_layers(kTensors * tokens * kFeatures));
  kernel.emit(draft, tokens, kFeatures);
  return std::move(draft).close(
      [&kernel](const OperandValues& seen) { check_memory_bound(kernel.function, seen); });
}

class MemoryBoundProbe final : public Probe {
 public:
  explicit MemoryBoundProbe(Grid grid)
      : tokens_(grid == Grid::few ? std::vector<std::int64_t>{16, 128}
                                  : std::vector<std::int64_t>{8, 128, 1024}) {}

  [[nodiscard]] std::string_view name() const override { return "memory-bound"; }

  [[nodiscard]] std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const MemoryBoundKernel& kernel : kMemoryBoundKernels) {
      for (const std::int64_t tokens : tokens_) {
        points.emplace_back(point_of(kernel, tokens));
      }
    }
    return points;
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    for (const MemoryBoundKernel& kernel : kMemoryBoundKernels) {
      for (const std::int64_t tokens : tokens_) {
        if (Point(point_of(kernel, tokens)) == point) {
          return std::make_unique<ExecutorTrial>(draw_kernel(kernel, tokens), nullptr);
        }
      }
    }
    throw std::logic_error("memory-bound: not a point of this probe");
  }

 private:
  static MemoryBoundPoint point_of(const MemoryBoundKernel& kernel, std::int64_t tokens) {
    Draft draft(1);
    kernel.emit(draft, tokens, kFeatures);
    const RepeatedOperation operation = std::move(draft).close({});
    return {.kind = kernel.kind,
            .kernel = std::string(program::info(kernel.function).name),
            .moved = engine::moved_bytes(operation.program, operation.program.op(0))};
  }

  std::vector<std::int64_t> tokens_;
};

// ---- the executor's own time ----

RepeatedOperation draw_launch(const LaunchPoint& /*point*/) {
  Draft draft(1);
  emit_copy(draft, 1, 1);
  return std::move(draft).close(
      [](const OperandValues& seen) { check_memory_bound(Function::copy, seen); });
}

// ---- copies in memory ----

class CopyTrial final : public Trial {
 public:
  explicit CopyTrial(Bytes amount) {
    const std::int64_t sets =
        rotated_layers(2 * ceil_div(amount.value(), width(ElementType::fp64)));
    for (std::int64_t set = 0; set < sets; ++set) {
      from_.emplace_back(static_cast<std::size_t>(amount.value()), static_cast<char>(set + 1));
      to_.emplace_back(static_cast<std::size_t>(amount.value()), '\0');
    }
  }

  void verify() override {
    copy(0);
    if (from_[0] != to_[0]) {
      throw WrongResult("host copy: the copy differs");
    }
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    HostStopwatch watch;
    watch.start();
    for (std::int64_t i = 0; i < times; ++i) {
      copy(next_++ % from_.size());
    }
    return (1.0 / static_cast<double>(times)) * watch.stop();
  }

 private:
  void copy(std::size_t set) {
    std::memcpy(to_[set].data(), from_[set].data(), from_[set].size());
    // What was written may be read by someone: the copy is not left out.
    asm volatile("" : : "r"(to_[set].data()) : "memory");
  }

  std::vector<std::string> from_;
  std::vector<std::string> to_;
  std::size_t next_ = 0;
};

class CopyProbe final : public Probe {
 public:
  explicit CopyProbe(Grid grid)
      : amounts_(grid == Grid::few
                     ? std::vector<std::int64_t>{1 << 16}
                     : std::vector<std::int64_t>{1 << 12, 1 << 16, 1 << 20, 1 << 24}) {}

  [[nodiscard]] std::string_view name() const override { return "host-copy"; }

  [[nodiscard]] std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const CopyDirection direction :
         {CopyDirection::host_to_device, CopyDirection::device_to_host}) {
      for (const std::int64_t amount : amounts_) {
        points.emplace_back(
            HostCopyPoint{.direction = direction, .pinned = false, .amount = Bytes(amount)});
      }
    }
    return points;
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    return std::make_unique<CopyTrial>(std::get<HostCopyPoint>(point).amount);
  }

 private:
  std::vector<std::int64_t> amounts_;
};

}  // namespace

std::unique_ptr<Probe> executor_gemm(Grid grid) {
  return std::make_unique<ExecutorProbe<GemmPoint>>("gemm", gemm_points(grid), draw_gemm);
}

std::unique_ptr<Probe> executor_attention(Grid grid) {
  return std::make_unique<ExecutorProbe<AttentionPoint>>(
      "attention", attention_points(grid), draw_attention);
}

std::unique_ptr<Probe> executor_memory_bound(Grid grid) {
  return std::make_unique<MemoryBoundProbe>(grid);
}

std::unique_ptr<Probe> executor_launch(Grid /*grid*/) {
  return std::make_unique<ExecutorProbe<LaunchPoint>>(
      "launch", std::vector<LaunchPoint>{{.kernel = "executor"}}, draw_launch);
}

std::unique_ptr<Probe> host_copies(Grid grid) {
  return std::make_unique<CopyProbe>(grid);
}

}  // namespace trireme::calibrate
