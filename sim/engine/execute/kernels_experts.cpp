// Mixture of experts: weights of a router, tokens into slots by expert and back, and products with
// one weight per expert.
#include <cmath>
#include <vector>

#include <Eigen/Dense>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Matrix = Eigen::Map<RowMajor>;
using ConstMatrix = Eigen::Map<const RowMajor>;

constexpr auto kSource = static_cast<std::size_t>(program::kSourceDim);
constexpr auto kExpert = static_cast<std::size_t>(program::kExpertDim);
constexpr auto kSlot = static_cast<std::size_t>(program::kSlotDim);

/// Numbers of one slot.
std::int64_t slot_width(const LocalTensor& slots) {
  const std::int64_t count = slots.extent[kSource] * slots.extent[kExpert] * slots.extent[kSlot];
  return count == 0 ? 0 : slots.elements() / count;
}

/// The slots of one expert that come from one source rank, in rows.
template <class Map, class Values>
Map rows_of(Values& values, const LocalTensor& slots, std::int64_t source, std::int64_t expert) {
  const std::int64_t width = slot_width(slots);
  const std::int64_t rows = slots.extent[kSlot];
  const std::int64_t first = (source * slots.extent[kExpert] + expert) * rows * width;
  return Map(values.data() + first, rows, width);
}

template <class Map, class Values>
Map weight_of(Values& values, const LocalTensor& weight, std::int64_t expert) {
  const std::int64_t elements = weight.extent[1] * weight.extent[2];
  return Map(values.data() + expert * elements, weight.extent[1], weight.extent[2]);
}

template <class Visit>
void for_each_part(const LocalTensor& slots, Visit visit) {
  for (std::int64_t source = 0; source < slots.extent[kSource]; ++source) {
    for (std::int64_t expert = 0; expert < slots.extent[kExpert]; ++expert) {
      visit(source, expert);
    }
  }
}

void ensure_grouped(const LocalTensor& x, const LocalTensor& weight, const LocalTensor& y) {
  ensure(x.extent[kExpert] == weight.extent[0] && y.extent[kExpert] == weight.extent[0] &&
             slot_width(x) == weight.extent[2] && slot_width(y) == weight.extent[1] &&
             x.extent[kSource] == y.extent[kSource] && x.extent[kSlot] == y.extent[kSlot],
         "grouped gemm: operands do not fit together");
}

/// Calls `visit(token, choice, expert, slot)` for every choice of every token that has a slot: the
/// slots of an expert are given out in the order of the tokens, and what finds none is dropped.
/// Source: gshard2020, algorithm 1, the position in the expert's buffer is a running count
template <class Visit>
void for_each_slot(const LocalTensor& ids, const LocalTensor& slots, Visit visit) {
  ensure(slots.extent[kSource] == 1, "experts: slots of more than one source rank");
  std::vector<std::int64_t> taken(static_cast<std::size_t>(slots.extent[kExpert]), 0);
  for (std::int64_t token = 0; token < token_count(ids); ++token) {
    const auto chosen = features_of(ids, token);
    for (std::size_t choice = 0; choice < chosen.size(); ++choice) {
      const auto expert = static_cast<std::size_t>(chosen[choice]);
      const std::int64_t slot = taken.at(expert)++;
      if (slot < slots.extent[kSlot]) {
        visit(token, choice, static_cast<std::int64_t>(expert), slot);
      }
    }
  }
}

std::span<double> slot_of(LocalTensor& slots, std::int64_t expert, std::int64_t slot) {
  const auto width = static_cast<std::size_t>(slot_width(slots));
  const auto number = static_cast<std::size_t>(expert * slots.extent[kSlot] + slot);
  return std::span(slots.values).subspan(number * width, width);
}

std::span<const double> slot_of(const LocalTensor& slots, std::int64_t expert, std::int64_t slot) {
  const auto width = static_cast<std::size_t>(slot_width(slots));
  const auto number = static_cast<std::size_t>(expert * slots.extent[kSlot] + slot);
  return std::span(slots.values).subspan(number * width, width);
}

/// Scores of every expert for one token.
Eigen::VectorXd scores_of(std::span<const double> logits, RouterScore kind) {
  const Eigen::Map<const Eigen::VectorXd> z(logits.data(),
                                            static_cast<std::int64_t>(logits.size()));
  if (kind == RouterScore::sigmoid) {
    return (1 + (-z.array()).exp()).inverse();
  }
  const Eigen::VectorXd exponentials = (z.array() - z.maxCoeff()).exp();
  return exponentials / exponentials.sum();
}

}  // namespace

void grouped_gemm_forward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& x = operands[0];
  const LocalTensor& weight = operands[1];
  LocalTensor& y = operands[2];
  ensure_grouped(x, weight, y);
  for_each_part(x, [&](std::int64_t source, std::int64_t expert) {
    rows_of<Matrix>(y.values, y, source, expert).noalias() =
        rows_of<ConstMatrix>(x.values, x, source, expert) *
        weight_of<ConstMatrix>(weight.values, weight, expert).transpose();
  });
}

void grouped_gemm_input_gradient(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& weight = operands[1];
  LocalTensor& dx = operands[2];
  ensure_grouped(dx, weight, dy);
  for_each_part(dy, [&](std::int64_t source, std::int64_t expert) {
    rows_of<Matrix>(dx.values, dx, source, expert).noalias() =
        rows_of<ConstMatrix>(dy.values, dy, source, expert) *
        weight_of<ConstMatrix>(weight.values, weight, expert);
  });
}

void grouped_gemm_weight_gradient(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& dy = operands[0];
  const LocalTensor& x = operands[1];
  LocalTensor& dweight = operands[2];
  ensure_grouped(x, dweight, dy);
  start_sum(dweight);
  for_each_part(dy, [&](std::int64_t source, std::int64_t expert) {
    weight_of<Matrix>(dweight.values, dweight, expert).noalias() +=
        rows_of<ConstMatrix>(dy.values, dy, source, expert).transpose() *
        rows_of<ConstMatrix>(x.values, x, source, expert);
  });
}

// w(j) = c s(e(j)), with `normalised` divided by the sum of s over the token's experts; s is the
// softmax over all experts or the sigmoid, e(j) the token's j-th expert, c the factor.
// Source: fedus2022-switch, equation 1; deepseek2024-v3, equations 13 to 15
void expert_weights(const KernelContext& context, Operands operands) {
  const LocalTensor& logits = operands[0];
  const LocalTensor& ids = operands[1];
  LocalTensor& weights = operands[2];
  for (std::int64_t token = 0; token < token_count(ids); ++token) {
    const Eigen::VectorXd scores = scores_of(features_of(logits, token), context.op.router);
    const auto chosen = features_of(ids, token);
    const auto out = features_of(weights, token);
    double sum = 0;
    for (std::size_t j = 0; j < chosen.size(); ++j) {
      out[j] = scores(static_cast<std::int64_t>(chosen[j]));
      sum += out[j];
    }
    for (double& weight : out) {
      weight *= context.op.scale / (context.op.normalised ? sum : 1);
    }
  }
}

// ds(j) = c dw(j), with `normalised` (c dw(j) - sum over i of dw(i) w(i)) / sum of s; then back
// through s: dz = s (ds - sum of s ds) for the softmax, s (1 - s) ds for the sigmoid.
// Source: derived by the chain rule
void expert_weights_backward(const KernelContext& context, Operands operands) {
  const LocalTensor& d_weights = operands[0];
  const LocalTensor& logits = operands[1];
  const LocalTensor& ids = operands[2];
  LocalTensor& d_logits = operands[3];
  for (std::int64_t token = 0; token < token_count(ids); ++token) {
    const Eigen::VectorXd scores = scores_of(features_of(logits, token), context.op.router);
    const auto chosen = features_of(ids, token);
    const auto gradient = features_of(d_weights, token);
    double sum = 0;
    double product = 0;  // of gradients and scores
    for (std::size_t j = 0; j < chosen.size(); ++j) {
      const double score = scores(static_cast<std::int64_t>(chosen[j]));
      sum += score;
      product += gradient[j] * score;
    }
    Eigen::VectorXd d_scores = Eigen::VectorXd::Zero(scores.size());
    for (std::size_t j = 0; j < chosen.size(); ++j) {
      d_scores(static_cast<std::int64_t>(chosen[j])) =
          context.op.scale *
          (context.op.normalised ? (gradient[j] - product / sum) / sum : gradient[j]);
    }
    const double mean = scores.dot(d_scores);
    const auto out = features_of(d_logits, token);
    for (std::size_t e = 0; e < out.size(); ++e) {
      const auto i = static_cast<std::int64_t>(e);
      out[e] = context.op.router == RouterScore::softmax
                   ? scores(i) * (d_scores(i) - mean)
                   : scores(i) * (1 - scores(i)) * d_scores(i);
    }
  }
}

void dispatch_tokens(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& tokens = operands[0];
  LocalTensor& slots = operands[2];
  std::fill(slots.values.begin(), slots.values.end(), 0.0);  // slots that nobody takes
  for_each_slot(operands[1],
                slots,
                [&](std::int64_t token, std::size_t, std::int64_t expert, std::int64_t slot) {
                  const auto features = features_of(tokens, token);
                  const auto to = slot_of(slots, expert, slot);
                  ensure(features.size() == to.size(), "dispatch: slots of another width");
                  std::copy(features.begin(), features.end(), to.begin());
                });
}

void dispatch_tokens_backward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& d_slots = operands[0];
  LocalTensor& d_tokens = operands[2];
  std::fill(d_tokens.values.begin(), d_tokens.values.end(), 0.0);
  for_each_slot(operands[1],
                d_slots,
                [&](std::int64_t token, std::size_t, std::int64_t expert, std::int64_t slot) {
                  const auto from = slot_of(d_slots, expert, slot);
                  const auto to = features_of(d_tokens, token);
                  for (std::size_t i = 0; i < to.size(); ++i) {
                    to[i] += from[i];
                  }
                });
}

void combine_tokens(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& slots = operands[0];
  const LocalTensor& weights = operands[2];
  LocalTensor& tokens = operands[3];
  std::fill(tokens.values.begin(), tokens.values.end(), 0.0);
  for_each_slot(
      operands[1],
      slots,
      [&](std::int64_t token, std::size_t choice, std::int64_t expert, std::int64_t slot) {
        const double weight = features_of(weights, token)[choice];
        const auto from = slot_of(slots, expert, slot);
        const auto to = features_of(tokens, token);
        for (std::size_t i = 0; i < to.size(); ++i) {
          to[i] += weight * from[i];
        }
      });
}

void combine_tokens_backward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& d_tokens = operands[0];
  const LocalTensor& slots = operands[1];
  const LocalTensor& ids = operands[2];
  const LocalTensor& weights = operands[3];
  LocalTensor& d_slots = operands[4];
  LocalTensor& d_weights = operands[5];
  std::fill(d_slots.values.begin(), d_slots.values.end(), 0.0);
  std::fill(d_weights.values.begin(), d_weights.values.end(), 0.0);  // of dropped tokens
  for_each_slot(
      ids,
      slots,
      [&](std::int64_t token, std::size_t choice, std::int64_t expert, std::int64_t slot) {
        const double weight = features_of(weights, token)[choice];
        const auto gradient = features_of(d_tokens, token);
        const auto value = slot_of(slots, expert, slot);
        const auto to = slot_of(d_slots, expert, slot);
        double product = 0;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          to[i] = weight * gradient[i];
          product += gradient[i] * value[i];
        }
        features_of(d_weights, token)[choice] = product;
      });
}

}  // namespace trireme::engine
