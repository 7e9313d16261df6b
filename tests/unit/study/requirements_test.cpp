#include "sim/study/requirements.h"

#include "tests/catch.h"

namespace trireme::study {
namespace {

ledger::PlanResult row(ledger::Verdict verdict, double exposed_fraction) {
  ledger::PlanResult result;
  result.plan = std::string("p");
  result.verdict = verdict;
  result.numbers.emplace();
  result.numbers->step.emplace();
  result.numbers->step->exposed_fraction = exposed_fraction;
  return result;
}

std::vector<ledger::FailedRequirement> check(const config::RequireSpec& requirement,
                                             const ledger::PlanResult& result) {
  std::vector<ledger::FailedRequirement> failed;
  check_requirements({&requirement, 1}, {&result, 1}, failed);
  return failed;
}

TEST_CASE("a plan that must fit", "[unit]") {
  config::RequireSpec requirement;
  requirement.plan = "p";
  requirement.fits = true;
  CHECK(check(requirement, row(ledger::Verdict::fits, 0)).empty());
  const auto failed = check(requirement, row(ledger::Verdict::does_not_fit, 0));
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].message == "requires fits: true, but it does not fit");
  requirement.fits = false;
  CHECK(check(requirement, row(ledger::Verdict::illegal, 0)).empty());
  CHECK(check(requirement, row(ledger::Verdict::fits, 0)).size() == 1);
}

TEST_CASE("an upper bound on exposed communication is strict", "[unit]") {
  config::RequireSpec requirement;
  requirement.plan = "p";
  requirement.exposed_communication_below = 0.2;
  CHECK(check(requirement, row(ledger::Verdict::fits, 0.19)).empty());
  CHECK(check(requirement, row(ledger::Verdict::fits, 0.2)).size() == 1);
  ledger::PlanResult unknown = row(ledger::Verdict::fits, 0);
  unknown.numbers->step.reset();
  const auto failed = check(requirement, unknown);
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].message == "requires exposed_communication < 20 %, but that is not known");
}

TEST_CASE("requirements on other plans are not asked", "[unit]") {
  config::RequireSpec requirement;
  requirement.plan = "q";
  requirement.fits = true;
  CHECK(check(requirement, row(ledger::Verdict::does_not_fit, 0)).empty());
}

}  // namespace
}  // namespace trireme::study
