// Schedules: which micro batch goes through which chunk when.
#include "sim/plan/schedule.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace trireme::plan {
namespace {

Plan pipeline(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches) {
  Plan plan;
  plan.pipeline_degree = stages;
  plan.virtual_stages = chunks;
  plan.micro_batches = micro_batches;
  plan.schedule =
      chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_forward_one_backward;
  plan.model.layers = stages * chunks;
  return plan;
}

/// "F0.1": micro batch 0 forward through the stage's chunk 1.
std::vector<std::string> passes_of(const Plan& plan, std::int64_t stage) {
  std::vector<std::string> passes;
  for (const Round& round : schedule_of(plan, stage_of(plan, stage))) {
    for (std::int64_t i = 0; i < round.count; ++i) {
      for (const Pass& pass : round.passes) {
        passes.push_back((pass.forward ? "F" : "B") +
                         std::to_string(round.first + i * round.step + pass.micro_batch) + "." +
                         std::to_string(pass.chunk));
      }
    }
  }
  return passes;
}

using Passes = std::vector<std::string>;

}  // namespace

TEST_CASE("1f1b of four stages", "[plan][schedule]") {
  const Plan plan = pipeline(4, 1, 5);
  CHECK(passes_of(plan, 0) ==
        Passes{"F0.0", "F1.0", "F2.0", "F3.0", "B0.0", "F4.0", "B1.0", "B2.0", "B3.0", "B4.0"});
  CHECK(passes_of(plan, 2) ==
        Passes{"F0.0", "F1.0", "B0.0", "F2.0", "B1.0", "F3.0", "B2.0", "F4.0", "B3.0", "B4.0"});
  CHECK(passes_of(plan, 3) ==
        Passes{"F0.0", "B0.0", "F1.0", "B1.0", "F2.0", "B2.0", "F3.0", "B3.0", "F4.0", "B4.0"});
}

TEST_CASE("fewer micro batches than stages leave nothing to interleave", "[plan][schedule]") {
  CHECK(passes_of(pipeline(4, 1, 2), 0) == Passes{"F0.0", "F1.0", "B0.0", "B1.0"});
  CHECK(passes_of(pipeline(4, 1, 2), 2) == Passes{"F0.0", "F1.0", "B0.0", "B1.0"});
}

// Two stages with two chunks, four micro batches: warm-up of 2 (p - 1 - i) + p passes.
TEST_CASE("interleaved 1f1b of two stages with two chunks", "[plan][schedule]") {
  const Plan plan = pipeline(2, 2, 4);
  CHECK(passes_of(plan, 0) == Passes{"F0.0",
                                     "F1.0",
                                     "F0.1",
                                     "F1.1",
                                     "F2.0",
                                     "B0.1",
                                     "F3.0",
                                     "B1.1",
                                     "F2.1",
                                     "B0.0",
                                     "F3.1",
                                     "B1.0",
                                     "B2.1",
                                     "B3.1",
                                     "B2.0",
                                     "B3.0"});
  CHECK(passes_of(plan, 1) == Passes{"F0.0",
                                     "F1.0",
                                     "F0.1",
                                     "B0.1",
                                     "F1.1",
                                     "B1.1",
                                     "F2.0",
                                     "B0.0",
                                     "F3.0",
                                     "B1.0",
                                     "F2.1",
                                     "B2.1",
                                     "F3.1",
                                     "B3.1",
                                     "B2.0",
                                     "B3.0"});
}

TEST_CASE("every micro batch goes once each way through every chunk", "[plan][schedule]") {
  const std::int64_t stages = GENERATE(1, 2, 3, 4, 8);
  const std::int64_t chunks = GENERATE(1, 2, 3);
  const std::int64_t groups = GENERATE(1, 2, 3, 7);
  Plan plan = pipeline(stages, chunks, stages * groups);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    CAPTURE(stages, chunks, groups, stage);
    const Passes passes = passes_of(plan, stage);
    std::map<std::string, std::size_t> place;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      CHECK(place.try_emplace(passes[i], i).second);
    }
    REQUIRE(place.size() == static_cast<std::size_t>(2 * stages * groups * chunks));
    for (const auto& [pass, at] : place) {
      if (pass.front() == 'B') {
        CHECK(place.at("F" + pass.substr(1)) < at);
      }
    }
  }
}

TEST_CASE("the ends of a schedule apart are the same passes", "[plan][schedule]") {
  const Plan plan = pipeline(3, 1, 7);
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    const std::vector<Round> whole = schedule_of(plan, stage_of(plan, stage));
    const std::vector<Round> apart = with_ends_apart(
        whole, 7, {.first_forward = true, .first_backward = false, .last_backward = true});
    const auto passes = [](const std::vector<Round>& rounds) {
      std::int64_t count = 0;
      for (const Round& round : rounds) {
        count += round.count * static_cast<std::int64_t>(round.passes.size());
      }
      return count;
    };
    CHECK(passes(apart) == passes(whole));
    for (const Round& round : apart) {
      for (const Pass& pass : round.passes) {
        const std::int64_t first = round.first + pass.micro_batch;
        const std::int64_t last = first + round.step * (round.count - 1);
        CHECK((!pass.forward || first != 0 || round.count == 1));
        CHECK((pass.forward || last != 6 || round.count == 1));
      }
    }
  }
}

TEST_CASE("a stage has every p-th chunk of the model", "[plan][schedule]") {
  Plan plan = pipeline(2, 2, 2);
  plan.chunk_layers = {1, 3, 2, 1};
  plan.model.layers = 7;
  const Stage first = stage_of(plan, 0);
  const Stage last = stage_of(plan, 1);
  CHECK(first.layers_of_model == std::vector<std::int64_t>{0, 4, 5});
  CHECK(last.layers_of_model == std::vector<std::int64_t>{1, 2, 3, 6});
  CHECK(first.chunks[1].first_layer == 1);
  CHECK(last.chunks[1].first_layer == 3);
}

}  // namespace trireme::plan
