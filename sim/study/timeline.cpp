#include "sim/study/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/event/critical_path.h"
#include "sim/engine/event/event.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/sizes.h"
#include "sim/engine/time_booking.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/evaluate.h"

namespace trireme::study {

namespace {

using engine::Schedule;
using engine::Task;
using engine::TaskId;

std::string stream_name(const Schedule& schedule, engine::StreamSlot slot) {
  const program::Stream stream = schedule.stream(slot);
  if (stream == program::kComputeStream) {
    return "compute";
  }
  if (stream == program::kHostCopyStream) {
    return "host copies";
  }
  const program::Mesh& mesh = schedule.program().mesh();
  std::string group;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if ((program::group_of_stream(stream) & program::axis_bit(axis)) != 0 && mesh.size(axis) > 1) {
      group += fmt::format("{}{}", group.empty() ? "" : " x ", mesh.axis(axis).name);
    }
  }
  return (program::is_weights_stream(stream) ? "weights, communicator " : "communicator ") + group;
}

std::string where(const program::Program& program, const Task& task) {
  std::string text;
  for (std::size_t i = 0; i < program::kIndexCount; ++i) {
    if (program.extent(static_cast<program::Index>(i)) > 1) {
      text += fmt::format(
          "{}{} {}", text.empty() ? "" : ", ", program::kIndexNames[i], task.indices[i]);
    }
  }
  return text;
}

/// The terms of the critical path for which the step is simulated again.
constexpr std::size_t kTermsTried = 5;

ledger::TimelineSlice slice_of(const Schedule& schedule,
                               const engine::TaskRecord& record,
                               Bytes allocated) {
  const Task& task = schedule.task(record.task);
  const program::Op& op = schedule.program().op(task.op);
  ledger::TimelineSlice slice;
  slice.rank = record.rank;
  slice.stream = task.slot;
  slice.operation = op.label;
  slice.function = op.function == program::Function::collective ? name(op.collective)
                                                                : program::info(op.function).name;
  slice.work = engine::work_of(op);
  slice.phase = op.phase;
  slice.component = op.component;
  slice.where = where(schedule.program(), task);
  if (op.component == Component::attention || op.component == Component::mlp ||
      op.component == Component::norm) {
    slice.layer = task.indices[static_cast<std::size_t>(program::Index::layer)];
  }
  slice.start = record.start;
  slice.end = record.end;
  slice.allocated = allocated;
  return slice;
}

}  // namespace

ledger::Timeline timeline(const config::StudySpec& study, const config::PlanSpec& spec) {
  ledger::Timeline timeline;
  timeline.study = study.name;
  timeline.plan = spec.name;
  timeline.sequence = study.workload.sequence.value;
  const plan::Resolution resolution = plan::resolve(study, spec);
  if (!resolution.feasibility.legal()) {
    timeline.reason = resolution.feasibility.refusals.front().message;
    return timeline;
  }
  const program::Program program = plan::lower(resolution.plan);
  const engine::Machine machine = machine_of(study.cluster);
  const Schedule schedule(program);
  const std::vector<Bytes> allocated = engine::memory_of_tasks(program);

  timeline.ranks = resolution.plan.ranks();
  timeline.layers = program.extent(program::Index::layer);
  for (engine::StreamSlot slot = 0; slot < schedule.slots(); ++slot) {
    timeline.streams.push_back(stream_name(schedule, slot));
  }
  std::vector<engine::TaskRecord> records;
  const auto result = engine::simulate(
      schedule, machine, {}, [&](const engine::TaskRecord& record) { records.push_back(record); });
  if (!result) {
    timeline.reason = engine::unknown_kernel(program, machine);
    return timeline;
  }
  timeline.step = result->time.step;
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  std::map<std::pair<std::int64_t, TaskId>, std::size_t> place;
  for (const engine::TaskRecord& record : records) {
    place[{record.rank, record.task}] = timeline.slices.size();
    timeline.slices.push_back(slice_of(schedule, record, allocated[record.task]));
    if (std::find(timeline.drawn.begin(), timeline.drawn.end(), record.rank) ==
        timeline.drawn.end()) {
      timeline.drawn.push_back(record.rank);
    }
  }
  std::sort(timeline.drawn.begin(), timeline.drawn.end());
  const auto on_path = [&](const engine::TaskRecord& record) {
    timeline.slices[place.at({record.rank, record.task})].critical = true;
  };
  timeline.critical_path = *engine::critical_path(schedule, machine, {}, kTermsTried, on_path);
  for (const engine::TaskRecord& record : records) {
    for (const engine::Wait& wait : schedule.waits(schedule.task(record.task))) {
      const TaskId waited_for = schedule.tasks_of(wait.slot)[wait.ordinal];
      timeline.waits.push_back(
          {place.at({record.rank, waited_for}), place.at({record.rank, record.task})});
    }
  }
  return timeline;
}

}  // namespace trireme::study
