#include "sim/cost/attention.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

/// One block at head dimension 128 is 2 * 128 * 128 * 256 = 8,388,608 operations: 1 us at E.
AttentionKernelCosts example_kernel() {
  const FlopsPerSecond block_per_microsecond(8388608e6);
  AttentionKernelCosts kernel;
  kernel.start = Seconds(10e-6);
  kernel.sustained_after = Seconds(1);
  kernel.head_dims[0] = {.head_dim = 64,
                         .sustained = 1,
                         .forward = AttentionPassCosts{block_per_microsecond, 0},
                         .backward = {}};
  kernel.head_dims[1] = {.head_dim = 128,
                         .sustained = 0.5,
                         .forward = AttentionPassCosts{block_per_microsecond, 256},
                         .backward = AttentionPassCosts{block_per_microsecond, 64}};
  kernel.head_dim_count = 2;
  return kernel;
}

AttentionShape square(std::int64_t heads, std::int64_t tokens, bool causal) {
  return {.sequences = 1,
          .query_heads = heads,
          .query_tokens = Tokens(tokens),
          .key_tokens = Tokens(tokens),
          .head_dim = 128,
          .causal = causal};
}

double microseconds(std::optional<Seconds> time) {
  REQUIRE(time.has_value());
  return time->value() * 1e6;
}

TEST_CASE("a full square visits every block", "[cost]") {
  // 10 heads of 1,024 tokens: 10 * 8 tiles, 80 * 8 = 640 blocks; overhead 80 * 256 / 128 = 160
  const auto kernel = example_kernel();
  CHECK(microseconds(attention_time(square(10, 1024, false), AttentionPass::forward, kernel, 4)) ==
        Approx(10 + 640 + 160));
  // backward: 2.5 * (640 + 80 * 64 / 128) = 2.5 * 680
  CHECK(microseconds(attention_time(square(10, 1024, false), AttentionPass::backward, kernel, 4)) ==
        Approx(10 + 1700));
}

TEST_CASE("a causal square visits the blocks up to its diagonal", "[cost]") {
  const auto kernel = example_kernel();
  // 10 * 8 * 9 / 2 = 360 blocks and 160 of overhead
  CHECK(microseconds(attention_time(square(10, 1024, true), AttentionPass::forward, kernel, 4)) ==
        Approx(10 + 360 + 160));
  // the second half of the queries: tiles 5 to 8 visit 5 + 6 + 7 + 8 = 26 blocks; 4 * 2 of overhead
  AttentionShape half = square(10, 1024, true);
  half.query_tokens = Tokens(512);
  half.first_query = Tokens(512);
  CHECK(microseconds(attention_time(half, AttentionPass::forward, kernel, 4)) ==
        Approx(10 + 260 + 80));
}

TEST_CASE("a small grid waits for its longest tile", "[cost]") {
  // 1 head of 1,024 tokens: 64 blocks, but a tile of 8 blocks on one of 100 multiprocessors takes
  // 8 * 100 block times; overhead 8 * 2
  CHECK(microseconds(attention_time(
            square(1, 1024, false), AttentionPass::forward, example_kernel(), 100)) ==
        Approx(10 + 800 + 16));
}

TEST_CASE("a long kernel runs at the sustained rate", "[cost]") {
  AttentionKernelCosts kernel = example_kernel();
  kernel.sustained_after = Seconds(800e-6);
  // 810 us are above 800: (640 + 160) / 0.5
  CHECK(microseconds(attention_time(square(10, 1024, false), AttentionPass::forward, kernel, 4)) ==
        Approx(10 + 1600));
  kernel.sustained_after = Seconds(820e-6);
  CHECK(microseconds(attention_time(square(10, 1024, false), AttentionPass::forward, kernel, 4)) ==
        Approx(810));
}

TEST_CASE("a head dimension is padded up to the next tabulated one", "[cost]") {
  const auto kernel = example_kernel();
  AttentionShape shape = square(10, 1024, false);
  const double at_128 = microseconds(attention_time(shape, AttentionPass::forward, kernel, 4));
  shape.head_dim = 96;
  CHECK(microseconds(attention_time(shape, AttentionPass::forward, kernel, 4)) == at_128);
  shape.head_dim = 64;
  // half the work of a block and no overhead: 640 / 2
  CHECK(microseconds(attention_time(shape, AttentionPass::forward, kernel, 4)) == Approx(10 + 320));
}

TEST_CASE("what a profile does not know stays unknown", "[cost]") {
  const auto kernel = example_kernel();
  AttentionShape shape = square(10, 1024, false);
  shape.head_dim = 256;
  CHECK_FALSE(attention_time(shape, AttentionPass::forward, kernel, 4).has_value());
  shape.head_dim = 64;
  CHECK_FALSE(attention_time(shape, AttentionPass::backward, kernel, 4).has_value());
  CHECK(attention_time(shape, AttentionPass::forward, kernel, 4).has_value());
}

TEST_CASE("no queries take no time", "[cost]") {
  AttentionShape shape = square(10, 1024, false);
  shape.query_tokens = Tokens(0);
  CHECK(attention_time(shape, AttentionPass::forward, example_kernel(), 4) == Seconds(0));
}

}  // namespace
}  // namespace trireme::cost
