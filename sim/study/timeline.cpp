#include "sim/study/timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/event/critical_path.h"
#include "sim/engine/event/event.h"
#include "sim/engine/event/meetings.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/sizes.h"
#include "sim/engine/time_booking.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/evaluate.h"
#include "sim/study/event_limits.h"
#include "sim/study/stages.h"
#include "sim/study/what_if.h"

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
  constexpr std::array<std::pair<program::Stream, std::string_view>, 8> kOwnNames = {
      {{program::kToHostStream, "copies to the host"},
       {program::kToDeviceStream, "copies from the host"},
       {program::kHostStream, "host"},
       {program::kSendForwardStream, "pipeline, activations sent"},
       {program::kSendBackwardStream, "pipeline, gradients sent"},
       {program::kReceiveForwardStream, "pipeline, activations received"},
       {program::kReceiveBackwardStream, "pipeline, gradients received"},
       {program::kStageSumStream, "pipeline, tied gradients"}}};
  for (const auto& [named, name] : kOwnNames) {
    if (stream == named) {
      return std::string(name);
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

/// The final norm stands behind the last layer.
std::int64_t layer_in_model(const program::Program& stage, std::int64_t layer) {
  return layer < stage.extent(program::Index::layer) ? stage.layer_of_model(layer)
                                                     : stage.layer_of_model(layer - 1) + 1;
}

ledger::TimelineSlice slice_of(const Schedule& schedule,
                               const engine::TaskRecord& record,
                               Bytes allocated) {
  const Task& task = schedule.task(record.task);
  const program::Op& op = schedule.op_of(task);
  const program::Program& program = schedule.program_of(task);
  ledger::TimelineSlice slice;
  slice.rank = record.rank;
  slice.stream = task.slot;
  slice.operation = op.label;
  slice.function =
      program::communicates(op) ? name(op.collective) : program::info(op.function).name;
  slice.work = engine::work_of(op);
  slice.phase = op.phase;
  slice.component = op.component;
  slice.where = where(program, task);
  if (op.component == Component::attention || op.component == Component::mlp ||
      op.component == Component::norm) {
    slice.layer =
        layer_in_model(program, task.indices[static_cast<std::size_t>(program::Index::layer)]);
  }
  slice.start = record.start;
  slice.end = record.end;
  slice.allocated = allocated;
  return slice;
}

using Places = std::map<std::pair<std::int64_t, TaskId>, std::size_t>;

/// The task before it on a stream that it occupies.
std::optional<TaskId> before_on(const Schedule& schedule, engine::StreamSlot slot, TaskId id) {
  const auto tasks = schedule.tasks_of(slot, schedule.task(id).stage);
  const auto own = std::lower_bound(tasks.begin(), tasks.end(), id);
  return own == tasks.begin() ? std::nullopt : std::optional(*(own - 1));
}

/// What a task waits for on other streams: for tensors, and where a blocking task holds the compute
/// stream too.
std::vector<TaskId> waits_across_streams(const Schedule& schedule, TaskId id) {
  const Task& task = schedule.task(id);
  std::vector<TaskId> earlier;
  if (task.slot == engine::kComputeSlot || task.also_compute) {
    const std::optional<TaskId> before = before_on(schedule, engine::kComputeSlot, id);
    if (before && schedule.task(*before).slot != task.slot) {
      earlier.push_back(*before);
    }
  }
  for (const engine::Wait& wait : schedule.waits(task)) {
    const TaskId waited_for = schedule.tasks_of(wait.slot, task.stage)[wait.ordinal];
    if (std::find(earlier.begin(), earlier.end(), waited_for) == earlier.end()) {
      earlier.push_back(waited_for);
    }
  }
  return earlier;
}

/// When a rank had come to a task: what came before it on its stream and what it waits for is over.
Seconds arrival(const Schedule& schedule,
                const ledger::Timeline& timeline,
                const Places& place,
                const engine::TaskRecord& record) {
  Seconds arrived(0);
  const auto after = [&](TaskId earlier) {
    arrived = std::max(arrived, timeline.slices[place.at({record.rank, earlier})].end);
  };
  if (const auto before = before_on(schedule, schedule.task(record.task).slot, record.task)) {
    after(*before);
  }
  for (const TaskId earlier : waits_across_streams(schedule, record.task)) {
    after(earlier);
  }
  return arrived;
}

/// Of every collective that drawn ranks meet in, who came last and who had to wait for it.
class MeetingFinder {
 public:
  MeetingFinder(const Schedule& schedule,
                const engine::RankClasses& classes,
                const Places& place,
                ledger::Timeline& timeline)
      : schedule_(schedule),
        classes_(classes),
        meetings_(schedule, classes),
        place_(place),
        timeline_(timeline) {}

  void add(const engine::TaskRecord& record) {
    const Task& task = schedule_.task(record.task);
    const program::Op& op = schedule_.op_of(task);
    if (!program::communicates(op)) {
      return;
    }
    const std::uint32_t who = classes_.class_of_rank[static_cast<std::size_t>(record.rank)];
    if (program::crosses_stages(op)) {
      add_wait(record,
               last_of(record, meetings_.peer_at(who, schedule_.program_of(task).peer_stage(op))));
      return;
    }
    if (engine::meets_neighbours(op)) {
      const auto partners = meetings_.neighbours(who, meetings_.ring_of(task.slot, op));
      add_wait(record, last_of(record, partners));
      return;
    }
    const auto members = meetings_.members(meetings_.of(who, task.slot));
    if (who == members.front()) {  // for all of them, once
      const engine::TaskRecord last = last_of(record, members);
      for (const std::uint32_t member : members) {
        add_wait(same_task(record, member), last);
      }
    }
  }

 private:
  [[nodiscard]] engine::TaskRecord same_task(engine::TaskRecord record, std::uint32_t who) const {
    record.rank = classes_.first_rank[who];
    record.task = schedule_.counterpart(
        record.task, static_cast<std::size_t>(schedule_.program().mesh().stage_of(record.rank)));
    return record;
  }

  /// The same task of the first of `ranks` to which none came later.
  [[nodiscard]] engine::TaskRecord last_of(const engine::TaskRecord& record,
                                           std::span<const std::uint32_t> ranks) const {
    engine::TaskRecord last = record;
    Seconds latest = arrival(schedule_, timeline_, place_, record);
    for (const std::uint32_t who : ranks) {
      const engine::TaskRecord theirs = same_task(record, who);
      const Seconds came = arrival(schedule_, timeline_, place_, theirs);
      if (came > latest) {
        latest = came;
        last = theirs;
      }
    }
    return last;
  }

  void add_wait(const engine::TaskRecord& waiting, const engine::TaskRecord& last) {
    if (waiting.rank != last.rank && arrival(schedule_, timeline_, place_, waiting) <
                                         arrival(schedule_, timeline_, place_, last)) {
      timeline_.meetings.push_back(
          {place_.at({last.rank, last.task}), place_.at({waiting.rank, waiting.task})});
    }
  }

  const Schedule& schedule_;
  const engine::RankClasses& classes_;
  engine::Meetings meetings_;
  const Places& place_;
  ledger::Timeline& timeline_;
};

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
  const std::vector<program::Program> stages = plan::lower_stages(resolution.plan);
  const engine::Machine machine = machine_of(study.cluster, spec.framework);
  timeline.reason = too_large(stages, machine, study, EventUse::timeline);
  if (!timeline.reason.empty()) {
    return timeline;
  }
  const Schedule schedule(stages);
  std::vector<Bytes> allocated;  // by task: those of all stages, in order
  for (const program::Program& stage : stages) {
    const std::vector<Bytes> levels = engine::memory_of_tasks(stage);
    allocated.insert(allocated.end(), levels.begin(), levels.end());
  }

  timeline.ranks = resolution.plan.ranks();
  timeline.layers = resolution.plan.model.layers;
  for (engine::StreamSlot slot = 0; slot < schedule.slots(); ++slot) {
    timeline.streams.push_back(stream_name(schedule, slot));
  }
  const std::optional<EventStep> step = event_step(schedule, machine, study.what_if);
  if (!step) {
    timeline.reason = unknown_kernel(stages, machine);
    return timeline;
  }
  timeline.step = step->time.step;
  timeline.what_if = sentences(study.what_if);
  std::vector<engine::TaskRecord> records;
  static_cast<void>(
      engine::simulate(schedule, machine, step->options, [&](const engine::TaskRecord& record) {
        records.push_back(record);
      }));
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  Places place;
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
  timeline.critical_path =
      *engine::critical_path(schedule, machine, step->options, kTermsTried, on_path);
  for (const engine::TaskRecord& record : records) {
    for (const TaskId waited_for : waits_across_streams(schedule, record.task)) {
      timeline.waits.push_back(
          {place.at({record.rank, waited_for}), place.at({record.rank, record.task})});
    }
  }
  const engine::RankClasses classes =
      engine::classes_of(schedule.programs(), machine, step->options);
  MeetingFinder meetings(schedule, classes, place, timeline);
  for (const engine::TaskRecord& record : records) {
    meetings.add(record);
  }
  return timeline;
}

}  // namespace trireme::study
