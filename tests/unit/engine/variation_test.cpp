#include "sim/engine/event/variation.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

KernelFactors factors_of_all(const Variation& variation, std::int64_t ranks) {
  KernelFactors factors(variation, ranks);
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  factors.select(all);
  return factors;
}

TEST_CASE("variation: factors of a rank and of one of its components multiply", "[engine]") {
  Variation variation;
  variation.stragglers = {{1, 2.0, {}}, {1, 1.5, Component::mlp}, {3, 2.0, {}}};
  const KernelFactors factors = factors_of_all(variation, 4);
  CHECK(factors.of(0, Component::mlp, 7) == 1);
  CHECK(factors.of(1, Component::attention, 7) == 2);
  CHECK(factors.of(1, Component::mlp, 7) == 3);
  CHECK(factors.of(3, Component::mlp, 7) == 2);
  CHECK(factors.kinds() == std::vector<std::uint32_t>{0, 1, 0, 2});
}

TEST_CASE("variation: both scatters keep the mean and have the deviation asked for", "[engine]") {
  constexpr std::uint32_t kDraws = 200'000;
  constexpr double kDeviation = 0.2;
  for (const Scatter scatter : {Scatter::log_normal, Scatter::exponential}) {
    Variation variation;
    variation.jitter = kDeviation;
    variation.scatter = scatter;
    variation.seed = 11;
    const KernelFactors factors = factors_of_all(variation, 2);
    CHECK(factors.kinds() == std::vector<std::uint32_t>{0, 1});  // every rank its own numbers
    double sum = 0;
    double squares = 0;
    double least = 1;
    for (std::uint32_t task = 0; task < kDraws; ++task) {
      const double factor = factors.of(1, Component::mlp, task);
      sum += factor;
      squares += (factor - 1) * (factor - 1);
      least = std::min(least, factor);
    }
    // Five standard errors: 0.2 / sqrt(200,000) = 0.00045 of the mean; the deviation's own is
    // below 0.2 sqrt(8 / 200,000) / 2 = 0.00063, as an exponential has a kurtosis of 9.
    CHECK(sum / kDraws == Approx(1).margin(0.0023));
    CHECK(std::sqrt(squares / kDraws) == Approx(kDeviation).margin(0.0032));
    CHECK((least >= 1 - kDeviation) == (scatter == Scatter::exponential));
  }
}

TEST_CASE("variation: a rank keeps its own factor for the whole step", "[engine]") {
  Variation variation;
  variation.rank_jitter = 0.1;
  variation.seed = 5;
  const KernelFactors factors = factors_of_all(variation, 3);
  CHECK(factors.of(0, Component::mlp, 0) == factors.of(0, Component::attention, 99));
  CHECK(factors.of(0, Component::mlp, 0) != factors.of(1, Component::mlp, 0));
  variation.seed = 6;
  CHECK(factors_of_all(variation, 3).of(0, Component::mlp, 0) != factors.of(0, Component::mlp, 0));
}

TEST_CASE("variation: what cannot be is refused", "[engine]") {
  Variation variation;
  variation.stragglers = {{4, 2.0, {}}};
  CHECK_THROWS_AS(KernelFactors(variation, 4), std::logic_error);
  variation.stragglers.clear();
  variation.jitter = -0.1;
  CHECK_THROWS_AS(KernelFactors(variation, 4), std::logic_error);
}

}  // namespace
}  // namespace trireme::engine
