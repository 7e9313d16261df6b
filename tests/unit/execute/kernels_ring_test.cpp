// Heads that are repeated, and attention with parts of the keys put together.
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/execute/kernel.h"
#include "tests/catch.h"

namespace trireme::engine {
namespace {

using program::Access;
using program::Function;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LocalTensor tensor(std::initializer_list<std::int64_t> extents,
                   std::vector<double> values,
                   Access access = Access::read) {
  LocalTensor local;
  local.access = access;
  for (const std::int64_t extent : extents) {
    local.extent[static_cast<std::size_t>(local.rank)] = extent;
    local.valid[static_cast<std::size_t>(local.rank++)] = extent;
  }
  local.values = std::move(values);
  return local;
}

void run(Function function, std::span<LocalTensor> operands, bool causal = false) {
  const program::Mesh mesh;
  program::Op op;
  op.causal = causal;
  const ExecutionConstants constants;
  kernel(function)(KernelContext{mesh, 0, op, constants}, operands);
}

TEST_CASE("repeat_heads: copies of a head follow each other; sums go back", "[execute]") {
  // Two tokens, two heads of two numbers, each head three times.
  std::vector<LocalTensor> forward = {tensor({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                      tensor({1, 2, 6, 2}, std::vector<double>(24, 0))};
  run(Function::repeat_heads, forward);
  CHECK(forward[1].values == std::vector<double>{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4,
                                                 5, 6, 5, 6, 5, 6, 7, 8, 7, 8, 7, 8});
  std::vector<LocalTensor> backward = {forward[1], forward[0]};
  backward[1].access = Access::write;
  run(Function::sum_repeated_heads, backward);
  CHECK(backward[1].values == std::vector<double>{3, 6, 9, 12, 15, 18, 21, 24});
  std::vector<LocalTensor> other = {tensor({1, 1, 2, 1}, {1, 2}), tensor({1, 1, 3, 1}, {0, 0, 0})};
  CHECK_THROWS(run(Function::repeat_heads, other));  // not a whole number of copies
}

TEST_CASE("merge: parts count by their share of the sum of exponentials", "[execute]") {
  // Sums of exponentials 1 and 3: outputs 8 and 4 merge to (8 + 3 * 4) / 4 = 5, their sum is 4.
  const double three = std::log(3.0);
  std::vector<LocalTensor> merge = {tensor({1, 1, 1, 1, 1}, {4}),
                                    tensor({1, 1, 1, 1}, {three}),
                                    tensor({1, 1, 1, 1, 1}, {8}, Access::update),
                                    tensor({1, 1, 1, 1}, {0}, Access::update)};
  run(Function::merge_attention, merge);
  CHECK(merge[2].values[0] == Approx(5).epsilon(1e-15));
  CHECK(merge[3].values[0] == Approx(std::log(4.0)).epsilon(1e-15));

  std::vector<LocalTensor> sums = {tensor({1, 1, 1, 1}, {three}),
                                   tensor({1, 1, 1, 1}, {0}, Access::update)};
  run(Function::merge_log_sum_exp, sums);
  CHECK(sums[1].values[0] == Approx(std::log(4.0)).epsilon(1e-15));
  std::vector<LocalTensor> first = {tensor({1, 1, 1, 1, 1}, {8}),
                                    tensor({1, 1, 1, 1}, {0}),
                                    sums[1],
                                    tensor({1, 1, 1, 1, 1}, {0}, Access::write)};
  run(Function::correct_output, first);
  CHECK(first[3].values[0] == Approx(2).epsilon(1e-15));
  std::vector<LocalTensor> second = {merge[0], merge[1], sums[1], first[3]};
  second[3].access = Access::update;
  run(Function::correct_output, second);
  CHECK(second[3].values[0] == Approx(5).epsilon(1e-15));
}

TEST_CASE("merge: a row that saw no key has no weight", "[execute]") {
  const auto merged = [](double part, double whole) {
    std::vector<LocalTensor> merge = {tensor({1, 1, 1, 1, 1}, {4}),
                                      tensor({1, 1, 1, 1}, {part}),
                                      tensor({1, 1, 1, 1, 1}, {8}, Access::update),
                                      tensor({1, 1, 1, 1}, {whole}, Access::update)};
    run(Function::merge_attention, merge);
    return std::pair(merge[2].values[0], merge[3].values[0]);
  };
  CHECK(merged(-kInfinity, 2) == std::pair(8.0, 2.0));
  CHECK(merged(2, -kInfinity) == std::pair(4.0, 2.0));
  CHECK(merged(-kInfinity, -kInfinity) == std::pair(0.0, -kInfinity));
}

TEST_CASE("attention and rotary follow the order of tokens", "[execute]") {
  // Rank 0 of two in zigzag order holds positions 0 and 3, rank 1 positions 1 and 2.
  const program::Mesh mesh;
  program::Op op;
  op.causal = true;
  const ExecutionConstants constants;
  const program::TokenOrder zigzag{program::OrderKind::zigzag, 1, 2, 4};
  const auto seen = [&](std::int64_t queries_of, std::int64_t keys_of) {
    std::vector<LocalTensor> operands = {tensor({1, 2, 1, 1, 1}, {1, 1}),
                                         tensor({1, 2, 1, 1}, {0, 0}),
                                         tensor({1, 2, 1, 1}, {1, 1}),
                                         tensor({1, 2, 1, 1, 1}, {0, 0}, Access::write),
                                         tensor({1, 2, 1, 1}, {0, 0}, Access::write)};
    operands[0].first[1] = 2 * queries_of;
    operands[1].first[1] = 2 * keys_of;
    kernel(Function::attention_forward)(KernelContext{mesh, 0, op, constants, zigzag}, operands);
    std::vector<double> keys;  // scores are zero: exp(log-sum-exp) counts what was seen
    for (const double log_sum_exp : operands[4].values) {
      keys.push_back(std::round(std::exp(log_sum_exp)));
    }
    return keys;
  };
  CHECK(seen(0, 0) == std::vector<double>{1, 2});
  CHECK(seen(1, 1) == std::vector<double>{1, 2});
  CHECK(seen(0, 1) == std::vector<double>{0, 2});  // position 3 sees 1 and 2
  CHECK(seen(1, 0) == std::vector<double>{1, 1});  // positions 1 and 2 see 0
}

}  // namespace
}  // namespace trireme::engine
