// Rows of attention and its gradients in double precision, to compare a kernel's with.
//
// A row comes with a magnitude: the root of the summed squares of the terms that it is the sum of,
// each taken without the cancellation inside it. A kernel that rounds its terms to bf16 differs by
// a fraction of that, also in rows that are nearly zero.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::calibrate {

struct ReferenceRow {
  std::vector<double> value;
  double magnitude = 0;
};

/// Whether `row` is `reference` as closely as 16-bit terms allow: the distance is at most
/// `tolerance` of the magnitude. A row with a number that is not finite never is.
[[nodiscard]] bool agrees(const ReferenceRow& reference,
                          std::span<const float> row,
                          double tolerance);

/// One query head and the key/value head that it attends to: rows of `head_dim` numbers, row after
/// row. Query i sees the keys up to i + keys - queries when causal, else all.
struct AttentionHead {
  std::int64_t head_dim = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool causal = true;
  std::span<const float> query;
  std::span<const float> key;
  std::span<const float> value;

  [[nodiscard]] std::int64_t visible_keys(std::int64_t query_row) const {
    return causal ? query_row + keys - queries + 1 : keys;
  }

  [[nodiscard]] std::int64_t first_query_of(std::int64_t key_row) const {
    return causal && key_row > keys - queries ? key_row - (keys - queries) : 0;
  }
};

struct OutputRow {
  ReferenceRow output;
  double log_sum_exp = 0;  // of the scaled scores
};

[[nodiscard]] OutputRow output_row(const AttentionHead& head, std::int64_t query_row);

/// Gradient of a query row for the gradient of its output.
[[nodiscard]] ReferenceRow query_gradient(const AttentionHead& head,
                                          std::int64_t query_row,
                                          std::span<const float> output_gradient_row);

/// What a key/value row's gradients get from one query head, added up over the heads of its group.
class KeyValueGradients {
 public:
  explicit KeyValueGradients(std::int64_t head_dim)
      : key_(static_cast<std::size_t>(head_dim)), value_(static_cast<std::size_t>(head_dim)) {}

  /// `output`, `output_gradient` and `log_sum_exp` are those of all rows of the query head.
  void add(const AttentionHead& head,
           std::int64_t key_row,
           std::span<const float> output,
           std::span<const float> output_gradient,
           std::span<const float> log_sum_exp);

  [[nodiscard]] ReferenceRow key_row() const;
  [[nodiscard]] ReferenceRow value_row() const;

 private:
  std::vector<double> key_;
  std::vector<double> value_;
  double key_square_ = 0;  // of the magnitude
  double value_square_ = 0;
};

}  // namespace trireme::calibrate
