#include "sim/engine/event/monte_carlo.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <tbb/parallel_for.h>

namespace trireme::engine {

Seconds sample_quantile(std::span<const Seconds> ascending, double part) {
  ensure(!ascending.empty() && part >= 0 && part <= 1, "sample_quantile: of nothing");
  const double place = part * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] +
         (place - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

std::optional<ledger::StepDistribution> monte_carlo(const Schedule& schedule,
                                                    const Machine& machine,
                                                    const EventOptions& options,
                                                    std::span<const std::uint64_t> seeds) {
  if (seeds.empty() || !op_times(schedule, machine)) {
    return std::nullopt;
  }
  ledger::StepDistribution found;
  found.steps.resize(seeds.size());
  tbb::parallel_for(std::size_t{0}, seeds.size(), [&](std::size_t i) {
    EventOptions of_seed = options;
    of_seed.variation.seed = seeds[i];
    found.steps[i] = simulate(schedule, machine, of_seed)->time.step;
  });
  std::vector<Seconds> ascending = found.steps;
  std::sort(ascending.begin(), ascending.end());
  found.mean = 1 / static_cast<double>(seeds.size()) *
               std::accumulate(ascending.begin(), ascending.end(), Seconds(0));
  found.quantile_05 = sample_quantile(ascending, 0.05);
  found.median = sample_quantile(ascending, 0.5);
  found.quantile_95 = sample_quantile(ascending, 0.95);
  found.longest = ascending.back();
  return found;
}

}  // namespace trireme::engine
