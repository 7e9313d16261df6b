#include "sim/study/what_if.h"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/evaluate.h"
#include "sim/study/timeline.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

using ledger::Engine;

std::string study(const std::string& more, const std::string& framework = "generic") {
  return "version: 1\nmodel: {use: ulysses-study-8-layer, layers: 1}\ncluster: h100-8x-nvlink\n"
         "workload: {sequence: 8K}\nplans: [{name: m, use: megatron-sp, framework: " +
         framework + "}]\n" + more;
}

ledger::TimeLedger time_of(const std::string& text, Engine engine = Engine::event) {
  const config::StudySpec read = test::study_of(text).base();
  return evaluate(read, read.plans.front(), engine).numbers->step->time;
}

Seconds busy_with_collectives(const ledger::TimeLedger& time) {
  Seconds busy(0);
  for (const Seconds of_one : time.busy_by_collective) {
    busy += of_one;
  }
  return busy;
}

TEST_CASE("a rank of twice the seconds computes twice as long, and the others wait", "[unit]") {
  const ledger::TimeLedger before = time_of(study(""));
  const ledger::TimeLedger slow = time_of(study("what_if: {slow_ranks: [{rank: 3, factor: 2}]}\n"));
  CHECK(slow.compute_busy.value() == Approx(2 * before.compute_busy.value()).epsilon(1e-12));
  // Nothing overlaps in a generic plan: all else is as long as it was.
  CHECK((slow.step - before.step).value() == Approx(before.compute_busy.value()).epsilon(1e-9));
  const ledger::TimeLedger attention =
      time_of(study("what_if: {slow_ranks: [{rank: 3, factor: 2, component: attention}]}\n"));
  const Seconds of_attention = before.busy_by_component[ledger::index(Component::attention)];
  CHECK(attention.step > before.step);
  CHECK(attention.step - before.step <= of_attention);
}

TEST_CASE("with overlap off every collective is exposed", "[unit]") {
  for (const Engine engine : {Engine::analytic, Engine::event}) {
    const ledger::TimeLedger hidden = time_of(study("", "megatron"), engine);
    const ledger::TimeLedger shown =
        time_of(study("what_if: {overlap: off}\n", "megatron"), engine);
    CHECK(hidden.exposed_communication < busy_with_collectives(hidden));
    CHECK(shown.exposed_communication.value() ==
          Approx(busy_with_collectives(shown).value()).epsilon(1e-9));
    CHECK(shown.step > hidden.step);
  }
}

TEST_CASE("links of half the bandwidth: transfers at most twice as long", "[unit]") {
  for (const Engine engine : {Engine::analytic, Engine::event}) {
    const ledger::TimeLedger before = time_of(study(""), engine);
    const ledger::TimeLedger half = time_of(study("what_if: {bandwidth: {nvlink: 0.5}}\n"), engine);
    CHECK(half.compute_busy.value() == Approx(before.compute_busy.value()).epsilon(1e-12));
    CHECK(busy_with_collectives(half) > 1.5 * busy_with_collectives(before));
    CHECK(busy_with_collectives(half) <= 2 * busy_with_collectives(before));
  }
}

TEST_CASE("jitter: the row is the run of median length, and its quantiles are there", "[unit]") {
  const std::string text =
      study("what_if: {jitter: {relative: 0.1, between_ranks: 0.05, seed: 5, runs: 9}}\n");
  const config::StudySpec read = test::study_of(text).base();
  const ledger::StepResult step = *evaluate(read, read.plans.front(), Engine::event).numbers->step;
  REQUIRE(step.distribution.has_value());
  std::vector<Seconds> steps = step.distribution->steps;
  REQUIRE(steps.size() == 9);
  std::sort(steps.begin(), steps.end());
  CHECK(step.time.step == steps[4]);
  CHECK(step.distribution->median == steps[4]);
  CHECK(step.distribution->quantile_05 >= steps.front());
  CHECK(step.distribution->quantile_95 > step.distribution->median);
  CHECK(step.distribution->longest == steps.back());
  // The timeline is that of the same run.
  CHECK(timeline(read, read.plans.front()).step == step.time.step);
}

TEST_CASE("slow ranks and jitter are the event engine's", "[unit]") {
  const auto needed = [](const std::string& more) {
    return default_engine(test::study_of(study(more)));
  };
  CHECK(needed("") == Engine::analytic);
  CHECK(needed("what_if: {bandwidth: {nvlink: 0.5}, overlap: off}\n") == Engine::analytic);
  CHECK(needed("what_if: {jitter: {relative: 0.1}}\n") == Engine::event);
  CHECK(needed("sweep: {what_if.jitter.relative: [0, 0.1]}\n") == Engine::event);
  const config::StudySpec slow =
      test::study_of(study("what_if: {slow_ranks: [{rank: 0, factor: 2}]}\n")).base();
  const ledger::PlanResult both = evaluate(slow, slow.plans.front(), Engine::both);
  CHECK_FALSE(both.numbers->by_reader.analytic.has_value());
  CHECK(both.numbers->by_reader.event.has_value());
  CHECK(std::any_of(both.reasons.begin(), both.reasons.end(), [](const std::string& reason) {
    return reason.find("the analytic engine has no slow ranks") == 0;
  }));
}

TEST_CASE("both engines agree where one stream is active at a time", "[unit]") {
  const config::StudySpec read = test::study_of(study("")).base();
  const ledger::PlanResult both = evaluate(read, read.plans.front(), Engine::both);
  REQUIRE(both.numbers->by_reader.analytic.has_value());
  REQUIRE(both.numbers->by_reader.event.has_value());
  CHECK(both.numbers->by_reader.analytic->step.value() ==
        Approx(both.numbers->by_reader.event->step.value()).epsilon(1e-12));
  CHECK(both.numbers->step->time.step == both.numbers->by_reader.event->step);
}

TEST_CASE("what is otherwise is said", "[unit]") {
  const auto said = [](const std::string& more) {
    return sentences(test::study_of(study(more)).base().what_if);
  };
  CHECK(said("").empty());
  CHECK(said("what_if: {bandwidth: {nvlink: 1}, overlap: on}\n").empty());
  CHECK(said("what_if: {bandwidth: {nvlink: 0.5}, overlap: off}\n") ==
        std::vector<std::string>{"NVLink of 0.5 times its bandwidth", "nothing overlaps"});
  CHECK(said("what_if: {slow_ranks: [{rank: 2, factor: 1.5, component: mlp}, {rank: 3, factor: "
             "1}], jitter: {relative: 0.1, runs: 9}}\n") ==
        std::vector<std::string>{
            "mlp kernels of rank 2 take 1.5 times as long",
            "seconds of each kernel deviate by 0.1 of the mean (log_normal distribution, 9 runs "
            "from seed 0)"});
  CHECK(said("what_if: {contention: off, interference: off}\n") ==
        std::vector<std::string>{"collectives do not share links",
                                 "kernels and collectives do not slow each other"});
}

TEST_CASE("a timeline of unlike ranks has who waits for whom", "[unit]") {
  const config::StudySpec read =
      test::study_of(study("what_if: {slow_ranks: [{rank: 3, factor: 2}]}\n")).base();
  const ledger::Timeline drawn = timeline(read, read.plans.front());
  CHECK(drawn.drawn == std::vector<std::int64_t>{0, 3});
  REQUIRE_FALSE(drawn.meetings.empty());
  for (const ledger::TimelineMeeting& meeting : drawn.meetings) {
    const ledger::TimelineSlice& last = drawn.slices[meeting.last];
    const ledger::TimelineSlice& waiting = drawn.slices[meeting.waiting];
    CHECK(last.rank == 3);
    CHECK(waiting.rank == 0);
    CHECK(last.operation == waiting.operation);
    CHECK(last.start == waiting.start);
  }
  const config::StudySpec alike = test::study_of(study("")).base();
  CHECK(timeline(alike, alike.plans.front()).meetings.empty());
}

}  // namespace
}  // namespace trireme::study
