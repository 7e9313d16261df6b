// What a run of measurements is at: for messages from any thread, and on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "calibrate/harness/harness.h"

namespace trireme::calibrate {

/// What the run is at, for messages from any thread.
class Current {
 public:
  void set(std::string what);

  /// "; at gemm: m 64, ..."; empty between points.
  [[nodiscard]] std::string during();

 private:
  std::mutex mutex_;
  std::string what_;
};

/// Of this process.
[[nodiscard]] Current& current();

/// Says why the run ends, and at which point it was.
void say_failure(const std::string& reason);

/// A line on a terminal that is written over; nothing elsewhere.
class Progress final : public HarnessObserver {
 public:
  explicit Progress(bool speaks);
  ~Progress() override;

  void begin(const Point& point, std::int64_t at, std::int64_t of) override;
  void left_out(const Point& point, const std::string& reason) override;

 private:
  using Clock = std::chrono::steady_clock;

  void clear();

  bool shows_;
  bool dirty_ = false;
  std::int64_t begun_ = 0;
  Clock::time_point start_;
};

}  // namespace trireme::calibrate
