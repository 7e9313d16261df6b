#include "sim/study/max_sequence.h"

#include <algorithm>
#include <string>

#include "sim/study/device_memory.h"
#include "sim/study/levers.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

using ledger::LongestSequence;
using ledger::Verdict;

config::StudySpec study_of_plans(const std::string& plans, const std::string& options = "") {
  return test::study_of(
             "version: 1\n"
             "model: llama-3.1-8b\n"
             "cluster: h100-8x-nvlink\n"
             "workload: {sequence: 8K}\n" +
             options + "plans:\n" + plans)
      .base();
}

Verdict verdict_at(config::StudySpec study, Tokens sequence) {
  study.workload.sequence.value = sequence;
  const auto memory = plan_memory(study, study.plans.front());
  return memory ? memory->verdict : Verdict::illegal;
}

TEST_CASE("the next step behind the longest length does not fit", "[unit]") {
  for (const char* const plan : {"  - {name: u, ulysses: 8, zero: {stage: 3}}\n",
                                 "  - {name: m, tensor_parallel: 8, framework: megatron}\n",
                                 "  - {name: g, sequence_gather: 4, zero: {stage: 3}}\n"}) {
    CAPTURE(plan);
    const config::StudySpec study = study_of_plans(plan, "defaults: {recompute: full}\n");
    const LongestSequence row = longest_sequences(study).rows.front();
    REQUIRE(row.fits.has_value());
    CHECK(verdict_at(study, *row.fits) == Verdict::fits);
    const Tokens next = *row.fits + row.step;
    CHECK(verdict_at(study, next) == Verdict::tight);
    CHECK(row.beyond == next);
    REQUIRE(row.tight.has_value());
    CHECK(verdict_at(study, *row.tight) == Verdict::tight);
    CHECK(verdict_at(study, *row.tight + row.step) == Verdict::does_not_fit);
    CHECK(row.memory.allocated > Bytes(0));
    CHECK(row.refusals.empty());
  }
}

TEST_CASE("lengths go in the steps that the rules allow", "[unit]") {
  const auto step_of = [](const std::string& options) {
    return longest_sequences(study_of_plans("  - {name: p, " + options + "}\n")).rows.front().step;
  };
  CHECK(step_of("zero: {stage: 3}") == Tokens(1));
  CHECK(step_of("tensor_parallel: 8") == Tokens(8));
  // Megatron's a2a: S % (2 cp).
  CHECK(step_of("ulysses: 8, framework: megatron") == Tokens(16));
}

TEST_CASE("what is legal at no length says why", "[unit]") {
  const auto found = longest_sequences(study_of_plans("  - {name: p, ulysses: 5}\n"));
  CHECK_FALSE(found.any_fits());
  CHECK(found.rows.front().step == Tokens(0));
  CHECK_FALSE(found.rows.front().refusals.empty());
}

TEST_CASE("a model that fits at no length has no longest one", "[unit]") {
  const config::StudySpec study = test::study_of(
                                      "version: 1\nmodel: llama-3.1-405b\n"
                                      "cluster: h100-8x-nvlink\nworkload: {sequence: 8K}\n"
                                      "plans: [{name: p, tensor_parallel: 8}]\n")
                                      .base();
  const LongestSequence row = longest_sequences(study).rows.front();
  CHECK_FALSE(row.fits.has_value());
  CHECK_FALSE(row.tight.has_value());
  CHECK(row.beyond == row.step);
}

TEST_CASE("a lever buys what its plan fits", "[unit]") {
  const config::StudySpec study = study_of_plans(
      "  - {name: u, ulysses: 8, zero: {stage: 3}, loss: {implementation: eager}}\n");
  const LongestSequence row = longest_sequences(study).rows.front();
  REQUIRE(row.levers.size() >= 2);
  for (const ledger::LongerBy& lever : row.levers) {
    CAPTURE(lever.change);
    CHECK(lever.fits > row.fits);
    CHECK(lever.fits <= row.levers.front().fits);
  }
  const auto full = std::find_if(row.levers.begin(), row.levers.end(), [](const auto& lever) {
    return lever.change == "recompute: full";
  });
  REQUIRE(full != row.levers.end());
  const config::StudySpec recomputed =
      study_of_plans("  - {name: u, ulysses: 8, zero: {stage: 3}, loss: {implementation: eager}}\n",
                     "defaults: {recompute: full}\n");
  CHECK(longest_sequences(recomputed).rows.front().fits == full->fits);
}

}  // namespace
}  // namespace trireme::study
