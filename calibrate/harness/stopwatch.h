// What a probe times with: the host's clock, or a device's events.
#pragma once

#include <chrono>

#include "sim/units/units.h"

namespace trireme::calibrate {

/// Measures from start() to the end of what was issued until stop().
class Stopwatch {
 public:
  Stopwatch() = default;
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  virtual ~Stopwatch() = default;

  virtual void start() = 0;

  /// Waits for what was issued since start(). Above zero.
  [[nodiscard]] virtual Seconds stop() = 0;
};

/// The monotonic clock of the host, for work that is done when its call returns.
class HostStopwatch final : public Stopwatch {
 public:
  void start() override { start_ = Clock::now(); }

  [[nodiscard]] Seconds stop() override {
    const std::chrono::duration<double> took = Clock::now() - start_;
    const std::chrono::duration<double> tick = Clock::duration(1);
    return Seconds(took < tick ? tick.count() : took.count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

}  // namespace trireme::calibrate
