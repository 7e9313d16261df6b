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
  CHECK(failed[0].fits == true);
  CHECK(failed[0].verdict == ledger::Verdict::does_not_fit);
  requirement.fits = false;
  CHECK(check(requirement, row(ledger::Verdict::illegal, 0)).empty());
  CHECK(check(requirement, row(ledger::Verdict::fits, 0)).size() == 1);
}

TEST_CASE("an upper bound on exposed communication is strict", "[unit]") {
  config::RequireSpec requirement;
  requirement.plan = "p";
  requirement.exposed_communication_below = 0.2;
  CHECK(check(requirement, row(ledger::Verdict::fits, 0.19)).empty());
  const auto at_the_bound = check(requirement, row(ledger::Verdict::fits, 0.2));
  REQUIRE(at_the_bound.size() == 1);
  CHECK(at_the_bound[0].exposed_fraction == 0.2);
  CHECK(at_the_bound[0].exposed_below == 0.2);
  CHECK_FALSE(at_the_bound[0].fits.has_value());
  ledger::PlanResult unknown = row(ledger::Verdict::fits, 0);
  unknown.numbers->step.reset();
  const auto failed = check(requirement, unknown);
  REQUIRE(failed.size() == 1);
  CHECK_FALSE(failed[0].exposed_fraction.has_value());
}

TEST_CASE("a plan may fail both of what is required of it", "[unit]") {
  config::RequireSpec requirement;
  requirement.plan = "p";
  requirement.fits = true;
  requirement.exposed_communication_below = 0.1;
  const auto failed = check(requirement, row(ledger::Verdict::does_not_fit, 0.3));
  REQUIRE(failed.size() == 2);
  CHECK(failed[0].fits == true);
  CHECK_FALSE(failed[1].fits.has_value());
  CHECK(failed[1].exposed_fraction == 0.3);
}

TEST_CASE("requirements on other plans are not asked", "[unit]") {
  config::RequireSpec requirement;
  requirement.plan = "q";
  requirement.fits = true;
  CHECK(check(requirement, row(ledger::Verdict::does_not_fit, 0)).empty());
}

}  // namespace
}  // namespace trireme::study
