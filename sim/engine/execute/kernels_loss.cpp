// Losses and their gradients. Columns of logits beyond the vocabulary are padding: they take no
// part, whatever they hold, and their gradient is zero.
//
// Of one token with logits z and target t:  loss = scale * (log(sum_j exp(z_j)) - z_t),
// dz_j = scale * (softmax(z)_j - [j = t]); a step's loss sums over its tokens.
#include <cmath>
#include <limits>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// The columns of one token on this rank, without padding.
template <class Tensor>
auto columns_of(Tensor& logits, std::int64_t token) {
  const auto valid = static_cast<std::size_t>(logits.valid[program::kFeatureDim]);
  return features_of(logits, token).first(valid);
}

/// The token's target among the columns of this rank, or none when another rank has it.
constexpr std::size_t kElsewhere = std::numeric_limits<std::size_t>::max();

std::size_t target_column(const LocalTensor& logits,
                          const LocalTensor& labels,
                          std::int64_t token) {
  const auto label = static_cast<std::int64_t>(labels.values[static_cast<std::size_t>(token)]);
  const std::int64_t column = label - logits.first[program::kFeatureDim];
  const bool here = column >= 0 && column < logits.valid[program::kFeatureDim];
  return here ? static_cast<std::size_t>(column) : kElsewhere;
}

/// What the loss of one token needs of its logits, or of a part of them. None of a part, or no
/// target among them: minus infinity, which another part's numbers exceed.
/// Source: transformer-engine, transformer_engine/common/triton/cross_entropy.py
struct RowStatistics {
  double max = kMinusInfinity;
  double sum_exp = 0;  // of exp(logit - max)
  double target = kMinusInfinity;

  /// Of two parts of a row together, one of which has columns.
  void combine(const RowStatistics& other) {
    const double larger = std::max(max, other.max);
    sum_exp = sum_exp * std::exp(max - larger) + other.sum_exp * std::exp(other.max - larger);
    max = larger;
    target = std::max(target, other.target);
  }

  [[nodiscard]] double log_sum_exp() const { return max + std::log(sum_exp); }
};

constexpr std::size_t kStatistics = 3;  // numbers per token and shard: max, sum_exp, target

RowStatistics statistics_of(const LocalTensor& logits,
                            const LocalTensor& labels,
                            std::int64_t token) {
  RowStatistics row;
  const auto columns = columns_of(logits, token);
  for (const double logit : columns) {
    row.max = std::max(row.max, logit);
  }
  for (const double logit : columns) {
    row.sum_exp += std::exp(logit - row.max);
  }
  const std::size_t target = target_column(logits, labels, token);
  row.target = target == kElsewhere ? kMinusInfinity : columns[target];
  return row;
}

/// The gathered statistics of every shard of one token's row, together.
RowStatistics combined_statistics(const LocalTensor& statistics, std::int64_t token) {
  RowStatistics row;
  const auto shards = features_of(statistics, token);
  for (std::size_t i = 0; i < shards.size(); i += kStatistics) {
    row.combine({shards[i], shards[i + 1], shards[i + 2]});
  }
  return row;
}

void ensure_tokens(const LocalTensor& logits, const LocalTensor& per_token) {
  ensure(token_count(logits) == token_count(per_token), "loss: not one value for every token");
}

/// Writes dlogits = scale * (probability - [target]), zero in padding.
template <class Probability>
void write_gradient(const KernelContext& context,
                    const LocalTensor& labels,
                    LocalTensor& d_logits,
                    Probability probability) {
  start_sum(d_logits);
  for (std::int64_t token = 0; token < token_count(d_logits); ++token) {
    const auto gradient = columns_of(d_logits, token);
    const std::size_t target = target_column(d_logits, labels, token);
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      gradient[j] = context.op.scale * (probability(token, j) - (j == target ? 1 : 0));
    }
  }
}

}  // namespace

void logits_max(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& logits = operands[0];
  LocalTensor& max = operands[1];
  ensure_tokens(logits, max);
  for (std::int64_t token = 0; token < token_count(logits); ++token) {
    double& largest = max.values[static_cast<std::size_t>(token)];
    largest = kMinusInfinity;
    for (const double logit : columns_of(logits, token)) {
      largest = std::max(largest, logit);
    }
  }
}

// The target's logit is less the maximum too, and zero where another rank has the target.
// Source: megatron-lm, megatron/core/tensor_parallel/cross_entropy.py, calculate_predicted_logits
void softmax_statistics(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& labels = operands[0];
  const LocalTensor& max = operands[1];
  LocalTensor& logits = operands[2];
  LocalTensor& sum_exp = operands[3];
  LocalTensor& target_logit = operands[4];
  ensure_tokens(logits, labels);
  for (std::int64_t token = 0; token < token_count(logits); ++token) {
    const auto at = static_cast<std::size_t>(token);
    const auto columns = columns_of(logits, token);
    const std::size_t target = target_column(logits, labels, token);
    target_logit.values[at] = target == kElsewhere ? 0 : columns[target] - max.values[at];
    sum_exp.values[at] = 0;
    for (double& logit : columns) {
      logit = std::exp(logit - max.values[at]);
      sum_exp.values[at] += logit;
    }
  }
}

// Source: transformer-engine, common/triton/cross_entropy.py, online_softmax_kernel
void shard_statistics(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& logits = operands[0];
  const LocalTensor& labels = operands[1];
  LocalTensor& statistics = operands[2];
  ensure_tokens(logits, labels);
  for (std::int64_t token = 0; token < token_count(logits); ++token) {
    const RowStatistics row = statistics_of(logits, labels, token);
    const auto to = features_of(statistics, token);
    ensure(to.size() == kStatistics, "shard_statistics: three numbers per token");
    to[0] = row.max;
    to[1] = row.sum_exp;
    to[2] = row.target;
  }
}

void cross_entropy(const KernelContext& context, Operands operands) {
  const LocalTensor& logits = operands[0];
  const LocalTensor& labels = operands[1];
  LocalTensor& log_probabilities = operands[2];
  LocalTensor& loss = operands[3];
  ensure_tokens(logits, labels);
  ensure_alike(logits, log_probabilities);
  start_sum(log_probabilities);
  for (std::int64_t token = 0; token < token_count(logits); ++token) {
    const RowStatistics row = statistics_of(logits, labels, token);
    const auto from = columns_of(logits, token);
    const auto to = columns_of(log_probabilities, token);
    for (std::size_t j = 0; j < from.size(); ++j) {
      to[j] = from[j] - row.log_sum_exp();
    }
    loss.values[0] += context.op.scale * (row.log_sum_exp() - row.target);
  }
}

void cross_entropy_backward(const KernelContext& context, Operands operands) {
  const LocalTensor& log_probabilities = operands[0];
  const LocalTensor& labels = operands[1];
  ensure_tokens(log_probabilities, labels);
  ensure_alike(log_probabilities, operands[2]);
  write_gradient(context, labels, operands[2], [&](std::int64_t token, std::size_t j) {
    return std::exp(columns_of(log_probabilities, token)[j]);
  });
}

// Without statistics the logits are whole rows. With those of every shard each rank adds the whole
// loss of its tokens, so that the loss is not summed over the ranks that share a vocabulary.
// Source: liger-kernel, src/liger_kernel/ops/cross_entropy.py; transformer-engine,
// common/triton/cross_entropy.py, cross_entropy_kernel
void cross_entropy_in_place(const KernelContext& context, Operands operands) {
  const LocalTensor& logits = operands[0];
  const LocalTensor& labels = operands[1];
  const LocalTensor* statistics = operands.size() == 5 ? &operands[2] : nullptr;
  LocalTensor& d_logits = operands[operands.size() - 2];
  LocalTensor& loss = operands.back();
  ensure_tokens(logits, labels);
  ensure_alike(logits, d_logits);
  std::vector<double> log_sum_exp;
  for (std::int64_t token = 0; token < token_count(logits); ++token) {
    const RowStatistics row = statistics == nullptr ? statistics_of(logits, labels, token)
                                                    : combined_statistics(*statistics, token);
    log_sum_exp.push_back(row.log_sum_exp());
    loss.values[0] += context.op.scale * (row.log_sum_exp() - row.target);
  }
  write_gradient(context, labels, d_logits, [&](std::int64_t token, std::size_t j) {
    return std::exp(columns_of(logits, token)[j] - log_sum_exp[static_cast<std::size_t>(token)]);
  });
}

// Source: megatron-lm, megatron/core/tensor_parallel/cross_entropy.py, calculate_cross_entropy_loss
void parallel_cross_entropy(const KernelContext& context, Operands operands) {
  const LocalTensor& sum_exp = operands[0];
  const LocalTensor& target_logit = operands[1];
  LocalTensor& softmax = operands[2];
  LocalTensor& loss = operands[3];
  ensure_tokens(softmax, sum_exp);
  ensure_tokens(softmax, target_logit);
  for (std::int64_t token = 0; token < token_count(softmax); ++token) {
    const auto at = static_cast<std::size_t>(token);
    loss.values[0] += context.op.scale * (std::log(sum_exp.values[at]) - target_logit.values[at]);
    for (double& exponential : columns_of(softmax, token)) {
      exponential /= sum_exp.values[at];
    }
  }
}

// Source: megatron-lm, megatron/core/tensor_parallel/cross_entropy.py, calculate_gradients
void parallel_cross_entropy_backward(const KernelContext& context, Operands operands) {
  const LocalTensor& softmax = operands[0];
  const LocalTensor& labels = operands[1];
  ensure_tokens(softmax, labels);
  ensure_alike(softmax, operands[2]);
  write_gradient(context, labels, operands[2], [&](std::int64_t token, std::size_t j) {
    return columns_of(softmax, token)[j];
  });
}

// loss = scale * sum(x²) / 2, dx = scale * x
void half_square_loss(const KernelContext& context, Operands operands) {
  const LocalTensor& x = operands[0];
  LocalTensor& dx = operands[1];
  LocalTensor& loss = operands[2];
  ensure_alike(x, dx);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    dx.values[i] = context.op.scale * x.values[i];
    loss.values[0] += context.op.scale * x.values[i] * x.values[i] / 2;
  }
}

}  // namespace trireme::engine
