#include "sim/study/event_limits.h"

#include <string>

#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/evaluate.h"
#include "sim/study/timeline.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

config::StudySpec study_with(std::string_view batch, const std::string& more = "") {
  return test::study_of(
             "version: 1\nmodel: {use: ulysses-study-8-layer, layers: 2}\n"
             "cluster: h100-8x-nvlink\nworkload: {sequence: 8K, global_batch: " +
             std::string(batch) + "}\nplans: [{name: u, use: ulysses-zero3}]\n" + more)
      .base();
}

std::string refused(const config::StudySpec& study, EventUse use) {
  const plan::Resolution resolution = plan::resolve(study, study.plans.front());
  REQUIRE(resolution.feasibility.legal());
  return too_large(plan::lower_stages(resolution.plan), machine_of(study.cluster), study, use);
}

TEST_CASE("event limits: more operations than are unrolled are refused where they are asked for",
          "[unit]") {
  const config::StudySpec study = study_with("1048576");
  const std::string said = refused(study, EventUse::seconds);
  CHECK(said.starts_with("study.yaml:4:40: global_batch 1048576 gives each rank "));
  CHECK(said.find("unrolls 8388608 at most") != std::string::npos);
  CHECK(refused(study_with("16"), EventUse::timeline).empty());
  // The row stands, with the analytic seconds where they are asked for.
  const ledger::PlanResult both = evaluate(study, study.plans.front(), ledger::Engine::both);
  REQUIRE(both.numbers.has_value());
  CHECK_FALSE(both.numbers->by_reader.event.has_value());
  CHECK(both.numbers->by_reader.analytic.has_value());
  CHECK(both.reasons.back() == said);
  CHECK(timeline(study, study.plans.front()).reason == said);
}

TEST_CASE("event limits: a timeline holds fewer slices than a step has operations", "[unit]") {
  const config::StudySpec study = study_with("16384");
  CHECK(refused(study, EventUse::seconds).empty());
  CHECK(refused(study, EventUse::critical_path).empty());
  CHECK(refused(study, EventUse::timeline).find("holds 1048576 slices at most") !=
        std::string::npos);
}

TEST_CASE("event limits: runs of a jitter count, and every rank differs in them", "[unit]") {
  const auto jitter = [](int runs) {
    return "what_if: {jitter: {relative: 0.1, runs: " + std::to_string(runs) + "}}\n";
  };
  CHECK(refused(study_with("512", jitter(10)), EventUse::seconds).empty());
  const std::string said = refused(study_with("65536", jitter(10'000)), EventUse::seconds);
  CHECK(said.find("10000 runs of ") != std::string::npos);
  CHECK(said.find(" on 8 ranks that differ") != std::string::npos);
}

}  // namespace
}  // namespace trireme::study
