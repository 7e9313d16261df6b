// When a point has been repeated often enough.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

struct StoppingLimits {
  std::int64_t fewest_samples = 3;  // even when the time is up
  std::int64_t least_samples = 9;   // before the interval counts
  std::int64_t most_samples = 1000;
  double relative_interval = 0.02;  // half of the median's interval, as a fraction of the median
  Seconds time = Seconds(1);        // for the repeats of one point
};

/// The ranks, from 1, of the ordered samples between which the median lies with 95 % confidence.
struct MedianInterval {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

/// Of `samples` samples; ranks beyond the samples are cut to the first and the last.
///
/// EQ median-interval: l = floor((n - z sqrt(n)) / 2), u = ceil(1 + (n + z sqrt(n)) / 2)
///   n  samples                                                       [1]
///   z  1.96: of the normal distribution at 95 %                      [1]
///   l  lower: the place of the lower end among the ordered samples, from 1  [1]
///   u  upper: the place of the upper end                             [1]
/// Source: hoefler2015, section 3.1.3
/// Valid:  independent samples of any distribution, n > 5
/// Tests:  tests/unit/calibrate/stopping_rule_test.cpp
[[nodiscard]] MedianInterval median_interval(std::int64_t samples);

/// Collects samples until their median is known well enough or the time is up. Knows no clock: who
/// samples says how long it has taken.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingLimits& limits) : limits_(limits) {}

  /// `elapsed`: since the first sample of this point began.
  void add(Seconds sample, Seconds elapsed);

  /// Whether no further sample is needed, or allowed.
  [[nodiscard]] bool done() const;

  /// Whether the median's interval is as small as was asked for.
  [[nodiscard]] bool settled() const;

  /// Needs a sample. Quartiles are those samples below which a quarter and three quarters lie.
  [[nodiscard]] Timing timing() const;

 private:
  StoppingLimits limits_;
  std::vector<Seconds> ordered_;
  Seconds elapsed_;
};

}  // namespace trireme::calibrate
