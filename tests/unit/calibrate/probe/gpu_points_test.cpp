#include "calibrate/probe/gpu_points.h"

#include <algorithm>

#include "calibrate/probe/pattern.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

TEST_CASE("payloads go from 4 KiB to 8 GiB", "[calibrate]") {
  const std::vector<Bytes> payloads = collective_payloads();
  REQUIRE(payloads.size() == 12);
  CHECK(payloads[0] == Bytes(4096));
  CHECK(payloads[1] == Bytes(16384));
  CHECK(payloads[10] == Bytes(std::int64_t{4} << 30));
  CHECK(payloads[11] == Bytes(std::int64_t{8} << 30));
  CHECK(divisible_payload(Bytes(4096), 8) == Bytes(4096));
  CHECK(divisible_payload(Bytes(4096), 3) == Bytes(4128));  // 86 * 48
}

TEST_CASE("attention points cover lengths, head dims, masks and groups", "[calibrate]") {
  const std::vector<AttentionPoint> points = attention_points(true);
  // 8 families of 5 lengths, two passes; 4 of them, without a mask, with the single operation too.
  CHECK(points.size() == 8 * 5 * 2 + 4 * 5);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const AttentionPoint& point = points[i];
    CAPTURE(i);
    CHECK(point.heads % point.kv_heads == 0);
    CHECK(point.query_tokens == point.key_tokens);
    if (point.pass == Pass::backward) {
      AttentionPoint before = points[i - 1];
      before.pass = Pass::backward;
      CHECK(before == point);
    }
    CHECK((point.kernel == "cudnn" || (!point.causal && point.pass == Pass::forward)));
  }
  const auto longest = std::max_element(
      points.begin(), points.end(), [](const AttentionPoint& a, const AttentionPoint& b) {
        return a.query_tokens < b.query_tokens;
      });
  CHECK(longest->query_tokens == Tokens(256 << 10));
  CHECK(longest->heads == 2);  // 32 heads over 16 K tokens, 16 times as long
}

TEST_CASE("no point of the grid is there twice", "[calibrate]") {
  const std::vector<GemmPoint> points = gemm_grid();
  CHECK(points.size() == 4 * 3 * 3 + 2 * 2 * 3);
  for (auto point = points.begin(); point != points.end(); ++point) {
    CHECK(std::find(point + 1, points.end(), *point) == points.end());
  }
}

TEST_CASE("patterns are the same on host and device by being integers", "[calibrate]") {
  CHECK(mixed(0, 0) == 0xe220a8397b1dcdafULL);  // the first output of SplitMix64 seeded with 0
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const float value = uniform_value(7, i);
    CHECK(std::abs(value) < 1);
    CHECK(std::abs(value) * 128 == static_cast<float>(static_cast<int>(std::abs(value) * 128)));
  }
}

TEST_CASE("sums over many ranks stay whole in bf16", "[calibrate]") {
  const std::uint64_t ranks = GENERATE(as<std::uint64_t>{}, 2, 8, 256, 257, 1024, 8192);
  CAPTURE(ranks);
  int largest = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    int sum = 0;
    for (std::uint64_t source = 0; source < ranks; ++source) {
      sum += summand(source, index, ranks);
    }
    largest = std::max(largest, sum);
  }
  CHECK(largest <= 256);
  CHECK(largest >= 1);
}

}  // namespace
}  // namespace trireme::calibrate
