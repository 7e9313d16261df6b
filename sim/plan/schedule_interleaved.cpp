// Interleaved 1F1B: a stage has several chunks of layers, and micro batches pass all stages once
// for each.
#include <algorithm>

#include "sim/plan/schedule.h"

namespace trireme::plan {

namespace {

/// The passes of a stage forward, or backward, in order: micro batches in groups of one for each
/// stage, which go through the first chunk, then the next, ...; backward from the last chunk.
Pass nth_pass(const Stage& stage, bool forward, std::int64_t n) {
  const auto chunks = static_cast<std::int64_t>(stage.chunks.size());
  const std::int64_t of_group = n % (stage.stages * chunks);
  const std::int64_t chunk = of_group / stage.stages;
  return {forward,
          static_cast<std::size_t>(forward ? chunk : chunks - 1 - chunk),
          n / (stage.stages * chunks) * stage.stages + of_group % stage.stages};
}

/// EQ pipeline-interleaved: w = min(2 (p - 1 - i) + (v - 1) p, m v); passes of stage i: w forward;
///   m v - w times one forward and one backward; w backward
///   p  stages                                                     [1]
///   i  the stage, from 0                                          [1]
///   v  chunks of a stage                                          [1]
///   m  micro batches, a multiple of p                             [1]
///   w  passes forward before the first backward                   [1]
/// Source: narayanan2021, section 2.2.2; megatron-lm,
///   megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches and get_schedule_table
/// Valid:  groups of p micro batches, as Megatron forms them by default
/// Tests:  tests/unit/plan/schedule_test.cpp, tests/unit/plan/pipeline_test.cpp
std::vector<Round> rounds(const Plan& plan, const Stage& stage) {
  const std::int64_t period = stage.stages * static_cast<std::int64_t>(stage.chunks.size());
  const std::int64_t all = plan.micro_batches * static_cast<std::int64_t>(stage.chunks.size());
  const std::int64_t ahead =
      std::min(2 * (stage.stages - 1 - stage.number) + period - stage.stages, all);
  std::vector<Round> rounds;
  for (std::int64_t n = 0; n < ahead; ++n) {
    rounds.push_back({0, 1, 1, {nth_pass(stage, true, n)}});
  }
  const std::int64_t periods = (all - ahead) / period;
  const auto add_pairs = [&](std::int64_t from, std::int64_t to, std::int64_t times) {
    Round round{0, stage.stages, times, {}};
    for (std::int64_t n = from; n < to; ++n) {
      round.passes.push_back(nth_pass(stage, true, n + ahead));
      round.passes.push_back(nth_pass(stage, false, n));
    }
    if (!round.passes.empty() && times > 0) {
      rounds.push_back(std::move(round));
    }
  };
  add_pairs(0, period, periods);
  add_pairs(periods * period, all - ahead, 1);
  for (std::int64_t n = all - ahead; n < all; ++n) {
    rounds.push_back({0, 1, 1, {nth_pass(stage, false, n)}});
  }
  return rounds;
}

}  // namespace

const ScheduleInfo kScheduleInterleaved = {
    PipelineSchedule::interleaved,
    "interleaved",
    "pipeline of 1f1b over several chunks of layers on each stage: a smaller bubble, more messages",
    "narayanan2021",
    rounds};

}  // namespace trireme::plan
