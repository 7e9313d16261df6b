#include "calibrate/probe/attention_reference.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

// Head dimension 1, so that the scale is 1. Scores of query 1: 1 * (0, ln 3), probabilities (1/4,
// 3/4), output 4/4 + 3 * 8/4 = 7.
struct Small {
  std::vector<float> query = {1, 1};
  std::vector<float> key = {0, std::log(3.0F)};
  std::vector<float> value = {4, 8};

  [[nodiscard]] AttentionHead head(bool causal) const {
    return {.head_dim = 1,
            .queries = 2,
            .keys = 2,
            .causal = causal,
            .query = query,
            .key = key,
            .value = value};
  }
};

TEST_CASE("rows of attention forward", "[calibrate]") {
  const Small small;
  const OutputRow last = output_row(small.head(true), 1);
  CHECK(last.output.value[0] == Approx(7));
  CHECK(last.log_sum_exp == Approx(std::log(4.0)));               // 1 + 3
  CHECK(last.output.magnitude == Approx(std::sqrt(1.0 + 36.0)));  // of 4/4 and 3 * 8/4
  const OutputRow first = output_row(small.head(true), 0);
  CHECK(first.output.value[0] == Approx(4));  // sees key 0 alone
  CHECK(first.log_sum_exp == Approx(0).margin(1e-15));
  CHECK(output_row(small.head(false), 0).output.value[0] == Approx(7));
}

TEST_CASE("rows of attention backward", "[calibrate]") {
  const Small small;
  const std::vector<float> output_gradient = {2, 1};
  // Query 1: dP = (4, 8), their mean 7, dS = (1/4 (4 - 7), 3/4 (8 - 7)); dq = 3/4 ln 3.
  const ReferenceRow query =
      query_gradient(small.head(true), 1, std::span(output_gradient).subspan(1));
  CHECK(query.value[0] == Approx(0.75 * std::log(3.0)));
  // Term of key 1 without its cancellation: 3/4 (8 + 7) ln 3; key 0 is zero.
  CHECK(query.magnitude == Approx(0.75 * 15 * std::log(3.0)));

  const std::vector<float> output = {4, 7};
  const std::vector<float> log_sum_exp = {0, std::log(4.0F)};
  KeyValueGradients key_0(1);
  key_0.add(small.head(true), 0, output, output_gradient, log_sum_exp);
  // Query 0: P = 1, dP = mean = 8; query 1: dS = -3/4.
  CHECK(key_0.key_row().value[0] == Approx(-0.75).epsilon(1e-6));
  CHECK(key_0.value_row().value[0] == Approx(2 + 0.25).epsilon(1e-6));
  KeyValueGradients key_1(1);
  key_1.add(small.head(true), 1, output, output_gradient, log_sum_exp);
  CHECK(key_1.key_row().value[0] == Approx(0.75).epsilon(1e-6));
  CHECK(key_1.value_row().value[0] == Approx(0.75).epsilon(1e-6));
  key_1.add(small.head(true), 1, output, output_gradient, log_sum_exp);  // of a second query head
  CHECK(key_1.value_row().value[0] == Approx(1.5).epsilon(1e-6));
}

TEST_CASE("fewer queries than keys see the last of them", "[calibrate]") {
  const AttentionHead head{
      .head_dim = 1, .queries = 2, .keys = 6, .causal = true, .query = {}, .key = {}, .value = {}};
  CHECK(head.visible_keys(0) == 5);
  CHECK(head.visible_keys(1) == 6);
  CHECK(head.first_query_of(4) == 0);
  CHECK(head.first_query_of(5) == 1);
}

TEST_CASE("a row agrees within a part of its magnitude", "[calibrate]") {
  const ReferenceRow reference{.value = {0.0, 0.0}, .magnitude = 10};
  CHECK(agrees(reference, std::vector<float>{0.06F, 0.08F}, 0.01));  // 0.1 apart
  CHECK_FALSE(agrees(reference, std::vector<float>{0.06F, 0.09F}, 0.01));
  CHECK_FALSE(
      agrees(reference, std::vector<float>{std::numeric_limits<float>::quiet_NaN(), 0}, 0.01));
}

}  // namespace
}  // namespace trireme::calibrate
