// Stages of a plan, and the table of schedules.
#include "sim/plan/schedule.h"

#include <algorithm>
#include <array>

#include "sim/core/error.h"

namespace trireme::plan {

Stage stage_of(const Plan& plan, std::int64_t number) {
  Stage stage;
  stage.number = number;
  stage.stages = plan.pipeline_degree;
  stage.last = (plan.working_stages > 0 ? plan.working_stages : plan.pipeline_degree) - 1;
  std::int64_t before = 0;  // layers of the model
  for (std::int64_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    const std::int64_t layers = plan.layers_of_chunk(chunk);
    if (chunk % stage.stages == number) {
      stage.chunks.push_back({chunk, stage.layers(), layers});
      for (std::int64_t layer = 0; layer < layers; ++layer) {
        stage.layers_of_model.push_back(before + layer);
      }
    }
    before += layers;
  }
  ensure(before == plan.model.layers, "schedule: the chunks do not make up the model");
  return stage;
}

std::span<const ScheduleInfo> schedule_table() {
  static const std::array kRows = {
      kScheduleAccumulate, kScheduleOneForwardOneBackward, kScheduleInterleaved};
  return kRows;
}

std::vector<Round> schedule_of(const Plan& plan, const Stage& stage) {
  return schedule_table()[static_cast<std::size_t>(plan.schedule)].rounds(plan, stage);
}

std::vector<Round> with_ends_apart(std::vector<Round> rounds,
                                   std::int64_t micro_batches,
                                   const SpecialPasses& special) {
  std::vector<Round> apart;
  for (Round& round : rounds) {
    std::int64_t front = 0;
    std::int64_t back = 0;
    for (const Pass& pass : round.passes) {
      const std::int64_t begins_at = round.first + pass.micro_batch;
      const std::int64_t ends_at = begins_at + round.step * (round.count - 1);
      const bool first = pass.forward ? special.first_forward : special.first_backward;
      front = first && begins_at == 0 ? 1 : front;
      back = special.last_backward && !pass.forward && ends_at == micro_batches - 1 ? 1 : back;
    }
    back = std::min(back, round.count - front);
    const auto add = [&](std::int64_t from, std::int64_t count) {
      if (count > 0) {
        apart.push_back({round.first + from * round.step, round.step, count, round.passes});
      }
    };
    add(0, front);
    add(front, round.count - front - back);
    add(round.count - back, back);
  }
  return apart;
}

}  // namespace trireme::plan
