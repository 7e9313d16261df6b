// LayerNorm and RMSNorm over the features of each token.
#include <cmath>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

/// normalised = (x - mean) * inverse_deviation; RMSNorm takes the mean as zero.
struct Moments {
  double mean = 0;
  double inverse_deviation = 0;
};

// Source: ba2016-layernorm, equation 3; zhang2019-rmsnorm, equation 4; pytorch's nn.LayerNorm and
// nn.RMSNorm, which divide by the number of features and add epsilon under the root
Moments moments_of(std::span<const double> x, const ExecutionConstants& constants) {
  const auto count = static_cast<double>(x.size());
  Moments moments;
  if (!constants.rmsnorm) {
    for (const double value : x) {
      moments.mean += value / count;
    }
  }
  double variance = 0;
  for (const double value : x) {
    variance += (value - moments.mean) * (value - moments.mean) / count;
  }
  moments.inverse_deviation = 1 / std::sqrt(variance + constants.norm_epsilon);
  return moments;
}

void ensure_weights(const LocalTensor& x, const LocalTensor& weight) {
  ensure(feature_count(x) == weight.elements(), "norm: not one weight for every feature");
}

}  // namespace

// y = normalised * weight + bias
void norm_forward(const KernelContext& context, Operands operands) {
  const LocalTensor& x = operands[0];
  const LocalTensor& weight = operands[1];
  const LocalTensor* bias = operands.size() == 4 ? &operands[2] : nullptr;
  LocalTensor& y = operands.back();
  ensure_weights(x, weight);
  ensure_alike(x, y);
  for (std::int64_t token = 0; token < token_count(x); ++token) {
    const auto in = features_of(x, token);
    const auto out = features_of(y, token);
    const Moments moments = moments_of(in, context.constants);
    for (std::size_t i = 0; i < in.size(); ++i) {
      out[i] = (in[i] - moments.mean) * moments.inverse_deviation * weight.values[i];
      out[i] += bias != nullptr ? bias->values[i] : 0;
    }
  }
}

// With g = dy * weight and means over the features:
//   dx = (g - mean(g) - normalised * mean(g * normalised)) * inverse_deviation
// where RMSNorm, which takes no mean from x, has no mean(g).
// Source: derived by the chain rule through mean and variance; ba2016-layernorm
void norm_backward(const KernelContext& context, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& x = operands[1];
  const LocalTensor& weight = operands[2];
  LocalTensor& dx = operands[3];
  LocalTensor& dweight = operands[4];
  LocalTensor* dbias = operands.size() == 6 ? &operands[5] : nullptr;
  ensure_weights(x, weight);
  ensure_alike(x, dy);
  ensure_alike(x, dx);
  for (LocalTensor& result : operands.subspan(3)) {
    start_sum(result);
  }
  for (std::int64_t token = 0; token < token_count(x); ++token) {
    const auto in = features_of(x, token);
    const auto d_out = features_of(dy, token);
    const auto d_in = features_of(dx, token);
    const auto count = static_cast<double>(in.size());
    const Moments moments = moments_of(in, context.constants);
    const auto normalised = [&](std::size_t i) {
      return (in[i] - moments.mean) * moments.inverse_deviation;
    };
    double mean_gradient = 0;
    double mean_product = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double gradient = d_out[i] * weight.values[i];
      mean_gradient += context.constants.rmsnorm ? 0 : gradient / count;
      mean_product += gradient * normalised(i) / count;
      dweight.values[i] += d_out[i] * normalised(i);
      if (dbias != nullptr) {
        dbias->values[i] += d_out[i];
      }
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double gradient = d_out[i] * weight.values[i];
      d_in[i] +=
          (gradient - mean_gradient - normalised(i) * mean_product) * moments.inverse_deviation;
    }
  }
}

}  // namespace trireme::engine
