// Gradient accumulation: each micro batch forward and backward before the next.
#include "sim/plan/schedule.h"

namespace trireme::plan {

namespace {

std::vector<Round> rounds(const Plan& plan, const Stage&) {
  return {{0, 1, plan.micro_batches, {{true, 0, 0}, {false, 0, 0}}}};
}

}  // namespace

const ScheduleInfo kScheduleAccumulate = {PipelineSchedule::none,
                                          "accumulate",
                                          "each micro batch forward and backward before the next",
                                          "li2020-ddp",
                                          rounds};

}  // namespace trireme::plan
