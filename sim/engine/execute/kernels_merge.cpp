// Attention with some of the keys, put together: outputs are weighted with the share of each part
// in the sum of exponentials. A row that saw no key has a log-sum-exp of minus infinity, and no
// weight. Source: liu2023-ring-attention, section 3; dao2023-flash2, section 3.1 (the online
// softmax)
#include <cmath>
#include <limits>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// log(exp(a) + exp(b))
double merged(double a, double b) {
  const double largest = std::max(a, b);
  return largest == kNothing ? kNothing
                             : largest + std::log(std::exp(a - largest) + std::exp(b - largest));
}

/// The share of a part whose log-sum-exp is `part` in the whole.
double share(double part, double whole) {
  return part == kNothing ? 0 : std::exp(part - whole);
}

/// Elements of an output for each log-sum-exp.
std::size_t row_length(const LocalTensor& o, const LocalTensor& log_sum_exp) {
  ensure(!log_sum_exp.values.empty() && o.values.size() % log_sum_exp.values.size() == 0,
         "merge: an output and log-sum-exp do not fit together");
  return o.values.size() / log_sum_exp.values.size();
}

}  // namespace

void merge_log_sum_exp(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& part = operands[0];
  LocalTensor& whole = operands[1];
  ensure_alike(part, whole);
  for (std::size_t row = 0; row < whole.values.size(); ++row) {
    whole.values[row] = merged(whole.values[row], part.values[row]);
  }
}

void correct_output(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& part = operands[0];
  const LocalTensor& of_part = operands[1];
  const LocalTensor& of_whole = operands[2];
  LocalTensor& o = operands[3];
  ensure_alike(part, o);
  ensure_alike(of_part, of_whole);
  start_sum(o);
  const std::size_t length = row_length(o, of_part);
  for (std::size_t i = 0; i < o.values.size(); ++i) {
    const std::size_t row = i / length;
    o.values[i] += share(of_part.values[row], of_whole.values[row]) * part.values[i];
  }
}

void merge_attention(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& part = operands[0];
  const LocalTensor& of_part = operands[1];
  LocalTensor& o = operands[2];
  LocalTensor& log_sum_exp = operands[3];
  ensure_alike(part, o);
  ensure_alike(of_part, log_sum_exp);
  const std::size_t length = row_length(o, of_part);
  for (std::size_t row = 0; row < of_part.values.size(); ++row) {
    const double whole = merged(log_sum_exp.values[row], of_part.values[row]);
    const double before = share(log_sum_exp.values[row], whole);
    const double added = share(of_part.values[row], whole);
    for (std::size_t i = row * length; i < (row + 1) * length; ++i) {
      o.values[i] = before * o.values[i] + added * part.values[i];
    }
    log_sum_exp.values[row] = whole;
  }
}

}  // namespace trireme::engine
