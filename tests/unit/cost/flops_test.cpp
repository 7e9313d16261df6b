#include "sim/cost/flops.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

TEST_CASE("a matrix product is 2 m n k", "[cost]") {
  CHECK(gemm_flops(3, 5, 7) == Flops(210));  // 2 * 3 * 5 * 7
  // 2 * 8192^3 = 2^40 exactly
  CHECK(gemm_flops(8192, 8192, 8192) == Flops(1099511627776.0));
}

TEST_CASE("attention is 4 B Sq Skv a d, halved when causal", "[cost]") {
  AttentionShape shape{.sequences = 2,
                       .query_heads = 8,
                       .query_tokens = Tokens(1024),
                       .key_tokens = Tokens(1024),
                       .head_dim = 128};
  // 4 * 2 * 1024 * 1024 * 8 * 128 = 2^33
  CHECK(attention_forward_flops(shape) == Flops(8589934592.0));
  CHECK(attention_backward_model_flops(shape) == Flops(17179869184.0));
  CHECK(attention_backward_kernel_flops(shape) == Flops(21474836480.0));
  shape.causal = true;
  CHECK(attention_forward_flops(shape) == Flops(4294967296.0));
  SECTION("with values of another head dimension, as latent attention has") {
    shape.head_dim = 192;
    shape.value_dim = 128;
    // 2 * 2 * 1024 * 1024 * 8 * (192 + 128) / 2
    CHECK(attention_forward_flops(shape) == Flops(5368709120.0));
    CHECK(attention_backward_model_flops(shape) == Flops(10737418240.0));
    // 2 * 2 * 1024 * 1024 * 8 * (3 * 192 + 2 * 128) / 2
    CHECK(attention_backward_kernel_flops(shape) == Flops(13958643712.0));
  }
}

TEST_CASE("causal chunks of a sequence add up to the causal whole", "[cost]") {
  const AttentionShape whole{.query_heads = 4,
                             .query_tokens = Tokens(4096),
                             .key_tokens = Tokens(4096),
                             .head_dim = 64,
                             .causal = true};
  // A chunk of 1,024 queries from q0 on sees 1024 * (q0 + 512) pairs, times 4 * 4 * 64 = 1024
  Flops sum;
  for (int chunk = 0; chunk < 4; ++chunk) {
    AttentionShape part = whole;
    part.query_tokens = Tokens(1024);
    part.first_query = Tokens(1024 * chunk);
    CHECK(attention_forward_flops(part) == Flops(1024.0 * 1024.0 * (1024.0 * chunk + 512.0)));
    sum += attention_forward_flops(part);
  }
  CHECK(sum == attention_forward_flops(whole));
}

}  // namespace
}  // namespace trireme::cost
