#include "calibrate/harness/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "calibrate/harness/interruption.h"

namespace trireme::calibrate {

namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point start) {
  return Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

/// Appends the memory of start-up stages that are not there yet; nothing on ranks other than 0.
class RecordedStages final : public MemoryStages {
 public:
  RecordedStages(const Record* record, const std::string& environment)
      : record_(record), environment_(environment) {
    if (record_ != nullptr) {
      for (const MemoryMeasurement& stage : record_->memory_there) {
        known_.insert(stage.stage);
      }
    }
  }

  void note(std::string_view stage, Bytes used) override {
    if (record_ != nullptr && known_.insert(std::string(stage)).second) {
      record_->writer.append(MemoryMeasurement{
          .stage = std::string(stage), .used = used, .environment = environment_});
    }
  }

 private:
  const Record* record_;
  const std::string& environment_;
  std::set<std::string> known_;
};

class Harness {
 public:
  Harness(RankLink& link,
          const HarnessLimits& limits,
          const std::string& environment,
          const Record* record,
          HarnessObserver& observer)
      : link_(link),
        limits_(limits),
        environment_(environment),
        record_(record),
        observer_(observer),
        stages_(record, environment) {}

  HarnessResult run(std::span<const std::unique_ptr<Probe>> probes) {
    std::int64_t points = 0;
    for (const auto& probe : probes) {
      points += static_cast<std::int64_t>(probe->points().size());
    }
    std::int64_t at = 0;
    for (const auto& probe : probes) {
      bool started = false;
      for (const Point& point : probe->points()) {
        ++at;
        const Decision decision = decide(point);
        if (decision == Decision::stop) {
          result_.interrupted = true;
          return result_;
        }
        if (decision == Decision::skip) {
          ++result_.skipped;
          continue;
        }
        if (decision == Decision::late) {
          leave_out(point, "the time is up");
          continue;
        }
        observer_.begin(point, at, points);
        if (!std::exchange(started, true)) {
          probe->start(stages_);
        }
        measure_point(*probe, point);
      }
    }
    return result_;
  }

 private:
  enum class Decision : char { measure = 'm', skip = 's', late = 'l', stop = 'x' };

  /// Rank 0 decides, and any rank that was interrupted.
  Decision decide(const Point& point) {
    std::string own(1, static_cast<char>(Decision::measure));
    if (record_ != nullptr) {
      const bool there = std::any_of(record_->there.begin(),
                                     record_->there.end(),
                                     [&](const Measurement& row) { return row.point == point; });
      own[0] = static_cast<char>(there                           ? Decision::skip
                                 : since(start_) > limits_.whole ? Decision::late
                                                                 : Decision::measure);
    }
    if (interrupted()) {
      own[0] = static_cast<char>(Decision::stop);
    }
    const std::vector<std::string> all = link_.exchange(own);
    for (const std::string& decision : all) {
      if (decision.front() == static_cast<char>(Decision::stop)) {
        return Decision::stop;
      }
    }
    return static_cast<Decision>(all.front().front());
  }

  /// The reason of the first rank that has one; empty when all are ready.
  std::string first_reason(const std::string& own) {
    for (const std::string& reason : link_.exchange(own)) {
      if (!reason.empty()) {
        return reason;
      }
    }
    return {};
  }

  void leave_out(const Point& point, const std::string& reason) {
    ++result_.left_out;
    if (record_ != nullptr) {
      observer_.left_out(point, reason);
    }
  }

  void measure_point(Probe& probe, const Point& point) {
    std::unique_ptr<Trial> trial;
    std::string refused;
    try {
      trial = probe.prepare(point);
    } catch (const PointRefused& reason) {
      refused = reason.what();
    }
    refused = first_reason(refused);
    if (!refused.empty()) {
      leave_out(point, refused);
      return;
    }
    trial->verify();
    const std::optional<Timing> timing = repeat(*trial);
    if (!timing) {
      return;  // interrupted: the next decision ends the run
    }
    ++result_.measured;
    result_.unsettled += timing->settled ? 0 : 1;
    if (record_ != nullptr) {
      record_->writer.append(
          Measurement{.point = point, .timing = *timing, .environment = environment_});
    }
  }

  /// Nothing when the run was interrupted before the point was known well enough.
  std::optional<Timing> repeat(Trial& trial) {
    const std::int64_t runs = warm_up(trial);
    StoppingRule rule(limits_.repeats);
    const Clock::time_point start = Clock::now();
    while (!rule.done()) {
      const Seconds own = trial.run(runs);
      const std::vector<double> slowest =
          largest(link_, {own.value(), since(start).value(), interrupted() ? 1.0 : 0.0});
      if (slowest[2] > 0) {
        return std::nullopt;
      }
      rule.add(Seconds(slowest[0]), Seconds(slowest[1]));
    }
    return rule.timing();
  }

  /// Runs until caches, clocks and allocators are warm. Returns how many runs make a sample.
  std::int64_t warm_up(Trial& trial) {
    const Clock::time_point start = Clock::now();
    Seconds fastest;
    Seconds elapsed;
    std::int64_t runs = 0;
    do {
      const Seconds own = trial.run(1);
      const std::vector<double> slowest = largest(link_, {own.value(), since(start).value()});
      const Seconds one(slowest[0]);
      elapsed = Seconds(slowest[1]);
      fastest = runs == 0 ? one : std::min(fastest, one);
      ++runs;
    } while (runs < limits_.warm_up_runs || elapsed < limits_.warm_up);
    const double times = std::ceil(ratio(limits_.least_sample, fastest));
    return static_cast<std::int64_t>(
        std::clamp(times, 1.0, static_cast<double>(limits_.most_runs_per_sample)));
  }

  RankLink& link_;
  const HarnessLimits& limits_;
  const std::string& environment_;
  const Record* record_;
  HarnessObserver& observer_;
  RecordedStages stages_;
  Clock::time_point start_ = Clock::now();
  HarnessResult result_;
};

}  // namespace

HarnessResult& HarnessResult::operator+=(const HarnessResult& other) {
  measured += other.measured;
  skipped += other.skipped;
  left_out += other.left_out;
  unsettled += other.unsettled;
  interrupted = interrupted || other.interrupted;
  return *this;
}

HarnessResult measure(std::span<const std::unique_ptr<Probe>> probes,
                      RankLink& link,
                      const HarnessLimits& limits,
                      const std::string& environment,
                      const Record* record,
                      HarnessObserver& observer) {
  return Harness(link, limits, environment, record, observer).run(probes);
}

}  // namespace trireme::calibrate
