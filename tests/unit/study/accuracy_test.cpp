#include "sim/study/accuracy.h"

#include <string>
#include <vector>

#include "tests/catch.h"

namespace trireme::study {
namespace {

ledger::PlanResult timed(const std::string& plan, double seconds, const std::string& sequence) {
  ledger::PlanResult row;
  row.plan = plan;
  row.point = {{"workload.sequence", sequence, std::int64_t{1}}};
  row.numbers.emplace();
  row.numbers->step.emplace();
  row.numbers->step->time.step = Seconds(seconds);
  row.band = ledger::AccuracyBand{"on one node", 40, 0.9, 1.1, 0.05};
  return row;
}

TEST_CASE("plans within the median error of the fastest are too close to call", "[study]") {
  const std::vector<ledger::PlanResult> rows = {
      timed("slow", 1.2, "64K"), timed("fast", 1.0, "64K"), timed("near", 1.04, "64K")};
  const auto close = too_close_to_call(rows);
  REQUIRE(close.size() == 1);
  CHECK(close[0].fastest == "fast");
  CHECK(close[0].plan == "near");
  CHECK(close[0].difference == Approx(0.04));
  CHECK(close[0].point == "workload.sequence 64K");
}

TEST_CASE("points are compared apart, and so are plans without a band", "[study]") {
  std::vector<ledger::PlanResult> rows = {timed("a", 1.0, "64K"), timed("b", 1.0, "128K")};
  CHECK(too_close_to_call(rows).empty());
  rows[1].point = rows[0].point;
  CHECK(too_close_to_call(rows).size() == 1);  // equal steps: one sentence, not two
  rows[1].band.reset();
  CHECK(too_close_to_call(rows).empty());
}

}  // namespace
}  // namespace trireme::study
