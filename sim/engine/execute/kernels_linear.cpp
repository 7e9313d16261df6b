// Linear layers y = x · weightᵀ + bias, as matrices: tokens in rows, flattened features in columns.
#include <Eigen/Dense>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Matrix = Eigen::Map<RowMajor>;
using ConstMatrix = Eigen::Map<const RowMajor>;

ConstMatrix tokens_of(const LocalTensor& activation) {
  return {activation.values.data(), token_count(activation), feature_count(activation)};
}

Matrix tokens_of(LocalTensor& activation) {
  return {activation.values.data(), token_count(activation), feature_count(activation)};
}

ConstMatrix weight_of(const LocalTensor& weight) {
  return {weight.values.data(), weight.extent[0], weight.extent[1]};
}

Matrix weight_of(LocalTensor& weight) {
  return {weight.values.data(), weight.extent[0], weight.extent[1]};
}

/// x [tokens, in], weight [out, in], y [tokens, out].
void ensure_product(const LocalTensor& x, const LocalTensor& weight, const LocalTensor& y) {
  ensure(token_count(x) == token_count(y) && feature_count(x) == weight.extent[1] &&
             feature_count(y) == weight.extent[0],
         "gemm: operands do not fit together");
}

void ensure_bias(const LocalTensor& y, const LocalTensor& bias) {
  ensure(feature_count(y) == bias.elements(), "bias: not one for every feature");
}

}  // namespace

void gemm_forward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& x = operands[0];
  const LocalTensor& weight = operands[1];
  LocalTensor& y = operands.back();
  ensure_product(x, weight, y);
  tokens_of(y).noalias() = tokens_of(x) * weight_of(weight).transpose();
  if (operands.size() == 4) {
    const LocalTensor& bias = operands[2];
    ensure_bias(y, bias);
    tokens_of(y).rowwise() +=
        Eigen::Map<const Eigen::RowVectorXd>(bias.values.data(), bias.elements());
  }
}

void gemm_input_gradient(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& weight = operands[1];
  LocalTensor& dx = operands[2];
  ensure_product(dx, weight, dy);
  start_sum(dx);
  tokens_of(dx).noalias() += tokens_of(dy) * weight_of(weight);
}

void gemm_weight_gradient(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& x = operands[1];
  LocalTensor& dweight = operands[2];
  ensure_product(x, dweight, dy);
  start_sum(dweight);
  weight_of(dweight).noalias() += tokens_of(dy).transpose() * tokens_of(x);
}

void bias_gradient(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  LocalTensor& dbias = operands[1];
  ensure_bias(dy, dbias);
  start_sum(dbias);
  Eigen::Map<Eigen::RowVectorXd>(dbias.values.data(), dbias.elements()) +=
      tokens_of(dy).colwise().sum();
}

}  // namespace trireme::engine
