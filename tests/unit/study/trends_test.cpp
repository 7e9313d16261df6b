#include "sim/study/trends.h"

#include <cmath>
#include <optional>

#include "tests/catch.h"

namespace trireme::study {
namespace {

ledger::PlanResult row(const std::string& plan,
                       std::int64_t tokens,
                       std::optional<double> seconds,
                       ledger::Verdict verdict = ledger::Verdict::fits) {
  ledger::PlanResult result;
  result.plan = plan;
  result.point = {{"workload.sequence", std::to_string(tokens), tokens}};
  result.verdict = verdict;
  if (verdict != ledger::Verdict::illegal) {
    result.numbers.emplace();
  }
  if (seconds) {
    result.numbers->step.emplace();
    result.numbers->step->time.step = Seconds(*seconds);
  }
  return result;
}

TEST_CASE("a crossover is interpolated in the logarithms", "[unit]") {
  // a / b is 1/4 at 1024 and 4 at 16384: parity half-way in the logarithm, at sqrt(1024 x 16384).
  const std::vector<ledger::PlanResult> rows = {
      row("a", 1024, 1), row("b", 1024, 4), row("a", 16384, 4), row("b", 16384, 1)};
  const auto found = find_crossovers(rows);
  REQUIRE(found.size() == 1);
  CHECK(found[0].below == "a");
  CHECK(found[0].above == "b");
  CHECK(found[0].key == "workload.sequence");
  CHECK(found[0].at == Approx(4096));
}

TEST_CASE("unknown step times are passed over", "[unit]") {
  // Known at 1024 (ratio 1/2) and 4096 (ratio 2): parity at 2048.
  const std::vector<ledger::PlanResult> rows = {row("a", 1024, 1),
                                                row("b", 1024, 2),
                                                row("a", 2048, std::nullopt),
                                                row("b", 2048, 1),
                                                row("a", 4096, 2),
                                                row("b", 4096, 1)};
  const auto found = find_crossovers(rows);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at == Approx(2048));
}

TEST_CASE("plans that keep their order have no crossover, nor have sweeps of two keys", "[unit]") {
  std::vector<ledger::PlanResult> rows = {
      row("a", 1024, 1), row("b", 1024, 2), row("a", 2048, 3), row("b", 2048, 4)};
  CHECK(find_crossovers(rows).empty());
  rows[2].numbers->step->time.step = Seconds(9);
  CHECK(find_crossovers(rows).size() == 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].point.push_back({"cluster.nodes", "n", static_cast<std::int64_t>(1 + i / 2)});
  }
  CHECK(find_crossovers(rows).empty());
}

TEST_CASE("between what fits and what does not a plan may be tight", "[unit]") {
  using ledger::Verdict;
  const std::vector<ledger::PlanResult> rows = {row("a", 1024, 1),
                                                row("a", 2048, 1, Verdict::tight),
                                                row("a", 3072, 1, Verdict::tight),
                                                row("a", 4096, 1, Verdict::does_not_fit),
                                                row("b", 1024, 1, Verdict::tight),
                                                row("b", 2048, 1, Verdict::tight)};
  const auto walls = find_memory_walls(rows);
  REQUIRE(walls.size() == 2);
  CHECK(walls[0].last_that_fits->text == "1024");
  CHECK(walls[0].first_tight->text == "2048");
  CHECK(walls[0].first_that_does_not->text == "4096");
  CHECK_FALSE(walls[1].last_that_fits.has_value());
  CHECK(walls[1].first_tight->text == "1024");
  CHECK_FALSE(walls[1].first_that_does_not.has_value());
}

TEST_CASE("a memory wall stands behind the last length that fits", "[unit]") {
  using ledger::Verdict;
  const std::vector<ledger::PlanResult> rows = {row("a", 4096, 1, Verdict::does_not_fit),
                                                row("a", 1024, 1),
                                                row("a", 2048, 1),
                                                row("b", 1024, 1),
                                                row("b", 4096, 1),
                                                row("c", 1024, 1, Verdict::does_not_fit),
                                                row("c", 4096, 1, Verdict::does_not_fit)};
  const auto walls = find_memory_walls(rows);
  REQUIRE(walls.size() == 2);
  CHECK(walls[0].plan == "a");
  REQUIRE(walls[0].last_that_fits.has_value());
  CHECK(walls[0].last_that_fits->text == "2048");
  CHECK(walls[0].first_that_does_not->text == "4096");
  CHECK(walls[1].plan == "c");
  CHECK_FALSE(walls[1].last_that_fits.has_value());
  CHECK(walls[1].first_that_does_not->text == "1024");
}

}  // namespace
}  // namespace trireme::study
