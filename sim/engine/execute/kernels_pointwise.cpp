// Functions of single elements, and of pairs of them.
#include <cmath>
#include <numbers>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

/// The coefficients of the approximation.
/// Source: megatron-lm, megatron/core/fusions/fused_bias_gelu.py, bias_gelu
constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
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
// and GPT-2 compute, and not the exact function by erf.
// Source: megatron-lm, megatron/core/fusions/fused_bias_gelu.py, bias_gelu
void gelu(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& x = operands[0];
  LocalTensor& y = operands[1];
  ensure_alike(x, y);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double value = x.values[i];
    const double inner = kGeluScale * (value + kGeluCubic * value * value * value);
    y.values[i] = value / 2 * (1 + std::tanh(inner));
  }
}

// Source: megatron-lm, megatron/core/fusions/fused_bias_gelu.py, bias_gelu_back
void gelu_backward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& x = operands[1];
  LocalTensor& dx = operands[2];
  ensure_alike(x, dy);
  ensure_alike(x, dx);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double value = x.values[i];
    const double tanh = std::tanh(kGeluScale * (value + kGeluCubic * value * value * value));
    const double d_inner = kGeluScale * (1 + 3 * kGeluCubic * value * value);
    dx.values[i] = dy.values[i] * ((1 + tanh) + value * (1 - tanh * tanh) * d_inner) / 2;
  }
}

// y = silu(gate) * up for x [.., 2] with the gate first; silu(z) = z * sigmoid(z).
// Source: shazeer2020-glu, equation 6, with beta = 1
void swiglu(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& x = operands[0];
  LocalTensor& y = operands[1];
  ensure(x.elements() == 2 * y.elements(), "swiglu: not a gate for every value");
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const double gate = x.values[2 * i];
    y.values[i] = gate * sigmoid(gate) * x.values[2 * i + 1];
  }
}

// silu'(z) = sigmoid(z) * (1 + z * (1 - sigmoid(z)))
void swiglu_backward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& x = operands[1];
  LocalTensor& dx = operands[2];
  ensure_alike(x, dx);
  ensure(x.elements() == 2 * dy.elements(), "swiglu: not a gate for every value");
  for (std::size_t i = 0; i < dy.values.size(); ++i) {
    const double gate = x.values[2 * i];
    const double up = x.values[2 * i + 1];
    const double s = sigmoid(gate);
    dx.values[2 * i] = dy.values[i] * up * s * (1 + gate * (1 - s));
    dx.values[2 * i + 1] = dy.values[i] * gate * s;
  }
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
