// One forward, one backward: a stage keeps as many micro batches in flight as stages follow it.
#include <algorithm>

#include "sim/plan/schedule.h"

namespace trireme::plan {

namespace {

/// EQ pipeline-1f1b: w = min(p - 1 - i, m); passes of stage i: w forward; m - w times one forward
///   and one backward, w micro batches apart; w backward
///   p  stages                                                     [1]
///   i  the stage, from 0                                          [1]
///   m  micro batches                                              [1]
///   w  micro batches that go forward before the first goes back   [1]
/// Source: narayanan2021, section 2.2.1; megatron-lm,
///   megatron/core/pipeline_parallel/schedules.py,
///   forward_backward_pipelining_without_interleaving
/// Valid:  every stage holds at most min(p - i, m) micro batches
/// Tests:  tests/unit/plan/schedule_test.cpp, tests/unit/plan/pipeline_test.cpp
std::vector<Round> rounds(const Plan& plan, const Stage& stage) {
  const std::int64_t all = plan.micro_batches;
  const std::int64_t ahead = std::min(stage.stages - 1 - stage.number, all);
  std::vector<Round> rounds;
  const auto add = [&](Round round) {
    if (round.count > 0) {
      rounds.push_back(std::move(round));
    }
  };
  add({0, 1, ahead, {{true, 0, 0}}});
  add({0, 1, all - ahead, {{true, 0, ahead}, {false, 0, 0}}});
  add({all - ahead, 1, ahead, {{false, 0, 0}}});
  return rounds;
}

}  // namespace

const ScheduleInfo kScheduleOneForwardOneBackward = {
    PipelineSchedule::one_forward_one_backward,
    "1f1b",
    "pipeline: one micro batch forward, one backward, once the stages behind are filled",
    "narayanan2021",
    rounds};

}  // namespace trireme::plan
