#include "sim/engine/event/event.h"

#include <map>
#include <numeric>
#include <utility>

#include "sim/engine/event/link_loads.h"
#include "sim/engine/event/simulation.h"

namespace trireme::engine {

RankClasses classes_of(std::span<const program::Program> stages,
                       const Machine& machine,
                       const EventOptions& options) {
  const std::int64_t ranks = stages.front().mesh().ranks();
  std::vector<std::uint32_t> own = KernelFactors(options.variation, ranks).kinds();
  if (options.unfolded) {
    std::iota(own.begin(), own.end(), 0U);
  } else if (options.contention && machine.topology) {
    const std::vector<std::uint32_t> aligned = alignment_to_pods(stages, *machine.topology);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      own[rank] =
          numbers
              .try_emplace({own[rank], aligned[rank]}, static_cast<std::uint32_t>(numbers.size()))
              .first->second;
    }
  }
  return fold_ranks(stages, own);
}

std::optional<std::vector<Seconds>> op_times(const Schedule& schedule, const Machine& machine) {
  std::vector<Seconds> seconds;
  seconds.reserve(schedule.ops());
  for (const program::Program& program : schedule.programs()) {
    for (const program::Op& op : program.ops()) {
      const std::optional<Seconds> of_op = op_time(program, op, machine);
      if (!of_op) {
        return std::nullopt;
      }
      seconds.push_back(*of_op);
    }
  }
  return seconds;
}

std::optional<EventResult> simulate(const Schedule& schedule,
                                    const Machine& machine,
                                    const EventOptions& options,
                                    const TaskObserver& observer) {
  std::optional<std::vector<Seconds>> seconds = op_times(schedule, machine);
  if (!seconds) {
    return std::nullopt;
  }
  if (!options.op_factors.empty()) {
    ensure(options.op_factors.size() == seconds->size(), "event: a factor for every operation");
    for (std::size_t op = 0; op < seconds->size(); ++op) {
      (*seconds)[op] = options.op_factors[op] * (*seconds)[op];
    }
  }
  return Simulation(schedule, machine, *seconds, options, observer).run();
}

}  // namespace trireme::engine
