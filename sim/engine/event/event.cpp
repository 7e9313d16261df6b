#include "sim/engine/event/event.h"

#include <map>
#include <numeric>
#include <utility>

#include "sim/engine/event/link_loads.h"
#include "sim/engine/event/simulation.h"

namespace trireme::engine {

RankClasses classes_of(const program::Program& program,
                       const Machine& machine,
                       const EventOptions& options) {
  std::vector<std::uint32_t> own = KernelFactors(options.variation, program.mesh().ranks()).kinds();
  if (options.unfolded) {
    std::iota(own.begin(), own.end(), 0U);
  } else if (options.contention && machine.topology) {
    const std::vector<std::uint32_t> aligned = alignment_to_pods(program, *machine.topology);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      own[rank] =
          numbers
              .try_emplace({own[rank], aligned[rank]}, static_cast<std::uint32_t>(numbers.size()))
              .first->second;
    }
  }
  return fold_ranks(program, own);
}

std::optional<std::vector<Seconds>> op_times(const program::Program& program,
                                             const Machine& machine) {
  std::vector<Seconds> seconds;
  seconds.reserve(program.ops().size());
  for (const program::Op& op : program.ops()) {
    const std::optional<Seconds> of_op = op_time(program, op, machine);
    if (!of_op) {
      return std::nullopt;
    }
    seconds.push_back(*of_op);
  }
  return seconds;
}

std::optional<EventResult> simulate(const Schedule& schedule,
                                    const Machine& machine,
                                    const EventOptions& options,
                                    const TaskObserver& observer) {
  std::optional<std::vector<Seconds>> seconds = op_times(schedule.program(), machine);
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
