// The one loop that measures: skips what is there, verifies, warms up, repeats, appends.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/harness/rank_link.h"
#include "calibrate/harness/stopping_rule.h"
#include "calibrate/measurement/measurement_file.h"

namespace trireme::calibrate {

struct HarnessLimits {
  StoppingLimits repeats;
  std::int64_t warm_up_runs = 2;
  Seconds warm_up = Seconds(0.02);       // at least, of each point
  Seconds least_sample = Seconds(2e-4);  // shorter runs are repeated inside one sample
  std::int64_t most_runs_per_sample = 10000;
  /// For all points: those that are not begun by then are left out.
  Seconds whole = Seconds(std::numeric_limits<double>::infinity());
};

/// Sees what the harness is at.
class HarnessObserver {
 public:
  HarnessObserver() = default;
  HarnessObserver(const HarnessObserver&) = delete;
  HarnessObserver& operator=(const HarnessObserver&) = delete;
  virtual ~HarnessObserver() = default;

  /// On every rank: `point` is measured next, number `at` of `of` points.
  virtual void begin(const Point& point, std::int64_t at, std::int64_t of) = 0;

  /// On rank 0: a point that no rank could run, or that one could not.
  virtual void left_out(const Point& point, const std::string& reason) = 0;
};

struct HarnessResult {
  std::int64_t measured = 0;
  std::int64_t skipped = 0;    // were there already
  std::int64_t left_out = 0;   // could not be run
  std::int64_t unsettled = 0;  // of those measured, the time was up first
  bool interrupted = false;

  HarnessResult& operator+=(const HarnessResult& other);
};

/// What rank 0 has and the other ranks have not.
struct Record {
  MeasurementWriter& writer;
  const std::vector<Measurement>& there;  // not measured again
  const std::vector<MemoryMeasurement>& memory_there;
};

/// Measures every point of every probe that is not there yet; called on all ranks. `record`: null
/// on ranks other than 0. A sample is the time of the slowest rank. Throws what a probe throws:
/// WrongResult, RankFailure.
[[nodiscard]] HarnessResult measure(std::span<const std::unique_ptr<Probe>> probes,
                                    RankLink& link,
                                    const HarnessLimits& limits,
                                    const std::string& environment,
                                    const Record* record,
                                    HarnessObserver& observer);

}  // namespace trireme::calibrate
