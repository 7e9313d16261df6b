#include "sim/engine/event/event.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/engine/event/link_loads.h"
#include "sim/engine/event/simulation.h"
#include "sim/engine/work.h"

namespace trireme::engine {

namespace {

bool is_uneven(const program::Program& program, const program::Op& op) {
  return program::info(op.function).family == program::Family::attention &&
         uneven_attention(program, op);
}

/// The ring whose ranks differ in their work; 0: none do.
program::AxisMask uneven_ring(const program::Program& program) {
  const auto ops = program.ops();
  const auto found = std::find_if(
      ops.begin(), ops.end(), [&](const program::Op& op) { return is_uneven(program, op); });
  return found == ops.end() ? program::AxisMask{0} : ring_of_attention(program, *found);
}

/// Tells ranks of equal `own` numbers apart by `other` ones.
void split(std::vector<std::uint32_t>& own, const std::vector<std::uint32_t>& other) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    own[rank] =
        numbers.try_emplace({own[rank], other[rank]}, static_cast<std::uint32_t>(numbers.size()))
            .first->second;
  }
}

}  // namespace

RankClasses classes_of(const program::Program& program,
                       const Machine& machine,
                       const EventOptions& options) {
  std::vector<std::uint32_t> own = KernelFactors(options.variation, program.mesh().ranks()).kinds();
  if (options.unfolded) {
    std::iota(own.begin(), own.end(), 0U);
    return fold_ranks(program, own);
  }
  if (options.contention && machine.topology) {
    split(own, alignment_to_pods(program, *machine.topology));
  }
  if (const program::AxisMask ring = uneven_ring(program); ring != 0) {
    // Ranks of different positions in the ring have different work.
    std::vector<std::uint32_t> positions;
    for (std::int64_t rank = 0; rank < program.mesh().ranks(); ++rank) {
      positions.push_back(static_cast<std::uint32_t>(program.mesh().position(rank, ring)));
    }
    split(own, positions);
  }
  return fold_ranks(program, own);
}

std::optional<OpTimes> op_times(const program::Program& program, const Machine& machine) {
  OpTimes times;
  times.slowest.reserve(program.ops().size());
  times.by_position.resize(program.ops().size());
  times.ring = uneven_ring(program);
  for (const program::Op& op : program.ops()) {
    const std::optional<Seconds> of_op = op_time(program, op, machine);
    if (!of_op) {
      return std::nullopt;
    }
    if (is_uneven(program, op)) {
      std::vector<Seconds>& by_position = times.by_position[times.slowest.size()];
      for (std::int64_t i = 0; i < program.mesh().group_size(times.ring); ++i) {
        by_position.push_back(*attention_op_time(program, op, machine, i));
      }
    }
    times.slowest.push_back(*of_op);
  }
  return times;
}

std::optional<EventResult> simulate(const Schedule& schedule,
                                    const Machine& machine,
                                    const EventOptions& options,
                                    const TaskObserver& observer) {
  std::optional<OpTimes> times = op_times(schedule.program(), machine);
  if (!times) {
    return std::nullopt;
  }
  if (!options.op_factors.empty()) {
    ensure(options.op_factors.size() == times->slowest.size(),
           "event: a factor for every operation");
    for (std::size_t op = 0; op < times->slowest.size(); ++op) {
      times->slowest[op] = options.op_factors[op] * times->slowest[op];
      for (Seconds& seconds : times->by_position[op]) {
        seconds = options.op_factors[op] * seconds;
      }
    }
  }
  return Simulation(schedule, machine, *times, options, observer).run();
}

}  // namespace trireme::engine
