// Functions of single elements, and of pairs of them.
#include <cmath>
#include <numbers>

#include <Eigen/Dense>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

/// The coefficients of the approximation.
/// Source: megatron-lm, megatron/core/fusions/fused_bias_gelu.py, bias_gelu
constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

/// Elements that a kernel works on at a time: they stay in the nearest cache.
constexpr int kBlock = 256;
using Block = Eigen::Array<double, Eigen::Dynamic, 1, 0, kBlock, 1>;

/// 1 / (1 + exp(-x)) of every element, several at a time. Eigen's exponential of what is beyond a
/// double is the largest or the least one, which the result does not show.
Block sigmoid(const Block& x) {
  return 1 / (1 + (-x).exp());
}

/// Calls `visit(first, count)` for blocks of at most kBlock elements.
template <class Visit>
void for_each_block(std::size_t elements, Visit visit) {
  for (std::size_t first = 0; first < elements; first += kBlock) {
    visit(first, static_cast<Eigen::Index>(std::min<std::size_t>(kBlock, elements - first)));
  }
}

Eigen::Map<const Block> block_of(const LocalTensor& x, std::size_t first, Eigen::Index count) {
  return {x.values.data() + first, count};
}

/// Every second element of two blocks, from `first` on.
using Strided = Eigen::Map<const Block, Eigen::Unaligned, Eigen::InnerStride<2>>;
using StridedResult = Eigen::Map<Block, Eigen::Unaligned, Eigen::InnerStride<2>>;

/// Twice the argument of the hyperbolic tangent.
Block gelu_inner(const Block& x) {
  return 2 * kGeluScale * (x + kGeluCubic * x.cube());
}

/// Rotates the pairs (i, i + d/2) of every head of every token by `direction` times the angle
///   position * base^(-2i / d),   i = 0 .. d/2 - 1
/// in place. The last element of an odd d stays. Positions count in the whole sequence.
/// Source: su2021-rope, section 3.2.2; megatron-lm,
/// megatron/core/models/common/embeddings/rope_utils.py, _rotate_half pairs the halves
void rotate(const KernelContext& context, Operands operands, double direction) {
  for (LocalTensor& x : operands) {
    const std::int64_t head_dim = x.extent[static_cast<std::size_t>(x.rank) - 1];
    const std::int64_t half = head_dim / 2;
    for (std::int64_t token = 0; token < token_count(x); ++token) {
      const auto position = static_cast<double>(position_of(context, x, token));
      const auto features = features_of(x, token);
      for (std::int64_t i = 0; i < half; ++i) {
        const double exponent = -2 * static_cast<double>(i) / static_cast<double>(head_dim);
        const double angle =
            direction * position * std::pow(context.constants.rotary_base, exponent);
        const double cosine = std::cos(angle);
        const double sine = std::sin(angle);
        for (auto at = static_cast<std::size_t>(i); at < features.size();
             at += static_cast<std::size_t>(head_dim)) {
          double& low = features[at];
          double& high = features[at + static_cast<std::size_t>(half)];
          const double rotated = low * cosine - high * sine;
          high = high * cosine + low * sine;
          low = rotated;
        }
      }
    }
  }
}

}  // namespace

// y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x³))), the approximation by tanh, which Megatron
// and GPT-2 compute, and not the exact function by erf. As 1 + tanh(u) = 2 sigmoid(2 u), it is
// x * sigmoid(2 u): an exponential for an element and no hyperbolic function.
// Source: megatron-lm, megatron/core/fusions/fused_bias_gelu.py, bias_gelu
void gelu(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& x = operands[0];
  LocalTensor& y = operands[1];
  ensure_alike(x, y);
  for_each_block(x.values.size(), [&](std::size_t first, Eigen::Index count) {
    const Block value = block_of(x, first, count);
    Eigen::Map<Block>(y.values.data() + first, count) = value * sigmoid(gelu_inner(value));
  });
}

// Source: megatron-lm, megatron/core/fusions/fused_bias_gelu.py, bias_gelu_back
void gelu_backward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& x = operands[1];
  LocalTensor& dx = operands[2];
  ensure_alike(x, dy);
  ensure_alike(x, dx);
  for_each_block(x.values.size(), [&](std::size_t first, Eigen::Index count) {
    const Block value = block_of(x, first, count);
    const Block s = sigmoid(gelu_inner(value));
    const Block d_inner = 2 * kGeluScale * (1 + 3 * kGeluCubic * value.square());
    Eigen::Map<Block>(dx.values.data() + first, count) =
        block_of(dy, first, count) * s * (1 + value * (1 - s) * d_inner);
  });
}

// y = silu(gate) * up for x [.., 2] with the gate first; silu(z) = z * sigmoid(z).
// Source: shazeer2020-glu, equation 6, with beta = 1
void swiglu(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& x = operands[0];
  LocalTensor& y = operands[1];
  ensure(x.elements() == 2 * y.elements(), "swiglu: not a gate for every value");
  for_each_block(y.values.size(), [&](std::size_t first, Eigen::Index count) {
    const double* const pairs = x.values.data() + 2 * first;
    const Block gate = Strided(pairs, count);
    Eigen::Map<Block>(y.values.data() + first, count) =
        gate * sigmoid(gate) * Strided(pairs + 1, count);
  });
}

// silu'(z) = sigmoid(z) * (1 + z * (1 - sigmoid(z)))
void swiglu_backward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& x = operands[1];
  LocalTensor& dx = operands[2];
  ensure_alike(x, dx);
  ensure(x.elements() == 2 * dy.elements(), "swiglu: not a gate for every value");
  for_each_block(dy.values.size(), [&](std::size_t first, Eigen::Index count) {
    const double* const pairs = x.values.data() + 2 * first;
    double* const results = dx.values.data() + 2 * first;
    const Block gate = Strided(pairs, count);
    const Block s = sigmoid(gate);
    const Block gradient = block_of(dy, first, count);
    StridedResult(results, count) = gradient * Strided(pairs + 1, count) * s * (1 + gate * (1 - s));
    StridedResult(results + 1, count) = gradient * gate * s;
  });
}

void rotary(const KernelContext& context, Operands operands) {
  rotate(context, operands, 1);
}

// A rotation's transpose, which carries gradients back, is its inverse.
void rotary_backward(const KernelContext& context, Operands operands) {
  rotate(context, operands, -1);
}

void add(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& a = operands[0];
  const LocalTensor& b = operands[1];
  const bool updates = a.access == program::Access::update;
  const bool biased = operands.size() == (updates ? 3U : 4U);
  LocalTensor& c = updates ? operands[0] : operands.back();
  ensure_alike(a, b);
  ensure_alike(a, c);
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    c.values[i] = a.values[i] + b.values[i];
  }
  if (biased) {
    const LocalTensor& bias = operands[2];
    ensure(feature_count(a) == bias.elements(), "add: not one bias for every feature");
    for (std::size_t i = 0; i < c.values.size(); ++i) {
      c.values[i] += bias.values[i % bias.values.size()];
    }
  }
}

void copy(const KernelContext& /*context*/, Operands operands) {
  ensure_alike(operands[0], operands[1]);
  std::copy(operands[0].values.begin(), operands[0].values.end(), operands[1].values.begin());
}

void zero(const KernelContext& /*context*/, Operands operands) {
  for (LocalTensor& x : operands) {
    std::fill(x.values.begin(), x.values.end(), 0.0);
  }
}

void accumulate(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& x = operands[0];
  LocalTensor& y = operands[1];
  ensure_alike(x, y);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] += x.values[i];
  }
}

void sum_blocks(const KernelContext& /*context*/, Operands operands) {
  LocalTensor& sum = operands.back();
  std::fill(sum.values.begin(), sum.values.end(), 0.0);
  for (const LocalTensor& part : operands.first(operands.size() - 1)) {
    ensure_alike(part, sum);
    for (std::size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += part.values[i];
    }
  }
}

}  // namespace trireme::engine
