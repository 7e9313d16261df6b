#include "calibrate/probe/attention_reference.h"

#include <algorithm>
#include <cmath>

namespace trireme::calibrate {

namespace {

std::span<const float> row_of(std::span<const float> rows, std::int64_t row, std::int64_t width) {
  return rows.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width));
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

double absolute_dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(static_cast<double>(a[i]) * static_cast<double>(b[i]));
  }
  return sum;
}

void add_scaled(std::vector<double>& sum, double factor, std::span<const float> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    sum[i] += factor * static_cast<double>(row[i]);
  }
}

double scale_of(const AttentionHead& head) {
  return 1 / std::sqrt(static_cast<double>(head.head_dim));
}

/// Scaled scores of a query row with the keys that it sees, turned into probabilities in place.
/// Returns the logarithm of the sum of their exponentials.
double probabilities(const AttentionHead& head,
                     std::int64_t query_row,
                     std::vector<double>& scores) {
  const std::span<const float> query = row_of(head.query, query_row, head.head_dim);
  const double scale = scale_of(head);
  scores.resize(static_cast<std::size_t>(head.visible_keys(query_row)));
  for (std::size_t j = 0; j < scores.size(); ++j) {
    scores[j] = scale * dot(query, row_of(head.key, static_cast<std::int64_t>(j), head.head_dim));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) {
    sum += std::exp(score - largest);
  }
  const double log_sum_exp = largest + std::log(sum);
  for (double& score : scores) {
    score = std::exp(score - log_sum_exp);
  }
  return log_sum_exp;
}

double square(double x) {
  return x * x;
}

}  // namespace

bool agrees(const ReferenceRow& reference, std::span<const float> row, double tolerance) {
  double distance_square = 0;
  for (std::size_t i = 0; i < reference.value.size(); ++i) {
    distance_square += square(static_cast<double>(row[i]) - reference.value[i]);
  }
  return std::sqrt(distance_square) <= tolerance * reference.magnitude;  // false for not a number
}

OutputRow output_row(const AttentionHead& head, std::int64_t query_row) {
  std::vector<double> probability;
  OutputRow row;
  row.log_sum_exp = probabilities(head, query_row, probability);
  row.output.value.resize(static_cast<std::size_t>(head.head_dim));
  double magnitude_square = 0;
  for (std::size_t j = 0; j < probability.size(); ++j) {
    const std::span<const float> value =
        row_of(head.value, static_cast<std::int64_t>(j), head.head_dim);
    add_scaled(row.output.value, probability[j], value);
    magnitude_square += square(probability[j]) * dot(value, value);
  }
  row.output.magnitude = std::sqrt(magnitude_square);
  return row;
}

ReferenceRow query_gradient(const AttentionHead& head,
                            std::int64_t query_row,
                            std::span<const float> output_gradient_row) {
  std::vector<double> probability;
  probabilities(head, query_row, probability);
  std::vector<double> to_probability(probability.size());
  std::vector<double> output(static_cast<std::size_t>(head.head_dim));
  for (std::size_t j = 0; j < probability.size(); ++j) {
    const std::span<const float> value =
        row_of(head.value, static_cast<std::int64_t>(j), head.head_dim);
    to_probability[j] = dot(output_gradient_row, value);
    add_scaled(output, probability[j], value);
  }
  double mean = 0;           // of to_probability under the probabilities: dO . O
  double mean_absolute = 0;  // without its cancellation
  for (std::size_t i = 0; i < output.size(); ++i) {
    const double product = output[i] * static_cast<double>(output_gradient_row[i]);
    mean += product;
    mean_absolute += std::abs(product);
  }
  const double scale = scale_of(head);
  ReferenceRow row;
  row.value.resize(static_cast<std::size_t>(head.head_dim));
  double magnitude_square = 0;
  for (std::size_t j = 0; j < probability.size(); ++j) {
    const std::span<const float> key =
        row_of(head.key, static_cast<std::int64_t>(j), head.head_dim);
    add_scaled(row.value, scale * probability[j] * (to_probability[j] - mean), key);
    magnitude_square +=
        square(scale * probability[j] * (std::abs(to_probability[j]) + mean_absolute)) *
        dot(key, key);
  }
  row.magnitude = std::sqrt(magnitude_square);
  return row;
}

void KeyValueGradients::add(const AttentionHead& head,
                            std::int64_t key_row,
                            std::span<const float> output,
                            std::span<const float> output_gradient,
                            std::span<const float> log_sum_exp) {
  const double scale = scale_of(head);
  const std::span<const float> key_values = row_of(head.key, key_row, head.head_dim);
  const std::span<const float> value_values = row_of(head.value, key_row, head.head_dim);
  for (std::int64_t i = head.first_query_of(key_row); i < head.queries; ++i) {
    const std::span<const float> query = row_of(head.query, i, head.head_dim);
    const std::span<const float> gradient = row_of(output_gradient, i, head.head_dim);
    const std::span<const float> output_values = row_of(output, i, head.head_dim);
    const double probability =
        std::exp(scale * dot(query, key_values) -
                 static_cast<double>(log_sum_exp[static_cast<std::size_t>(i)]));
    const double to_probability = dot(gradient, value_values);
    const double mean = dot(gradient, output_values);
    add_scaled(value_, probability, gradient);
    add_scaled(key_, scale * probability * (to_probability - mean), query);
    value_square_ += square(probability) * dot(gradient, gradient);
    key_square_ += square(scale * probability *
                          (std::abs(to_probability) + absolute_dot(gradient, output_values))) *
                   dot(query, query);
  }
}

ReferenceRow KeyValueGradients::key_row() const {
  return {key_, std::sqrt(key_square_)};
}

ReferenceRow KeyValueGradients::value_row() const {
  return {value_, std::sqrt(value_square_)};
}

}  // namespace trireme::calibrate
