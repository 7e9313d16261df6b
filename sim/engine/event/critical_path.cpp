#include "sim/engine/event/critical_path.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "sim/engine/event/meetings.h"
#include "sim/engine/time_booking.h"

namespace trireme::engine {

using program::Op;
using program::Program;

namespace {

/// What every class of ranks did in one run.
class Run {
 public:
  Run(const Schedule& schedule, const Machine& machine, const EventOptions& options)
      : schedule_(schedule),
        classes_(classes_of(schedule.programs(), machine, options)),
        meetings_(schedule, classes_),
        spans_(classes_.first_rank.size() * schedule.tasks().size()) {
    result_ = simulate(schedule, machine, options, [&](const TaskRecord& record) {
      const std::uint32_t of_rank = classes_.class_of_rank[static_cast<std::size_t>(record.rank)];
      spans_[place(of_rank, record.task)] = {record.start, record.end};
      last_ = {of_rank, record.task};
    });
  }

  struct At {
    std::uint32_t who = 0;
    TaskId task = 0;
  };

  struct Span {
    Seconds start;
    Seconds end;
  };

  [[nodiscard]] const std::optional<EventResult>& result() const { return result_; }

  /// The task that ends last.
  [[nodiscard]] At last() const { return last_; }

  [[nodiscard]] std::int64_t first_rank(std::uint32_t who) const {
    return classes_.first_rank[who];
  }

  [[nodiscard]] Span span(At at) const { return spans_[place(at.who, at.task)]; }

  /// What a task waited for when it started; empty where that was the host, or nothing.
  [[nodiscard]] std::optional<At> waited_for(At at) const {
    const Seconds start = span(at).start;
    std::optional<At> found = before(at, start);
    if (found) {
      return found;
    }
    for (const std::uint32_t partner : partners(at)) {
      found = before(same_task(at, partner), start);
      if (found) {
        return found;
      }
    }
    return std::nullopt;
  }

 private:
  /// What another class does in the collective or message that `at` is in.
  [[nodiscard]] At same_task(At at, std::uint32_t partner) const {
    const auto stage =
        static_cast<std::size_t>(schedule_.program().mesh().stage_of(classes_.first_rank[partner]));
    return {partner, schedule_.counterpart(at.task, stage)};
  }

  [[nodiscard]] std::size_t place(std::uint32_t who, TaskId task) const {
    return who * schedule_.tasks().size() + task;
  }

  /// The task of the same rank that ended at `time` and that `at` follows.
  [[nodiscard]] std::optional<At> before(At at, Seconds time) const {
    const Task& task = schedule_.task(at.task);
    const auto ends_then = [&](TaskId earlier) { return span({at.who, earlier}).end == time; };
    const auto on_stream = [&](StreamSlot slot) -> std::optional<At> {
      const auto tasks = schedule_.tasks_of(slot, task.stage);
      const auto own = std::lower_bound(tasks.begin(), tasks.end(), at.task);
      if (own == tasks.begin() || !ends_then(*(own - 1))) {
        return std::nullopt;
      }
      return At{at.who, *(own - 1)};
    };
    std::optional<At> found = on_stream(task.slot);
    if (!found && task.also_compute) {
      found = on_stream(kComputeSlot);
    }
    for (const Wait& wait : schedule_.waits(task)) {
      const TaskId earlier = schedule_.tasks_of(wait.slot, task.stage)[wait.ordinal];
      if (!found && ends_then(earlier)) {
        found = At{at.who, earlier};
      }
    }
    return found;
  }

  /// The classes that a task's class meets in it.
  [[nodiscard]] std::span<const std::uint32_t> partners(At at) const {
    const Task& task = schedule_.task(at.task);
    const Op& op = schedule_.op_of(task);
    if (program::crosses_stages(op)) {
      return meetings_.peer_at(at.who, schedule_.program_of(task).peer_stage(op));
    }
    if (op.function != program::Function::collective) {
      return {};
    }
    return meets_neighbours(op) ? meetings_.neighbours(at.who, meetings_.ring_of(task.slot, op))
                                : meetings_.members(meetings_.of(at.who, task.slot));
  }

  const Schedule& schedule_;
  RankClasses classes_;
  Meetings meetings_;
  std::vector<Span> spans_;  // by class and task
  std::optional<EventResult> result_;
  At last_;
};

/// Whose attention or matrix products an operation is; empty for what is one term over all.
std::optional<Component> component_of(const Op& op) {
  const ledger::Work work = work_of(op);
  return work == ledger::Work::attention || work == ledger::Work::matrix_product
             ? std::optional(op.component)
             : std::nullopt;
}

class Terms {
 public:
  explicit Terms(const Schedule& schedule) {
    term_of_op_.reserve(schedule.ops());
    for (const Program& program : schedule.programs()) {
      for (const Op& op : program.ops()) {
        add(op);
      }
    }
  }

  void book(std::uint32_t op, Seconds seconds) {
    ledger::CriticalTerm& term = terms_[term_of_op_[op]];
    ++term.executions;
    term.on_path += seconds;
  }

  /// The terms on the path, the largest first, with the step as `step_with(factors)` finds it.
  template <class StepWith>
  std::vector<ledger::CriticalTerm> by_size(std::size_t tried, StepWith step_with) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      if (terms_[i].on_path > Seconds(0)) {
        order.push_back(i);
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return terms_[a].on_path > terms_[b].on_path;
    });
    std::vector<ledger::CriticalTerm> sorted;
    for (const std::size_t term : order) {
      if (sorted.size() < tried) {
        terms_[term].step_at_half = step_with(factors(term, 0.5));
        terms_[term].step_without = step_with(factors(term, 0));
      }
      sorted.push_back(terms_[term]);
    }
    return sorted;
  }

 private:
  void add(const Op& op) {
    const auto same =
        std::find_if(terms_.begin(), terms_.end(), [&](const ledger::CriticalTerm& term) {
          return term.work == work_of(op) && term.component == component_of(op);
        });
    term_of_op_.push_back(static_cast<std::size_t>(same - terms_.begin()));
    if (same == terms_.end()) {
      ledger::CriticalTerm term;
      term.work = work_of(op);
      term.component = component_of(op);
      terms_.push_back(term);
    }
  }

  [[nodiscard]] std::vector<double> factors(std::size_t term, double factor) const {
    std::vector<double> factors(term_of_op_.size(), 1);
    for (std::size_t op = 0; op < factors.size(); ++op) {
      if (term_of_op_[op] == term) {
        factors[op] = factor;
      }
    }
    return factors;
  }

  std::vector<std::size_t> term_of_op_;
  std::vector<ledger::CriticalTerm> terms_;
};

}  // namespace

std::optional<ledger::CriticalPath> critical_path(const Schedule& schedule,
                                                  const Machine& machine,
                                                  const EventOptions& options,
                                                  std::size_t tried,
                                                  const TaskObserver& on_path) {
  const Run run(schedule, machine, options);
  if (!run.result()) {
    return std::nullopt;
  }
  ledger::CriticalPath path;
  path.step = run.result()->time.step;
  if (schedule.tasks().empty()) {
    return path;
  }
  Terms terms(schedule);
  std::optional<Run::At> at = run.last();
  while (at) {
    const Run::Span span = run.span(*at);
    const std::uint32_t id = schedule.task(at->task).op;
    const Op& op = schedule.op_of(schedule.task(at->task));
    const Seconds seconds = span.end - span.start;
    terms.book(id, seconds);
    if (on_path) {
      on_path({run.first_rank(at->who), at->task, span.start, span.end});
    }
    if (program::communicates(op)) {
      path.collectives[ledger::index(op.collective)] += seconds;
    } else {
      path.kernels[ledger::index(op.component)] += seconds;
    }
    if (span.start == Seconds(0)) {
      break;
    }
    at = run.waited_for(*at);
    if (!at) {
      path.launch = span.start;
    }
  }
  path.terms = terms.by_size(tried, [&](std::vector<double> factors) {
    EventOptions changed = options;
    for (std::size_t op = 0; op < options.op_factors.size(); ++op) {
      factors[op] *= options.op_factors[op];
    }
    changed.op_factors = std::move(factors);
    return simulate(schedule, machine, changed)->time.step;
  });
  return path;
}

}  // namespace trireme::engine
