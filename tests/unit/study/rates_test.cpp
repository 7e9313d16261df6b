#include "sim/study/rates.h"

#include "tests/catch.h"

namespace trireme::study {
namespace {

TEST_CASE("tokens per second and GPU", "[unit]") {
  // 131,072 tokens in 8 s on 8 GPUs: 131072 / 64 = 2048.
  CHECK(tokens_per_second_per_gpu(Tokens(131072), 8, Seconds(8)) == 2048);
}

TEST_CASE("utilisation is work over what the GPUs could have done", "[unit]") {
  // 4e15 FLOPs in 2 s on 4 GPUs of 1e15 FLOP/s: 4e15 / 8e15.
  CHECK(flop_utilisation(Flops(4e15), 4, FlopsPerSecond(1e15), Seconds(2)) == 0.5);
}

TEST_CASE("a step is bound by its largest part", "[unit]") {
  ledger::TimeLedger time;
  time.attention = Seconds(1);
  time.gemm = Seconds(2);
  time.memory_bound = Seconds(3);
  time.exposed_communication = Seconds(4);
  CHECK(bound_by(time) == ledger::Bound::communication);
  time.exposed_communication = Seconds(0);
  CHECK(bound_by(time) == ledger::Bound::memory_bound_kernels);
  time.memory_bound = Seconds(2);  // equals matrix products, which come first
  CHECK(bound_by(time) == ledger::Bound::matrix_products);
  time.attention = Seconds(5);
  CHECK(bound_by(time) == ledger::Bound::attention);
}

}  // namespace
}  // namespace trireme::study
