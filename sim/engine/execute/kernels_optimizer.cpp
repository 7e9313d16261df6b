// The norm of all gradients, and AdamW.
#include <cmath>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

/// Added to the norm that gradients are divided by.
/// Source: pytorch, torch/nn/utils/clip_grad.py, _clip_grads_with_norm_
constexpr double kClipEpsilon = 1e-6;

constexpr std::size_t kOperandsPerParameter = 5;

bool is_padding(const LocalTensor& local, std::int64_t element) {
  for (std::size_t dim = static_cast<std::size_t>(local.rank); dim-- > 0;) {
    if (element % local.extent[dim] >= local.valid[dim]) {
      return true;
    }
    element /= local.extent[dim];
  }
  return false;
}

/// Whether this rank's copy of a gradient enters a norm that is summed over ranks: of the copies
/// along an axis of that sum, the first one does. Stages of a pipeline have no copies.
bool counts(const KernelContext& context, const LocalTensor& gradient, const LocalTensor& norm) {
  for (int axis = 0; axis < context.mesh.axes(); ++axis) {
    if (axis != context.mesh.stage_axis() && norm.tensor->layout[axis].partial() &&
        gradient.tensor->layout[axis].replicated() &&
        context.mesh.coordinate(context.rank, axis) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

void square_sum(const KernelContext& context, Operands operands) {
  LocalTensor& norm = operands.back();
  for (const LocalTensor& gradient : operands.first(operands.size() - 1)) {
    if (!counts(context, gradient, norm)) {
      continue;
    }
    for (std::int64_t i = 0; i < gradient.elements(); ++i) {
      if (!is_padding(gradient, i)) {
        const double value = gradient.values[static_cast<std::size_t>(i)];
        norm.values[0] += value * value;
      }
    }
  }
}

// AdamW in the order of pytorch, for step t from 1 and a gradient g that clipping has scaled by
// min(1, clip_norm / (|all gradients| + 1e-6)):
//   p = p * (1 - rate * weight_decay)
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g²
//   p = p - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
// The master is the truth: the parameter becomes what it holds.
// Source: loshchilov2019-adamw, algorithm 2; pytorch, torch/optim/adam.py, _single_tensor_adam,
// and torch/nn/utils/clip_grad.py, clip_grad_norm_
void adam(const KernelContext& context, Operands operands) {
  const ExecutionConstants& c = context.constants;
  const std::size_t first = operands.size() % kOperandsPerParameter;
  double clip = 1;
  if (first == 1) {  // the norm, squared
    clip = std::min(1.0, c.clip_norm / (std::sqrt(operands[0].values[0]) + kClipEpsilon));
  }
  const auto step = static_cast<double>(c.optimizer_step);
  const double correction1 = 1 - std::pow(c.beta1, step);
  const double correction2 = 1 - std::pow(c.beta2, step);
  for (std::size_t at = first; at < operands.size(); at += kOperandsPerParameter) {
    const LocalTensor& gradient = operands[at];
    LocalTensor& master = operands[at + 1];
    LocalTensor& first_moment = operands[at + 2];
    LocalTensor& second_moment = operands[at + 3];
    LocalTensor& parameter = operands[at + 4];
    for (std::size_t i = 1; i < kOperandsPerParameter; ++i) {
      ensure_alike(gradient, operands[at + i]);
    }
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      const double g = clip * gradient.values[i];
      double& p = master.values[i];
      double& m = first_moment.values[i];
      double& v = second_moment.values[i];
      p *= 1 - c.learning_rate * c.weight_decay;
      m = c.beta1 * m + (1 - c.beta1) * g;
      v = c.beta2 * v + (1 - c.beta2) * g * g;
      p -= c.learning_rate * (m / correction1) / (std::sqrt(v / correction2) + c.adam_epsilon);
      parameter.values[i] = p;
    }
  }
}

}  // namespace trireme::engine
