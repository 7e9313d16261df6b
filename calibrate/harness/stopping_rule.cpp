#include "calibrate/harness/stopping_rule.h"

#include <algorithm>
#include <cmath>

#include "sim/engine/event/monte_carlo.h"

namespace trireme::calibrate {

namespace {

constexpr double kNormal95 = 1.96;

}  // namespace

MedianInterval median_interval(std::int64_t samples) {
  const auto n = static_cast<double>(samples);
  const double spread = kNormal95 * std::sqrt(n);
  const auto lower = static_cast<std::int64_t>(std::floor((n - spread) / 2));
  const auto upper = static_cast<std::int64_t>(std::ceil(1 + (n + spread) / 2));
  return {std::max<std::int64_t>(lower, 1), std::min(upper, samples)};
}

void StoppingRule::add(Seconds sample, Seconds elapsed) {
  ordered_.insert(std::upper_bound(ordered_.begin(), ordered_.end(), sample), sample);
  elapsed_ = elapsed;
}

bool StoppingRule::done() const {
  const auto samples = static_cast<std::int64_t>(ordered_.size());
  const bool time_is_up = elapsed_ >= limits_.time && samples >= limits_.fewest_samples;
  return settled() || samples >= limits_.most_samples || time_is_up;
}

bool StoppingRule::settled() const {
  const auto samples = static_cast<std::int64_t>(ordered_.size());
  if (samples < limits_.least_samples) {
    return false;
  }
  const MedianInterval places = median_interval(samples);
  const Seconds width = ordered_[static_cast<std::size_t>(places.upper - 1)] -
                        ordered_[static_cast<std::size_t>(places.lower - 1)];
  return width <= 2 * limits_.relative_interval * engine::sample_quantile(ordered_, 0.5);
}

Timing StoppingRule::timing() const {
  ensure(!ordered_.empty(), "stopping rule: no samples");
  return {.median = engine::sample_quantile(ordered_, 0.5),
          .lower_quartile = engine::sample_quantile(ordered_, 0.25),
          .upper_quartile = engine::sample_quantile(ordered_, 0.75),
          .samples = static_cast<std::int64_t>(ordered_.size()),
          .settled = settled()};
}

}  // namespace trireme::calibrate
