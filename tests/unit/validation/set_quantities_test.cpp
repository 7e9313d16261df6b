// What is asked of a set of runs: mean and median error, order of pairs, regret of the best pick.
#include <string>
#include <vector>

#include "sim/validation/quantities.h"
#include "tests/catch.h"

namespace trireme::validation {
namespace {

ledger::ValidationRow run(double measured, double predicted, const std::string& group) {
  ledger::ValidationRow row;
  row.stated.dimension = ledger::Dimension::seconds;
  row.stated.expected.value = measured;
  row.stated.group = group;
  row.predicted = predicted;
  row.slower_than_predicted = measured / predicted;
  return row;
}

double asked(const std::string& name, const std::vector<ledger::ValidationRow>& rows) {
  std::vector<const ledger::ValidationRow*> runs;
  for (const ledger::ValidationRow& row : rows) {
    runs.push_back(&row);
  }
  for (const Quantity& quantity : quantity_table()) {
    if (quantity.name == name) {
      REQUIRE(quantity.of_set != nullptr);
      const auto value = quantity.of_set(runs);
      REQUIRE(value.has_value());
      return *value;
    }
  }
  FAIL("no such quantity");
  return 0;
}

TEST_CASE("errors of a set are those of predicted over measured seconds", "[validation]") {
  // +10 %, -20 %, 0
  const std::vector<ledger::ValidationRow> rows = {run(1, 1.1, ""), run(1, 0.8, ""), run(2, 2, "")};
  CHECK(asked("mean_error", rows) == Approx(0.1));    // (0.1 + 0.2 + 0) / 3
  CHECK(asked("median_error", rows) == Approx(0.1));  // of 0, 0.1, 0.2
}

TEST_CASE("pairs and picks are those of a group", "[validation]") {
  // group g: measured 1 < 2 < 3, predicted 2 < 1.5 is wrong for the first two: 2 of 3 pairs
  const std::vector<ledger::ValidationRow> rows = {
      run(1, 2, "g"), run(2, 1.5, "g"), run(3, 3, "g"), run(9, 1, "h")};
  CHECK(asked("ordered_pairs", rows) == Approx(2.0 / 3));
  // the pick, predicted 1.5, takes 2 where the best takes 1; a group of one has no choice
  CHECK(asked("pick_regret", rows) == Approx(1.0));
}

ledger::ValidationRow outcome(double measured, double called) {
  ledger::ValidationRow row;
  row.stated.quantity = "memory_verdict";
  row.stated.expected.value = measured;
  row.predicted = called;
  return row;
}

TEST_CASE("failed runs are counted apart from those that a rule refuses", "[validation]") {
  // Four failed: one refused, two foreseen (tight, too large), one missed. Three worked.
  const std::vector<ledger::ValidationRow> rows = {outcome(3, 0),
                                                   outcome(3, 2),
                                                   outcome(3, 3),
                                                   outcome(3, 1),
                                                   outcome(1, 1),
                                                   outcome(1, 2),
                                                   outcome(1, 3)};
  CHECK(asked("failures_foreseen", rows) == Approx(2.0 / 3));
  CHECK(asked("failures_refused", rows) == Approx(1.0 / 4));
  CHECK(asked("false_alarms", rows) == Approx(1.0 / 3));
  CHECK(asked("successes_refused", rows) == 0);
}

}  // namespace
}  // namespace trireme::validation
