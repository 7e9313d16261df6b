// What the harness measures: probes, their points, and a point made ready to run.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

/// A point that this machine cannot run, such as one beyond its memory: it is left out with this
/// reason, and the run goes on.
class PointRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A result that is not what it has to be: the run ends, as its times would mean nothing.
class WrongResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One point with its buffers, on this rank. Frees them when it goes.
class Trial {
 public:
  Trial() = default;
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  virtual ~Trial() = default;

  /// Runs once and compares the result with what it has to be. Throws WrongResult.
  virtual void verify() = 0;

  /// Runs at least `times` times back to back, each on the next of the rotated buffers. Returns the
  /// seconds of one: the mean of these. Ranks that take part begin together.
  [[nodiscard]] virtual Seconds run(std::int64_t times) = 0;
};

/// Takes how much memory a device has in use after a stage of a probe's start-up.
class MemoryStages {
 public:
  MemoryStages() = default;
  MemoryStages(const MemoryStages&) = delete;
  MemoryStages& operator=(const MemoryStages&) = delete;
  virtual ~MemoryStages() = default;

  virtual void note(std::string_view stage, Bytes used) = 0;
};

/// One kind of thing to measure. All ranks have the same probes with the same points, and all run
/// a point at once.
class Probe {
 public:
  Probe() = default;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  virtual ~Probe() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// In the order in which they are measured.
  [[nodiscard]] virtual std::vector<Point> points() const = 0;

  /// Creates what all its points need, such as communicators. Called once, before the first point
  /// that is measured.
  virtual void start(MemoryStages& /*stages*/) {}

  /// Throws PointRefused where this rank cannot run the point.
  [[nodiscard]] virtual std::unique_ptr<Trial> prepare(const Point& point) = 0;
};

/// How many sets of buffers to go round so that none is in the cache when its turn comes again: as
/// many as fill `cache` twice, at least 1 and at most `most`.
[[nodiscard]] constexpr std::int64_t rotated_sets(Bytes set, Bytes cache, std::int64_t most) {
  const std::int64_t needed = ceil_div(2 * cache.value(), set.value() > 0 ? set.value() : 1);
  return needed < 1 ? 1 : needed > most ? most : needed;
}

}  // namespace trireme::calibrate
