#include "sim/core/counter_random.h"

#include "tests/catch.h"

namespace trireme {
namespace {

TEST_CASE("bits of a counter are those of splitmix64", "[core]") {
  // The first numbers of the published generator from seed 0, whose state grows by this constant.
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  CHECK(mixed_bits(0) == 0xe220a8397b1dcdafU);
  CHECK(mixed_bits(kStep) == 0x6e789e6aa1b965f4U);
  CHECK(mixed_bits(2 * kStep) == 0x06c45d188009454fU);
}

TEST_CASE("numbers of the unit interval are never zero", "[core]") {
  CHECK(unit_interval(0) == 0x1p-54);
  CHECK(unit_interval(std::uint64_t{1} << 63U) == 0.5);
  CHECK(unit_interval(~std::uint64_t{0}) == 1.0);
}

TEST_CASE("normal numbers have mean 0 and variance 1", "[core]") {
  constexpr std::uint64_t kNumbers = 100'000;
  double sum = 0;
  double squares = 0;
  for (std::uint64_t counter = 0; counter < kNumbers; ++counter) {
    const double value = standard_normal(mixed_bits(counter));
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(kNumbers);
  // Four standard errors: 1 / sqrt(n) of the mean, sqrt(2 / n) of the variance.
  CHECK(std::abs(sum / count) < 4 / std::sqrt(count));
  CHECK(std::abs(squares / count - 1) < 4 * std::sqrt(2 / count));
}

}  // namespace
}  // namespace trireme
