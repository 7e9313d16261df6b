// Softmax attention in blocks of queries and keys: the scores of all tokens are never held at once.
#include <cmath>
#include <limits>
#include <vector>

#include <Eigen/Dense>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

using Tile = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<Tile, Eigen::Unaligned, Eigen::OuterStride<>>;
using ConstRows = Eigen::Map<const Tile, Eigen::Unaligned, Eigen::OuterStride<>>;
using Statistics = Eigen::Map<Eigen::VectorXd, Eigen::Unaligned, Eigen::InnerStride<>>;
using ConstStatistics = Eigen::Map<const Eigen::VectorXd, Eigen::Unaligned, Eigen::InnerStride<>>;

/// Queries and keys of a tile. Bounds scratch memory; results do not depend on it but by rounding.
constexpr std::int64_t kTileTokens = 128;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Sizes of one rank's part of q [batch, sequence, groups, heads per group, head dim], of k [batch,
/// sequence, groups, head dim] and of v, whose head dimension may be another, as is that of o.
struct Sizes {
  std::int64_t batch, queries, keys, groups, heads_per_group, head_dim, value_dim;
};

/// One query head of one sequence, and the key/value head that it attends to.
struct Head {
  std::int64_t batch, group, within_group;
};

Sizes sizes_of(const LocalTensor& q, const LocalTensor& k, const LocalTensor& v) {
  ensure(q.rank == 5 && k.rank == 4 && v.rank == 4 &&
             v.elements() * k.extent[3] == k.elements() * v.extent[3] &&
             q.extent[0] == k.extent[0] && q.extent[2] == k.extent[2] && q.extent[4] == k.extent[3],
         "attention: operands do not fit together");
  return {
      q.extent[0], q.extent[1], k.extent[1], q.extent[2], q.extent[3], q.extent[4], v.extent[3]};
}

/// Rows `first` to `first + count` of one head, tokens in rows, for an array like q with `dim`
/// numbers in a head.
template <class Map, class Values>
Map query_rows(Values& values,
               const Sizes& sizes,
               std::int64_t dim,
               Head head,
               std::int64_t first,
               std::int64_t count) {
  const std::int64_t heads = sizes.groups * sizes.heads_per_group;
  const std::int64_t token = (head.batch * sizes.queries + first) * heads;
  const std::int64_t offset = token + head.group * sizes.heads_per_group + head.within_group;
  return Map(values.data() + offset * dim, count, dim, Eigen::OuterStride<>(heads * dim));
}

/// The same for an array like k.
template <class Map, class Values>
Map key_rows(Values& values,
             const Sizes& sizes,
             std::int64_t dim,
             Head head,
             std::int64_t first,
             std::int64_t count) {
  const std::int64_t token = (head.batch * sizes.keys + first) * sizes.groups;
  return Map(values.data() + (token + head.group) * dim,
             count,
             dim,
             Eigen::OuterStride<>(sizes.groups * dim));
}

/// The same for log-sum-exp, one number for each row of queries.
template <class Map, class Values>
Map row_statistics(
    Values& values, const Sizes& sizes, Head head, std::int64_t first, std::int64_t count) {
  const std::int64_t heads = sizes.groups * sizes.heads_per_group;
  const std::int64_t token = (head.batch * sizes.queries + first) * heads;
  return Map(values.data() + token + head.group * sizes.heads_per_group + head.within_group,
             count,
             Eigen::InnerStride<>(heads));
}

/// Calls `visit(head)` for every query head of every sequence.
template <class Visit>
void for_each_head(const Sizes& sizes, Visit visit) {
  for (std::int64_t batch = 0; batch < sizes.batch; ++batch) {
    for (std::int64_t group = 0; group < sizes.groups; ++group) {
      for (std::int64_t within = 0; within < sizes.heads_per_group; ++within) {
        visit(Head{batch, group, within});
      }
    }
  }
}

/// Which keys a query sees, by their positions in the whole sequence.
class Mask {
 public:
  Mask(const KernelContext& context, const LocalTensor& q, const LocalTensor& k)
      : causal_(context.op.causal), keys_(k.extent[program::kSequenceDim]) {
    if (causal_) {
      query_position_ = positions(context, q);
      key_position_ = positions(context, k);
    }
  }

  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const {
    return !causal_ || at(key_position_, key) <= at(query_position_, query);
  }

  /// Keys beyond these are seen by none of `rows` queries from `first` on.
  [[nodiscard]] std::int64_t seen(std::int64_t first, std::int64_t rows) const {
    std::int64_t keys = keys_;
    const auto unseen = [&](std::int64_t key) {
      for (std::int64_t row = 0; row < rows; ++row) {
        if (sees(first + row, key)) {
          return false;
        }
      }
      return true;
    };
    while (causal_ && keys > 0 && unseen(keys - 1)) {
      --keys;
    }
    return keys;
  }

 private:
  static std::vector<std::int64_t> positions(const KernelContext& context,
                                             const LocalTensor& tokens) {
    std::vector<std::int64_t> found;
    for (std::int64_t token = 0; token < tokens.extent[program::kSequenceDim]; ++token) {
      found.push_back(position_of(context, tokens, token));
    }
    return found;
  }

  static std::int64_t at(const std::vector<std::int64_t>& values, std::int64_t index) {
    return values[static_cast<std::size_t>(index)];
  }

  bool causal_;
  std::int64_t keys_;
  std::vector<std::int64_t> query_position_;
  std::vector<std::int64_t> key_position_;
};

/// Scores of a tile: q · kᵀ / sqrt(head dim), minus infinity where the query does not see the key.
Tile scores_of(const ConstRows& q,
               const ConstRows& k,
               const Mask& mask,
               std::int64_t first_query,
               std::int64_t first_key) {
  Tile scores = q * k.transpose() / std::sqrt(static_cast<double>(q.cols()));
  for (std::int64_t i = 0; i < scores.rows(); ++i) {
    for (std::int64_t j = 0; j < scores.cols(); ++j) {
      if (!mask.sees(first_query + i, first_key + j)) {
        scores(i, j) = kMinusInfinity;
      }
    }
  }
  return scores;
}

}  // namespace

// o = softmax(q · kᵀ / sqrt(d)) · v, with a running largest score and sum of exponentials per row.
// A row that sees no key is zero, with a log-sum-exp of minus infinity.
// Source: dao2023-flash2, algorithm 1; ainslie2023-gqa, a group of query heads shares keys, values
void attention_forward(const KernelContext& context, Operands operands) {
  const LocalTensor& q = operands[0];
  const LocalTensor& k = operands[1];
  const LocalTensor& v = operands[2];
  LocalTensor& o = operands[3];
  LocalTensor& log_sum_exp = operands[4];
  const Sizes sizes = sizes_of(q, k, v);
  ensure(o.elements() * sizes.head_dim == q.elements() * sizes.value_dim, "attention: outputs");
  ensure(log_sum_exp.elements() * sizes.head_dim == q.elements(), "attention: log-sum-exp");
  const Mask mask(context, q, k);
  for_each_head(sizes, [&](Head head) {
    for (std::int64_t first = 0; first < sizes.queries; first += kTileTokens) {
      const std::int64_t rows = std::min(kTileTokens, sizes.queries - first);
      const auto q_rows = query_rows<ConstRows>(q.values, sizes, sizes.head_dim, head, first, rows);
      Tile sum = Tile::Zero(rows, sizes.value_dim);  // of exp(score - largest) · v
      Eigen::VectorXd largest = Eigen::VectorXd::Constant(rows, kMinusInfinity);
      Eigen::VectorXd total = Eigen::VectorXd::Zero(rows);
      const std::int64_t seen = mask.seen(first, rows);
      for (std::int64_t first_key = 0; first_key < seen; first_key += kTileTokens) {
        const std::int64_t keys = std::min(kTileTokens, seen - first_key);
        const auto k_rows =
            key_rows<ConstRows>(k.values, sizes, sizes.head_dim, head, first_key, keys);
        Tile weights = scores_of(q_rows, k_rows, mask, first, first_key);
        for (std::int64_t i = 0; i < rows; ++i) {
          const double before = largest(i);
          largest(i) = std::max(before, weights.row(i).maxCoeff());
          if (largest(i) == kMinusInfinity) {
            weights.row(i).setZero();
            continue;
          }
          const double correction = std::exp(before - largest(i));
          // Keys that are not seen weigh zero: Eigen's exponential of minus infinity is a denormal
          // number, not zero, and every product with it takes a hundred times as long.
          const auto scores = weights.row(i).array();
          weights.row(i) =
              (scores == kMinusInfinity).select(0.0, (scores - largest(i)).exp()).matrix();
          total(i) = total(i) * correction + weights.row(i).sum();
          sum.row(i) *= correction;
        }
        sum.noalias() +=
            weights * key_rows<ConstRows>(v.values, sizes, sizes.value_dim, head, first_key, keys);
      }
      auto o_rows = query_rows<Rows>(o.values, sizes, sizes.value_dim, head, first, rows);
      auto lse = row_statistics<Statistics>(log_sum_exp.values, sizes, head, first, rows);
      for (std::int64_t i = 0; i < rows; ++i) {
        if (total(i) > 0) {
          o_rows.row(i) = sum.row(i) / total(i);
        } else {
          o_rows.row(i).setZero();
        }
        lse(i) = largest(i) + std::log(total(i));
      }
    }
  });
}

// Probabilities are computed again from the saved log-sum-exp; with D = rowsum(o * do),
//   dv = pᵀ · do    ds = p * (do · vᵀ - D)    dq = ds · k / sqrt(d)    dk = dsᵀ · q / sqrt(d)
// Gradients of keys and values sum over the query heads of a group and over this rank's queries.
// Source: dao2023-flash2, algorithm 2
void attention_backward(const KernelContext& context, Operands operands) {
  const LocalTensor& q = operands[0];
  const LocalTensor& k = operands[1];
  const LocalTensor& v = operands[2];
  const LocalTensor& o = operands[3];
  const LocalTensor& log_sum_exp = operands[4];
  const LocalTensor& d_o = operands[5];
  LocalTensor& dq = operands[6];
  LocalTensor& dk = operands[7];
  LocalTensor& dv = operands[8];
  const Sizes sizes = sizes_of(q, k, v);
  ensure(o.elements() * sizes.head_dim == q.elements() * sizes.value_dim, "attention: outputs");
  ensure_alike(o, d_o);
  ensure_alike(q, dq);
  ensure_alike(k, dk);
  ensure_alike(v, dv);
  for (LocalTensor& result : operands.subspan(6)) {  // gradients, then workspaces
    start_sum(result);
  }
  const Mask mask(context, q, k);
  const double scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim));
  for_each_head(sizes, [&](Head head) {
    for (std::int64_t first = 0; first < sizes.queries; first += kTileTokens) {
      const std::int64_t rows = std::min(kTileTokens, sizes.queries - first);
      const auto q_rows = query_rows<ConstRows>(q.values, sizes, sizes.head_dim, head, first, rows);
      const auto do_rows =
          query_rows<ConstRows>(d_o.values, sizes, sizes.value_dim, head, first, rows);
      const auto o_rows =
          query_rows<ConstRows>(o.values, sizes, sizes.value_dim, head, first, rows);
      const auto lse =
          row_statistics<ConstStatistics>(log_sum_exp.values, sizes, head, first, rows);
      const Eigen::VectorXd row_sums = do_rows.cwiseProduct(o_rows).rowwise().sum();
      auto dq_rows = query_rows<Rows>(dq.values, sizes, sizes.head_dim, head, first, rows);
      const std::int64_t seen = mask.seen(first, rows);
      for (std::int64_t first_key = 0; first_key < seen; first_key += kTileTokens) {
        const std::int64_t keys = std::min(kTileTokens, seen - first_key);
        const auto k_rows =
            key_rows<ConstRows>(k.values, sizes, sizes.head_dim, head, first_key, keys);
        const auto v_rows =
            key_rows<ConstRows>(v.values, sizes, sizes.value_dim, head, first_key, keys);
        Tile p = scores_of(q_rows, k_rows, mask, first, first_key);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < keys; ++j) {  // no exp(-inf + inf) where no key is seen
            p(i, j) = p(i, j) == kMinusInfinity ? 0 : std::exp(p(i, j) - lse(i));
          }
        }
        key_rows<Rows>(dv.values, sizes, sizes.value_dim, head, first_key, keys).noalias() +=
            p.transpose() * do_rows;
        Tile ds = do_rows * v_rows.transpose();
        ds.colwise() -= row_sums;
        ds = scale * ds.cwiseProduct(p);
        dq_rows.noalias() += ds * k_rows;
        key_rows<Rows>(dk.values, sizes, sizes.head_dim, head, first_key, keys).noalias() +=
            ds.transpose() * q_rows;
      }
    }
  });
}

}  // namespace trireme::engine
