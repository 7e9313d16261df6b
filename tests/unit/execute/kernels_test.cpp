// The numeric kernels: hand-computed numbers, backward passes against finite differences, and
// parts on several ranks against the whole.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/execute/kernel.h"
#include "tests/catch.h"

namespace trireme::engine {
namespace {

using program::Access;
using program::Function;
using program::Layout;
using program::Placement;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Finite differences of fourth order with steps of 1e-3 leave an error of about 1e-12 from the
/// step and 1e-13 from rounding, for values and derivatives of order one.
constexpr double kDifferenceTolerance = 1e-9;

/// What a kernel is run with; tests change what they are about.
struct Bench {
  program::Mesh mesh;
  std::int64_t rank = 0;
  program::Op op;
  ExecutionConstants constants;

  void run(Function function, std::span<LocalTensor> operands) const {
    kernel(function)(KernelContext{mesh, rank, op, constants}, operands);
  }
};

/// A tensor that is whole on this rank. Without values it holds NaN, as memory that nothing wrote.
LocalTensor whole(std::initializer_list<std::int64_t> extents, std::vector<double> values = {}) {
  LocalTensor local;
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) {
    const auto dim = static_cast<std::size_t>(local.rank++);
    local.extent[dim] = extent;
    local.valid[dim] = extent;
    elements *= extent;
  }
  local.values = std::move(values);
  local.values.resize(static_cast<std::size_t>(elements), kNaN);
  return local;
}

LocalTensor as(Access access, LocalTensor local) {
  local.access = access;
  return local;
}

LocalTensor written(std::initializer_list<std::int64_t> extents) {
  return as(Access::write, whole(extents));
}

/// A zeroed scalar that a kernel adds to.
LocalTensor scalar_sum() {
  return as(Access::update, whole({1}, {0}));
}

LocalTensor random(std::initializer_list<std::int64_t> extents, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  LocalTensor local = whole(extents);
  std::generate(local.values.begin(), local.values.end(), [&] { return uniform(generator); });
  return local;
}

double norm(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

/// |a - b| / |b|; infinite when sizes differ.
double relative_error(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    return kInfinity;
  }
  std::vector<double> difference(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference[i] = a[i] - b[i];
  }
  return norm(difference) / norm(b);
}

double dot(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// The gradient of `value()` by `values`, which it depends on.
template <class Value>
std::vector<double> finite_differences(std::vector<double>& values, Value value) {
  constexpr double kStep = 1e-3;
  std::vector<double> gradient;
  for (double& x : values) {
    const double at = x;
    const auto moved = [&](double steps) {
      x = at + steps * kStep;
      return value();
    };
    gradient.push_back((8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * kStep));
    x = at;
  }
  return gradient;
}

/// Elements of a tensor of rank >= 2 whose index of `dim` is in [first, first + count), as the part
/// of a rank that owns them.
LocalTensor part(const LocalTensor& from, int dim, std::int64_t first, std::int64_t count) {
  const auto at = static_cast<std::size_t>(dim);
  LocalTensor local = from;
  local.extent[at] = count;
  local.valid[at] = count;
  local.first[at] = first;
  local.values.clear();
  std::int64_t inner = 1;
  for (auto i = at + 1; i < static_cast<std::size_t>(from.rank); ++i) {
    inner *= from.extent[i];
  }
  for (std::int64_t i = 0; i < from.elements(); ++i) {
    const std::int64_t index = i / inner % from.extent[at];
    if (index >= first && index < first + count) {
      local.values.push_back(from.values[static_cast<std::size_t>(i)]);
    }
  }
  return local;
}

/// The part of logits, or of a table, of a rank that owns [first, first + valid) of `dim` and pads
/// it to `extent` with `padding`.
LocalTensor padded_part(const LocalTensor& from,
                        int dim,
                        std::int64_t first,
                        std::int64_t valid,
                        std::int64_t extent,
                        double padding) {
  const auto at = static_cast<std::size_t>(dim);
  LocalTensor local = part(from, dim, first, valid);
  local.extent[at] = extent;
  std::int64_t inner = 1;
  for (auto i = at + 1; i < static_cast<std::size_t>(from.rank); ++i) {
    inner *= from.extent[i];
  }
  std::vector<double> values;
  const std::int64_t rows =
      valid == 0 ? from.elements() / (from.extent[at] * inner) : local.elements() / (valid * inner);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = local.values.begin() + row * valid * inner;
    values.insert(values.end(), begin, begin + valid * inner);
    values.insert(values.end(), static_cast<std::size_t>((extent - valid) * inner), padding);
  }
  local.values = std::move(values);
  return local;
}

TEST_CASE("every function has a kernel but those of the executor", "[execute]") {
  for (const program::FunctionInfo& row : program::function_table()) {
    CAPTURE(row.name);
    const bool executor_does_it =
        row.family == program::Family::collective || row.function == Function::keep ||
        row.family == program::Family::host_copy || row.function == Function::select_experts;
    CHECK((kernel(row.function) == nullptr) == executor_does_it);
  }
}

TEST_CASE("gemm_forward: features are flattened, weights are [out, in]", "[execute]") {
  // x = (1 2 | 3 4), weight = (1 0), (1 1), (0 2), bias = (10 20 30)
  std::vector<LocalTensor> operands = {whole({1, 2, 1, 2}, {1, 2, 3, 4}),
                                       whole({3, 2}, {1, 0, 1, 1, 0, 2}),
                                       whole({3}, {10, 20, 30}),
                                       written({1, 2, 3})};
  Bench().run(Function::gemm_forward, operands);
  CHECK(operands[3].values == std::vector<double>{11, 23, 34, 13, 27, 38});
}

TEST_CASE("gemm gradients: against finite differences; an update adds", "[execute]") {
  const Bench bench;
  LocalTensor x = random({2, 3, 4}, 1);
  LocalTensor weight = random({5, 4}, 2);
  LocalTensor bias = random({5}, 3);
  const LocalTensor dy = random({2, 3, 5}, 4);
  const auto value = [&] {
    std::vector<LocalTensor> operands = {x, weight, bias, written({2, 3, 5})};
    bench.run(Function::gemm_forward, operands);
    return dot(operands[3].values, dy.values);
  };
  std::vector<LocalTensor> dx = {dy, weight, written({2, 3, 4})};
  bench.run(Function::gemm_input_gradient, dx);
  CHECK(relative_error(dx[2].values, finite_differences(x.values, value)) < kDifferenceTolerance);
  std::vector<LocalTensor> dweight = {dy, x, written({5, 4})};
  bench.run(Function::gemm_weight_gradient, dweight);
  CHECK(relative_error(dweight[2].values, finite_differences(weight.values, value)) <
        kDifferenceTolerance);
  std::vector<LocalTensor> dbias = {dy, written({5})};
  bench.run(Function::bias_gradient, dbias);
  CHECK(relative_error(dbias[1].values, finite_differences(bias.values, value)) <
        kDifferenceTolerance);

  const auto twice = [](const std::vector<double>& once) {
    std::vector<double> values = once;
    for (double& v : values) {
      v += v;
    }
    return values;
  };
  for (const auto& [function, operands] : {std::pair(Function::gemm_input_gradient, dx),
                                           std::pair(Function::gemm_weight_gradient, dweight),
                                           std::pair(Function::bias_gradient, dbias)}) {
    std::vector<LocalTensor> again = operands;
    again.back().access = Access::update;
    bench.run(function, again);
    CHECK(relative_error(again.back().values, twice(operands.back().values)) < 1e-15);
  }
}

/// Operands of one attention: [B, S, g, a/g, d] and [B, S, g, d].
struct Attention {
  LocalTensor q, k, v;

  [[nodiscard]] std::vector<LocalTensor> forward(const Bench& bench) const {
    LocalTensor lse = whole({q.extent[0], q.extent[1], q.extent[2], q.extent[3]});
    LocalTensor o = q;
    std::fill(o.values.begin(), o.values.end(), kNaN);
    std::vector<LocalTensor> operands = {q, k, v, as(Access::write, o), as(Access::write, lse)};
    bench.run(Function::attention_forward, operands);
    return {operands[3], operands[4]};
  }

  /// dq, dk, dv and one workspace.
  [[nodiscard]] std::vector<LocalTensor> backward(const Bench& bench,
                                                  const LocalTensor& d_o) const {
    const std::vector<LocalTensor> saved = forward(bench);
    std::vector<LocalTensor> operands = {q, k, v, saved[0], saved[1], d_o};
    for (const LocalTensor* like : {&q, &k, &v, &q}) {
      LocalTensor result = as(Access::write, *like);
      std::fill(result.values.begin(), result.values.end(), kNaN);
      operands.push_back(result);
    }
    bench.run(Function::attention_backward, operands);
    return {operands.begin() + 6, operands.end()};
  }
};

/// Output and log-sum-exp from whole rows of scores, element by element.
std::vector<LocalTensor> naive_attention(const Attention& a, bool causal) {
  LocalTensor o = a.q;
  LocalTensor lse = whole({a.q.extent[0], a.q.extent[1], a.q.extent[2], a.q.extent[3]});
  const std::int64_t groups = a.q.extent[2];
  const std::int64_t per_group = a.q.extent[3];
  const std::int64_t d = a.q.extent[4];
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t row = 0; row < lse.elements(); ++row) {  // batch, query, group, head of group
    const std::int64_t group = row / per_group % groups;
    const std::int64_t query = row / (per_group * groups) % a.q.extent[1];
    const std::int64_t batch = row / (per_group * groups * a.q.extent[1]);
    const std::int64_t keys = causal ? query + 1 : a.k.extent[1];
    const auto key_offset = [&](std::int64_t key) {
      return ((batch * a.k.extent[1] + key) * groups + group) * d;
    };
    std::vector<double> exponential;
    double sum = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < d; ++i) {
        score += a.q.values[at(row * d + i)] * a.k.values[at(key_offset(key) + i)];
      }
      exponential.push_back(std::exp(score / std::sqrt(static_cast<double>(d))));
      sum += exponential.back();
    }
    lse.values[at(row)] = std::log(sum);
    for (std::int64_t i = 0; i < d; ++i) {
      double value = 0;
      for (std::int64_t key = 0; key < keys; ++key) {
        value += exponential[at(key)] / sum * a.v.values[at(key_offset(key) + i)];
      }
      o.values[at(row * d + i)] = value;
    }
  }
  return {o, lse};
}

TEST_CASE("attention in blocks equals the naive softmax", "[execute]") {
  Bench bench;
  bench.op.causal = GENERATE(true, false);
  CAPTURE(bench.op.causal);
  // 300 tokens are three blocks, the last one not full; three query heads share a key head.
  const Attention attention = {
      random({2, 300, 2, 3, 5}, 1), random({2, 300, 2, 5}, 2), random({2, 300, 2, 5}, 3)};
  const auto blocked = attention.forward(bench);
  const auto naive = naive_attention(attention, bench.op.causal);
  CHECK(relative_error(blocked[0].values, naive[0].values) < 1e-13);
  CHECK(relative_error(blocked[1].values, naive[1].values) < 1e-13);
}

TEST_CASE("attention: a first causal query takes its own value alone", "[execute]") {
  Bench bench;
  bench.op.causal = true;
  // Scores of query 1: 2 * 1 / sqrt(1) and 2 * (1 + ln(3)/2), so that key 1 weighs three times key
  // 0: o_1 = (8 + 3 * 4) / 4 = 5, and log-sum-exp = log(e² + 3 e²) = 2 + log(4).
  const Attention attention = {whole({1, 2, 1, 1, 1}, {7, 2}),
                               whole({1, 2, 1, 1}, {1, 1 + std::log(3.0) / 2}),
                               whole({1, 2, 1, 1}, {8, 4})};
  const auto result = attention.forward(bench);
  CHECK(result[0].values[0] == Approx(8).epsilon(1e-14));
  CHECK(result[0].values[1] == Approx(5).epsilon(1e-14));
  CHECK(result[1].values[0] == Approx(7).epsilon(1e-14));
  CHECK(result[1].values[1] == Approx(2 + std::log(4.0)).epsilon(1e-14));
}

TEST_CASE("attention: a key that is not seen adds nothing, however large its value", "[execute]") {
  Bench bench;
  bench.op.causal = true;
  const Attention attention = {
      whole({1, 2, 1, 1, 1}, {1, 1}), whole({1, 2, 1, 1}, {1, 1}), whole({1, 2, 1, 1}, {3, 1e308})};
  CHECK(attention.forward(bench)[0].values[0] == 3);
}

TEST_CASE("attention backward: against finite differences", "[execute]") {
  Bench bench;
  bench.op.causal = GENERATE(true, false);
  CAPTURE(bench.op.causal);
  Attention attention = {
      random({2, 5, 2, 3, 4}, 1), random({2, 5, 2, 4}, 2), random({2, 5, 2, 4}, 3)};
  const LocalTensor d_o = random({2, 5, 2, 3, 4}, 4);
  const auto value = [&] { return dot(attention.forward(bench)[0].values, d_o.values); };
  const auto gradients = attention.backward(bench, d_o);
  CHECK(relative_error(gradients[0].values, finite_differences(attention.q.values, value)) <
        kDifferenceTolerance);
  CHECK(relative_error(gradients[1].values, finite_differences(attention.k.values, value)) <
        kDifferenceTolerance);
  CHECK(relative_error(gradients[2].values, finite_differences(attention.v.values, value)) <
        kDifferenceTolerance);
  CHECK(gradients[3].values == std::vector<double>(240, 0));  // the workspace
}

TEST_CASE("attention: ranks that own a part of the queries add up to the whole", "[execute]") {
  Bench bench;
  bench.op.causal = true;
  // Over 256 keys: the last queries see several blocks, and blocks end inside a rank's part.
  const Attention attention = {
      random({1, 280, 1, 2, 3}, 1), random({1, 280, 1, 3}, 2), random({1, 280, 1, 3}, 3)};
  const LocalTensor d_o = random({1, 280, 1, 2, 3}, 4);
  const auto forward = attention.forward(bench);
  const auto backward = attention.backward(bench, d_o);
  std::vector<double> dk(attention.k.values.size());
  std::vector<double> dv(attention.v.values.size());
  for (const auto& [first, count] : {std::pair(0, 60), std::pair(60, 150), std::pair(210, 70)}) {
    CAPTURE(first);
    const Attention own = {part(attention.q, 1, first, count), attention.k, attention.v};
    const auto result = own.forward(bench);
    CHECK(relative_error(result[0].values, part(forward[0], 1, first, count).values) < 1e-13);
    CHECK(relative_error(result[1].values, part(forward[1], 1, first, count).values) < 1e-13);
    const auto gradients = own.backward(bench, part(d_o, 1, first, count));
    CHECK(relative_error(gradients[0].values, part(backward[0], 1, first, count).values) < 1e-12);
    for (std::size_t i = 0; i < dk.size(); ++i) {
      dk[i] += gradients[1].values[i];
      dv[i] += gradients[2].values[i];
    }
  }
  CHECK(relative_error(dk, backward[1].values) < 1e-12);
  CHECK(relative_error(dv, backward[2].values) < 1e-12);
}

TEST_CASE("attention: queries before every key are zero and give no gradient", "[execute]") {
  Bench bench;
  bench.op.causal = true;
  Attention attention = {
      random({1, 3, 1, 1, 2}, 1), random({1, 3, 1, 2}, 2), random({1, 3, 1, 2}, 3)};
  attention.k.first[1] = 2;  // queries at 0, 1, 2, keys at 2, 3, 4: the last sees the first
  const auto result = attention.forward(bench);
  CHECK(result[0].values ==
        std::vector<double>{0, 0, 0, 0, attention.v.values[0], attention.v.values[1]});
  CHECK(result[1].values[0] == -kInfinity);
  CHECK(result[1].values[1] == -kInfinity);
  CHECK(std::isfinite(result[1].values[2]));
  const auto gradients = attention.backward(bench, random({1, 3, 1, 1, 2}, 4));
  CHECK(norm(gradients[0].values) < 1e-15);  // one key: its probability is 1 whatever the score
  CHECK(norm(gradients[2].values) > 0);
  CHECK(norm(std::span(gradients[2].values).subspan(2)) == 0);
}

TEST_CASE("norm_forward: hand-computed rows", "[execute]") {
  Bench bench;
  bench.constants.norm_epsilon = 1;
  // RMSNorm of (1, 1, 3, 5): mean square 9, so divided by sqrt(10).
  std::vector<LocalTensor> rms = {
      whole({1, 1, 4}, {1, 1, 3, 5}), whole({4}, {1, 2, 3, 4}), written({1, 1, 4})};
  bench.run(Function::norm_forward, rms);
  CHECK(rms[2].values[3] == Approx(20 / std::sqrt(10.0)).epsilon(1e-14));
  // LayerNorm of (1, 1, 3, 7): mean 3, variance (4 + 4 + 0 + 16) / 4 = 6, divided by sqrt(7).
  bench.constants.rmsnorm = false;
  std::vector<LocalTensor> layer = {whole({1, 1, 4}, {1, 1, 3, 7}),
                                    whole({4}, {1, 2, 3, 4}),
                                    whole({4}, {0.5, 0.5, 0.5, 0.5}),
                                    written({1, 1, 4})};
  bench.run(Function::norm_forward, layer);
  CHECK(layer[3].values[0] == Approx(0.5 - 2 / std::sqrt(7.0)).epsilon(1e-14));
  CHECK(layer[3].values[2] == Approx(0.5).epsilon(1e-14));
  CHECK(layer[3].values[3] == Approx(0.5 + 16 / std::sqrt(7.0)).epsilon(1e-14));
}

TEST_CASE("norm_backward: against finite differences; an update adds", "[execute]") {
  Bench bench;
  bench.constants.rmsnorm = GENERATE(true, false);
  CAPTURE(bench.constants.rmsnorm);
  LocalTensor x = random({2, 2, 5}, 1);
  LocalTensor weight = random({5}, 2);
  LocalTensor bias = random({5}, 3);
  const LocalTensor dy = random({2, 2, 5}, 4);
  const auto value = [&] {
    std::vector<LocalTensor> operands = {x, weight, bias, written({2, 2, 5})};
    bench.run(Function::norm_forward, operands);
    return dot(operands[3].values, dy.values);
  };
  std::vector<LocalTensor> operands = {
      dy, x, weight, written({2, 2, 5}), written({5}), written({5})};
  bench.run(Function::norm_backward, operands);
  const std::vector<double> dweight = finite_differences(weight.values, value);
  // The second derivatives of a norm of five values are larger than one: 1e-8.
  CHECK(relative_error(operands[3].values, finite_differences(x.values, value)) < 1e-8);
  CHECK(relative_error(operands[4].values, dweight) < kDifferenceTolerance);
  CHECK(relative_error(operands[5].values, finite_differences(bias.values, value)) <
        kDifferenceTolerance);

  operands[4] = as(Access::update, whole({5}, {1, 2, 3, 4, 5}));
  bench.run(Function::norm_backward, operands);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(operands[4].values[i] == Approx(static_cast<double>(i + 1) + dweight[i]).epsilon(1e-9));
  }
}

TEST_CASE("gelu is the approximation by tanh", "[execute]") {
  const Bench bench;
  // sqrt(2/pi) * 1.044715 = 0.8335620, tanh of it 0.6823840: (1 + 0.6823840) / 2 = 0.8411920, where
  // the exact function has 0.8413447.
  std::vector<LocalTensor> operands = {whole({1, 1, 3}, {0, 1, -1}), written({1, 1, 3})};
  bench.run(Function::gelu, operands);
  CHECK(operands[1].values[0] == 0);
  CHECK(operands[1].values[1] == Approx(0.8411920).epsilon(1e-7));
  CHECK(operands[1].values[2] == Approx(-0.1588080).epsilon(1e-7));  // gelu(-x) = gelu(x) - x

  LocalTensor x = random({1, 3, 4}, 1);
  const LocalTensor dy = random({1, 3, 4}, 2);
  const auto value = [&] {
    std::vector<LocalTensor> forward = {x, written({1, 3, 4})};
    bench.run(Function::gelu, forward);
    return dot(forward[1].values, dy.values);
  };
  std::vector<LocalTensor> backward = {dy, x, written({1, 3, 4})};
  bench.run(Function::gelu_backward, backward);
  CHECK(relative_error(backward[2].values, finite_differences(x.values, value)) <
        kDifferenceTolerance);
}

TEST_CASE("swiglu: the gate comes first", "[execute]") {
  const Bench bench;
  // silu(1) = 1 / (1 + exp(-1)) = 0.7310585786, times 2; silu(0) = 0.
  std::vector<LocalTensor> operands = {whole({1, 1, 2, 2}, {1, 2, 0, 5}), written({1, 1, 2})};
  bench.run(Function::swiglu, operands);
  CHECK(operands[1].values[0] == Approx(1.4621171573).epsilon(1e-10));
  CHECK(operands[1].values[1] == 0);

  LocalTensor x = random({1, 3, 4, 2}, 1);
  const LocalTensor dy = random({1, 3, 4}, 2);
  const auto value = [&] {
    std::vector<LocalTensor> forward = {x, written({1, 3, 4})};
    bench.run(Function::swiglu, forward);
    return dot(forward[1].values, dy.values);
  };
  std::vector<LocalTensor> backward = {dy, x, written({1, 3, 4, 2})};
  bench.run(Function::swiglu_backward, backward);
  CHECK(relative_error(backward[2].values, finite_differences(x.values, value)) <
        kDifferenceTolerance);
}

TEST_CASE("rotary: halves are paired, positions count in the whole sequence", "[execute]") {
  Bench bench;
  bench.constants.rotary_base = 100;
  // d = 5: the pairs (0, 2) and (1, 3) turn by position and position * 100^(-2/5); 4 stays.
  std::vector<LocalTensor> operands = {whole({1, 2, 1, 1, 5}, {1, 0, 0, 1, 9, 1, 0, 0, 1, 9})};
  operands[0].first[1] = 1;  // positions 1 and 2
  bench.run(Function::rotary, operands);
  for (const std::int64_t token : {0, 1}) {
    CAPTURE(token);
    const auto position = static_cast<double>(1 + token);
    const double slower = position * std::pow(100.0, -0.4);
    const std::span<const double> head =
        std::span(operands[0].values).subspan(static_cast<std::size_t>(5 * token), 5);
    CHECK(head[0] == Approx(std::cos(position)).epsilon(1e-14));
    CHECK(head[1] == Approx(-std::sin(slower)).epsilon(1e-14));
    CHECK(head[2] == Approx(std::sin(position)).epsilon(1e-14));
    CHECK(head[3] == Approx(std::cos(slower)).epsilon(1e-14));
    CHECK(head[4] == 9);
  }
}

TEST_CASE("rotary: every sequence of a batch starts at the same position", "[execute]") {
  std::vector<LocalTensor> operands = {whole({2, 2, 1, 2}, {1, 0, 1, 0, 1, 0, 1, 0})};
  Bench().run(Function::rotary, operands);
  const std::vector<double> turned = {1, 0, std::cos(1.0), std::sin(1.0)};
  CHECK(std::vector<double>(operands[0].values.begin(), operands[0].values.begin() + 4) == turned);
  CHECK(std::vector<double>(operands[0].values.begin() + 4, operands[0].values.end()) == turned);
}

TEST_CASE("rotary backward: against finite differences, for q and k at once", "[execute]") {
  const Bench bench;
  LocalTensor q = random({2, 3, 2, 2, 4}, 1);
  LocalTensor k = random({2, 3, 2, 4}, 2);
  q.first[1] = 6;
  k.first[1] = 6;
  LocalTensor dq = random({2, 3, 2, 2, 4}, 3);
  LocalTensor dk = random({2, 3, 2, 4}, 4);
  dq.first[1] = 6;
  dk.first[1] = 6;
  const auto value = [&] {
    std::vector<LocalTensor> operands = {q, k};
    bench.run(Function::rotary, operands);
    return dot(operands[0].values, dq.values) + dot(operands[1].values, dk.values);
  };
  std::vector<LocalTensor> gradients = {dq, dk};
  bench.run(Function::rotary_backward, gradients);
  CHECK(relative_error(gradients[0].values, finite_differences(q.values, value)) <
        kDifferenceTolerance);
  CHECK(relative_error(gradients[1].values, finite_differences(k.values, value)) <
        kDifferenceTolerance);
}

TEST_CASE("add: into a third tensor or in place, with a bias or without", "[execute]") {
  const Bench bench;
  const LocalTensor a = whole({1, 2, 2}, {1, 2, 3, 4});
  const LocalTensor b = whole({1, 2, 2}, {10, 20, 30, 40});
  const LocalTensor bias = whole({2}, {100, 200});
  std::vector<LocalTensor> plain = {a, b, written({1, 2, 2})};
  bench.run(Function::add, plain);
  CHECK(plain[2].values == std::vector<double>{11, 22, 33, 44});
  std::vector<LocalTensor> biased = {a, b, bias, written({1, 2, 2})};
  bench.run(Function::add, biased);
  CHECK(biased[3].values == std::vector<double>{111, 222, 133, 244});
  std::vector<LocalTensor> in_place = {as(Access::update, a), b};
  bench.run(Function::add, in_place);
  CHECK(in_place[0].values == std::vector<double>{11, 22, 33, 44});
  std::vector<LocalTensor> both = {as(Access::update, a), b, bias};
  bench.run(Function::add, both);
  CHECK(both[0].values == std::vector<double>{111, 222, 133, 244});
}

TEST_CASE("copy, cast, zero and accumulate go by elements", "[execute]") {
  const Bench bench;
  const LocalTensor x = whole({1, 3}, {0.1, 1e-300, -3});
  for (const Function function : {Function::copy, Function::cast}) {
    std::vector<LocalTensor> operands = {x, written({3, 1})};
    bench.run(function, operands);
    CHECK(operands[1].values == x.values);
  }
  std::vector<LocalTensor> zeroed = {written({2}), as(Access::update, x)};
  bench.run(Function::zero, zeroed);
  CHECK(zeroed[0].values == std::vector<double>{0, 0});
  CHECK(zeroed[1].values == std::vector<double>{0, 0, 0});
  std::vector<LocalTensor> sum = {x, as(Access::update, whole({3}, {1, 2, 3}))};
  bench.run(Function::accumulate, sum);
  CHECK(sum[1].values == std::vector<double>{1.1, 2, 0});
}

TEST_CASE("embedding: shards of the table add up to the whole", "[execute]") {
  const Bench bench;
  const LocalTensor ids = whole({1, 4}, {4, 0, 2, 4});
  const LocalTensor table = whole({5, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41});
  const std::vector<double> looked_up = {40, 41, 0, 1, 20, 21, 40, 41};
  std::vector<LocalTensor> all = {ids, table, written({1, 4, 2})};
  bench.run(Function::embedding_forward, all);
  CHECK(all[2].values == looked_up);

  const LocalTensor dx = whole({1, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<double> d_table = {3, 4, 0, 0, 5, 6, 0, 0, 8, 10};  // row 4: (1 2) + (7 8)
  std::vector<double> sum(8);
  std::vector<double> rows;
  // Three rows on the first rank, two and one of padding on the second, padding on the third.
  for (const std::int64_t first : {0, 3, 5}) {
    const std::int64_t valid = std::min<std::int64_t>(3, 5 - first);
    const LocalTensor shard = padded_part(table, 0, first, valid, 3, 777);
    std::vector<LocalTensor> forward = {ids, shard, written({1, 4, 2})};
    bench.run(Function::embedding_forward, forward);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += forward[2].values[i];
    }
    std::vector<LocalTensor> backward = {ids, dx, as(Access::write, shard)};
    bench.run(Function::embedding_backward, backward);
    rows.insert(rows.end(), backward[2].values.begin(), backward[2].values.end());
  }
  CHECK(sum == looked_up);
  std::vector<double> padded = d_table;
  padded.resize(18, 0.0);
  CHECK(rows == padded);

  std::vector<LocalTensor> added = {
      ids, dx, as(Access::update, whole({5, 2}, std::vector<double>(10, 100)))};
  bench.run(Function::embedding_backward, added);
  CHECK(added[2].values == std::vector<double>{103, 104, 100, 100, 105, 106, 100, 100, 108, 110});
}

TEST_CASE("embedding: padding of a table answers for no id", "[execute]") {
  const LocalTensor table = padded_part(whole({5, 1}, {1, 2, 3, 4, 5}), 0, 3, 2, 3, 777);
  std::vector<LocalTensor> operands = {whole({1, 3}, {4, 5, 2}), table, written({1, 3, 1})};
  Bench().run(Function::embedding_forward, operands);
  CHECK(operands[2].values == std::vector<double>{5, 0, 0});
}

TEST_CASE("embedding with positions: those of the whole sequence", "[execute]") {
  const Bench bench;
  LocalTensor ids = whole({2, 2}, {0, 1, 1, 0});
  ids.first[1] = 1;  // positions 1 and 2 of two sequences
  LocalTensor x = written({2, 2, 1});
  x.first[1] = 1;
  std::vector<LocalTensor> forward = {
      ids, whole({2, 1}, {1, 2}), whole({3, 1}, {100, 200, 300}), x};
  bench.run(Function::embedding_forward, forward);
  CHECK(forward[3].values == std::vector<double>{201, 302, 202, 301});
  LocalTensor dx = whole({2, 2, 1}, {1, 2, 3, 4});
  dx.first[1] = 1;
  std::vector<LocalTensor> backward = {ids, dx, written({2, 1}), written({3, 1})};
  bench.run(Function::embedding_backward, backward);
  CHECK(backward[2].values == std::vector<double>{5, 5});
  CHECK(backward[3].values == std::vector<double>{0, 4, 6});
}

/// Logits of four tokens over a vocabulary of five, and one label of each quarter and edge.
struct LossCase {
  LocalTensor logits = random({2, 2, 5}, 1);
  LocalTensor labels = whole({2, 2}, {0, 2, 3, 4});
  Bench bench;

  LossCase() { bench.op.scale = 0.25; }

  /// Mean of log(sum(exp)) - target over the tokens, straight from the definition.
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (std::size_t token = 0; token < 4; ++token) {
      double exponentials = 0;
      for (std::size_t j = 0; j < 5; ++j) {
        exponentials += std::exp(logits.values[5 * token + j]);
      }
      const auto target = static_cast<std::size_t>(labels.values[token]);
      sum += std::log(exponentials) - logits.values[5 * token + target];
    }
    return sum / 4;
  }

  [[nodiscard]] std::vector<double> gradient() {
    return finite_differences(logits.values, [&] { return loss(); });
  }
};

TEST_CASE("cross_entropy: loss, log-probabilities and gradient of two columns", "[execute]") {
  Bench bench;
  bench.op.scale = 0.5;
  // Probabilities 1/4 and 3/4; the label has 1/4: loss = log(4) / 2, gradient = (-3/4, 3/4) / 2.
  const LocalTensor labels = whole({1, 1}, {0});
  std::vector<LocalTensor> forward = {
      whole({1, 1, 2}, {1000, 1000 + std::log(3.0)}), labels, written({1, 1, 2}), scalar_sum()};
  forward[3].values[0] = 10;  // a loss is added to
  bench.run(Function::cross_entropy, forward);
  // Logits of 1000 cost three digits.
  CHECK(forward[3].values[0] == Approx(10 + std::log(4.0) / 2).epsilon(1e-12));
  CHECK(forward[2].values[1] == Approx(std::log(0.75)).epsilon(1e-12));
  std::vector<LocalTensor> backward = {forward[2], labels, written({1, 1, 2})};
  bench.run(Function::cross_entropy_backward, backward);
  CHECK(backward[2].values[0] == Approx(-0.375).epsilon(1e-12));
  CHECK(backward[2].values[1] == Approx(0.375).epsilon(1e-12));
}

TEST_CASE("cross_entropy and its forms in place: against finite differences", "[execute]") {
  LossCase c;
  const std::vector<double> gradient = c.gradient();
  std::vector<LocalTensor> forward = {c.logits, c.labels, written({2, 2, 5}), scalar_sum()};
  c.bench.run(Function::cross_entropy, forward);
  CHECK(forward[3].values[0] == Approx(c.loss()).epsilon(1e-14));
  std::vector<LocalTensor> backward = {forward[2], c.labels, written({2, 2, 5})};
  c.bench.run(Function::cross_entropy_backward, backward);
  CHECK(relative_error(backward[2].values, gradient) < kDifferenceTolerance);
  std::vector<LocalTensor> in_place = {c.logits, c.labels, written({2, 2, 5}), scalar_sum()};
  c.bench.run(Function::cross_entropy_in_place, in_place);
  CHECK(in_place[3].values[0] == Approx(c.loss()).epsilon(1e-14));
  CHECK(relative_error(in_place[2].values, gradient) < kDifferenceTolerance);
}

/// The columns of three ranks: three, two and one of padding, three of padding. Padding holds a
/// number that would be the largest logit.
std::vector<LocalTensor> logit_shards(const LocalTensor& logits) {
  return {padded_part(logits, 2, 0, 3, 3, 1e3),
          padded_part(logits, 2, 3, 2, 3, 1e3),
          padded_part(logits, 2, 5, 0, 3, 1e3)};
}

/// Checks gradients of the shards against that of the whole; padding has none.
void check_shards(const std::vector<LocalTensor>& shards, const std::vector<double>& gradient) {
  std::vector<double> joined;
  for (std::size_t token = 0; token < 4; ++token) {
    for (const LocalTensor& shard : shards) {
      for (std::size_t j = 0; j < 3; ++j) {
        if (static_cast<std::int64_t>(j) < shard.valid[2]) {
          joined.push_back(shard.values[3 * token + j]);
        } else {
          CHECK(shard.values[3 * token + j] == 0);
        }
      }
    }
  }
  CHECK(relative_error(joined, gradient) < kDifferenceTolerance);
}

TEST_CASE("parallel cross entropy: shards of the vocabulary equal the whole", "[execute]") {
  LossCase c;
  std::vector<LocalTensor> shards = logit_shards(c.logits);
  std::vector<double> max(4, -kInfinity);
  for (const LocalTensor& shard : shards) {
    std::vector<LocalTensor> operands = {shard, written({2, 2})};
    c.bench.run(Function::logits_max, operands);
    for (std::size_t i = 0; i < 4; ++i) {
      max[i] = std::max(max[i], operands[1].values[i]);
    }
  }
  for (std::size_t token = 0; token < 4; ++token) {
    const auto row = std::span(c.logits.values).subspan(5 * token, 5);
    CHECK(max[token] == *std::max_element(row.begin(), row.end()));
  }
  LocalTensor sum_exp = whole({2, 2}, {0, 0, 0, 0});
  LocalTensor target = sum_exp;
  for (LocalTensor& shard : shards) {
    std::vector<LocalTensor> operands = {
        c.labels, whole({2, 2}, max), as(Access::update, shard), written({2, 2}), written({2, 2})};
    c.bench.run(Function::softmax_statistics, operands);
    shard = operands[2];
    for (std::size_t i = 0; i < 4; ++i) {
      sum_exp.values[i] += operands[3].values[i];
      target.values[i] += operands[4].values[i];
    }
  }
  for (LocalTensor& shard : shards) {
    std::vector<LocalTensor> operands = {sum_exp, target, as(Access::update, shard), scalar_sum()};
    c.bench.run(Function::parallel_cross_entropy, operands);
    CHECK(operands[3].values[0] == Approx(c.loss()).epsilon(1e-14));  // whole on every rank
    LocalTensor d_logits = as(Access::write, shard);
    std::fill(d_logits.values.begin(), d_logits.values.end(), kNaN);
    std::vector<LocalTensor> backward = {operands[2], c.labels, d_logits};
    c.bench.run(Function::parallel_cross_entropy_backward, backward);
    shard = backward[2];
  }
  check_shards(shards, c.gradient());
}

TEST_CASE("cross entropy in place from gathered statistics equals the whole", "[execute]") {
  LossCase c;
  std::vector<LocalTensor> shards = logit_shards(c.logits);
  LocalTensor gathered = whole({2, 2, 9});
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::vector<LocalTensor> operands = {shards[i], c.labels, written({2, 2, 3})};
    c.bench.run(Function::shard_statistics, operands);
    for (std::size_t j = 0; j < 12; ++j) {
      gathered.values[9 * (j / 3) + 3 * i + j % 3] = operands[2].values[j];
    }
  }
  CHECK(gathered.values[2] == c.logits.values[0]);  // the first token's target, in the first shard
  CHECK(gathered.values[5] == -kInfinity);          // and not in the second
  for (LocalTensor& shard : shards) {
    LocalTensor d_logits = as(Access::write, shard);
    std::fill(d_logits.values.begin(), d_logits.values.end(), kNaN);
    std::vector<LocalTensor> operands = {shard, c.labels, gathered, d_logits, scalar_sum()};
    c.bench.run(Function::cross_entropy_in_place, operands);
    CHECK(operands[4].values[0] == Approx(c.loss()).epsilon(1e-14));
    shard = operands[3];
  }
  check_shards(shards, c.gradient());
}

TEST_CASE("half_square_loss: hand-computed, with its scale", "[execute]") {
  Bench bench;
  bench.op.scale = 0.5;
  std::vector<LocalTensor> operands = {whole({1, 1, 2}, {3, -4}), written({1, 1, 2}), scalar_sum()};
  operands[2].values[0] = 1;
  bench.run(Function::half_square_loss, operands);
  CHECK(operands[1].values == std::vector<double>{1.5, -2});
  CHECK(operands[2].values[0] == 7.25);  // 1 + 0.5 * 25 / 2
}

TEST_CASE("square_sum: a whole gradient counts on one rank, padding on none", "[execute]") {
  Bench bench;
  bench.mesh.add_axis("group", 2);
  bench.mesh.add_axis("data", 2);
  constexpr program::AxisMask kGroup = program::axis_bit(0);
  constexpr program::AxisMask kData = program::axis_bit(1);
  program::Tensor replicated;
  program::Tensor sharded;
  sharded.layout = Layout().with(kGroup, Placement::shard(0));
  program::Tensor flat;
  flat.layout = Layout().with(kGroup | kData, Placement::shard(Placement::kFlat));
  program::Tensor partial_norm;
  partial_norm.layout = Layout().with(kGroup | kData, Placement::partial_sum());

  LocalTensor whole_gradient = whole({2}, {1, 2});  // 5
  whole_gradient.tensor = &replicated;
  LocalTensor rows = whole({3, 2}, {1, 1, 3, 100, 100, 100});  // valid: (1), (3), so 10
  rows.valid = {2, 1};
  rows.tensor = &sharded;
  LocalTensor shard = whole({3}, {4, 5, 100});  // 41
  shard.valid[0] = 2;
  shard.tensor = &flat;
  LocalTensor norm = scalar_sum();
  norm.tensor = &partial_norm;
  // Rank 0: 7 + 5 + 10 + 41. Rank 1 (group 1): no whole gradient. Rank 2 (data 1): flat shard only.
  const std::vector<double> expected = {63, 58, 48, 48};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    bench.rank = rank;
    std::vector<LocalTensor> operands = {whole_gradient, rows, shard, norm};
    operands[3].values[0] = 7;
    bench.run(Function::square_sum, operands);
    CHECK(operands[3].values[0] == expected[static_cast<std::size_t>(rank)]);
  }
  program::Tensor whole_norm;
  norm.tensor = &whole_norm;  // of replicated gradients alone: nothing is summed over ranks
  bench.rank = 3;
  std::vector<LocalTensor> operands = {whole_gradient, norm};
  bench.run(Function::square_sum, operands);
  CHECK(operands[1].values[0] == 5);
}

/// One parameter's operands: gradient, master, both moments, parameter.
std::vector<LocalTensor> adam_operands(double gradient, double master, double m, double v) {
  return {whole({1}, {gradient}),
          as(Access::update, whole({1}, {master})),
          as(Access::update, whole({1}, {m})),
          as(Access::update, whole({1}, {v})),
          as(Access::update, whole({1}))};
}

TEST_CASE("adam: hand-computed steps", "[execute]") {
  Bench bench;
  bench.constants.learning_rate = 0.1;
  bench.constants.beta1 = 0.5;
  bench.constants.beta2 = 0.75;
  bench.constants.adam_epsilon = 1;
  bench.constants.weight_decay = 0.5;
  SECTION("first step, without clipping") {
    auto operands = adam_operands(3, 2, 0, 0);
    bench.run(Function::adam, operands);
    // p = 2 * 0.95 = 1.9; m = 1.5; v = 2.25; corrected 3 and 9: 1.9 - 0.1 * 3 / (3 + 1) = 1.825
    CHECK(operands[1].values[0] == Approx(1.825).epsilon(1e-14));
    CHECK(operands[2].values[0] == 1.5);
    CHECK(operands[3].values[0] == 2.25);
    CHECK(operands[4].values[0] == operands[1].values[0]);
  }
  SECTION("second step, the gradient clipped to a third") {
    bench.constants.optimizer_step = 2;
    bench.constants.clip_norm = 2;
    auto operands = adam_operands(6, 2, 1, 4);
    // The norm is sqrt(36) = 6: 2 / (6 + 1e-6) = 0.33333327..., so g = 12 / 6.000001 = 1.99999967
    operands.insert(operands.begin(), whole({1}, {36}));
    bench.run(Function::adam, operands);
    const double g = 12 / 6.000001;
    const double m = 0.5 + 0.5 * g;     // 1.5, bias 1 - 0.25
    const double v = 3 + 0.25 * g * g;  // 4, bias 1 - 0.5625
    CHECK(operands[3].values[0] == Approx(m).epsilon(1e-14));
    CHECK(operands[4].values[0] == Approx(v).epsilon(1e-14));
    // With g = 2: 1.9 - 0.1 * (1.5 / 0.75) / (sqrt(4 / 0.4375) + 1) = 1.9 - 0.2 / 4.0237158
    CHECK(operands[2].values[0] == Approx(1.8502947).epsilon(1e-6));
    CHECK(operands[2].values[0] ==
          Approx(1.9 - 0.1 * (m / 0.75) / (std::sqrt(v / 0.4375) + 1)).epsilon(1e-14));
    CHECK(operands[5].values[0] == operands[2].values[0]);
  }
  SECTION("a norm below the limit clips nothing; every parameter is updated") {
    bench.constants.clip_norm = 4;
    std::vector<LocalTensor> operands = {whole({1}, {9})};
    for (int i = 0; i < 2; ++i) {
      for (const LocalTensor& operand : adam_operands(3, 2, 0, 0)) {
        operands.push_back(operand);
      }
    }
    bench.run(Function::adam, operands);
    CHECK(operands[5].values[0] == Approx(1.825).epsilon(1e-14));
    CHECK(operands[10].values[0] == Approx(1.825).epsilon(1e-14));
  }
}

}  // namespace
}  // namespace trireme::engine
