#include "sim/study/event_limits.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/core/error.h"
#include "sim/engine/event/event.h"
#include "sim/study/what_if.h"

namespace trireme::study {

namespace {

/// What no sum or product of counts passes.
constexpr std::int64_t kCountless = std::int64_t{1} << 62;

std::int64_t times(std::int64_t a, std::int64_t b) {
  return b > 0 && a > kCountless / b ? kCountless : a * b;
}

std::int64_t unrolled_operations(const program::Program& program) {
  std::int64_t operations = 0;
  program::for_each_op(program, [&](program::OpId, const program::Op& op, std::int64_t count) {
    if (op.function != program::Function::keep) {
      operations = std::min(kCountless, operations + std::min(kCountless, count));
    }
  });
  return operations;
}

/// Where the study asks for as many micro batches: "study.yaml:3:20: global_batch 1048576".
std::string batch_of(const config::StudySpec& study) {
  const auto& batch = study.workload.global_batch;
  return batch ? fmt::format("{}: global_batch {}", to_text(batch->where), batch->value)
               : fmt::format("{}: the workload", study.file);
}

}  // namespace

std::string too_large(std::span<const program::Program> stages,
                      const engine::Machine& machine,
                      const config::StudySpec& study,
                      EventUse use) {
  std::int64_t operations = 0;  // of the stage that has most
  for (const program::Program& stage : stages) {
    operations = std::max(operations, unrolled_operations(stage));
  }
  if (operations > kMostUnrolled) {
    return fmt::format(
        "{} gives each rank {} operations in a step, of which the event engine unrolls {} at most: "
        "ask the analytic engine, or for fewer micro batches",
        batch_of(study),
        operations,
        kMostUnrolled);
  }
  const engine::EventOptions options = event_options(study.what_if);
  const auto ranks =
      static_cast<std::int64_t>(engine::classes_of(stages, machine, options).first_rank.size());
  const std::int64_t executions = times(operations, ranks);
  const std::int64_t runs = study.what_if.jitter ? study.what_if.jitter->runs : 1;
  if (times(executions, runs) > kMostExecutions) {
    return fmt::format(
        "{}: {} runs of {} operations on {} ranks that differ are more than the {} executions that "
        "the event engine simulates: ask for fewer runs, or less that differs",
        study.file,
        runs,
        operations,
        ranks,
        kMostExecutions);
  }
  if (use == EventUse::critical_path && executions > kMostOnPath) {
    return fmt::format(
        "no critical path: {} operations on {} ranks that differ are more than the {} that one is "
        "looked for among",
        operations,
        ranks,
        kMostOnPath);
  }
  if (use == EventUse::timeline && executions > kMostSlices) {
    return fmt::format(
        "{} gives {} operations on {} ranks that differ, and a timeline holds {} slices at most: "
        "ask for fewer micro batches",
        batch_of(study),
        operations,
        ranks,
        kMostSlices);
  }
  return {};
}

}  // namespace trireme::study
