#include "calibrate/probe/gpu/launch_probe.h"

#include <algorithm>

#include "calibrate/harness/stopwatch.h"
#include "calibrate/probe/gpu/kernels.h"

namespace trireme::calibrate::gpu {

namespace {

/// As many launches as a stream surely takes without making the host wait.
constexpr std::int64_t kLaunchesAhead = 256;

class LaunchTrial final : public Trial {
 public:
  explicit LaunchTrial(Device& device) : device_(device) {}

  void verify() override {
    launch_empty(device_.stream().get());
    device_.stream().wait();
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    Seconds total;
    for (std::int64_t left = times; left > 0; left -= kLaunchesAhead) {
      const std::int64_t launches = std::min(left, kLaunchesAhead);
      HostStopwatch stopwatch;
      stopwatch.start();
      for (std::int64_t i = 0; i < launches; ++i) {
        launch_empty(device_.stream().get());
      }
      total += stopwatch.stop();
      device_.stream().wait();
    }
    return Seconds(total.value() / static_cast<double>(times));
  }

 private:
  Device& device_;
};

}  // namespace

std::vector<Point> LaunchProbe::points() const {
  return {LaunchPoint{.kernel = "empty"}};
}

void LaunchProbe::start(MemoryStages& stages) {
  launch_empty(device_.stream().get());
  device_.stream().wait();
  stages.note("context", memory_state().used());
}

std::unique_ptr<Trial> LaunchProbe::prepare(const Point& /*point*/) {
  return std::make_unique<LaunchTrial>(device_);
}

}  // namespace trireme::calibrate::gpu
