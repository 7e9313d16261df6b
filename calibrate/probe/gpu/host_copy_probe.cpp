#include "calibrate/probe/gpu/host_copy_probe.h"

#include <algorithm>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "calibrate/harness/stopwatch.h"
#include "calibrate/measurement/measurement_file.h"
#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/kernels.h"
#include "calibrate/probe/pattern.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr std::int64_t kLeast = 64 << 10;
constexpr std::int64_t kMost = 1 << 30;

class HostCopyTrial final : public Trial {
 public:
  HostCopyTrial(Device& device, const HostCopyPoint& point)
      : device_(device), point_(point), on_device_(point.amount) {
    if (point.pinned) {
      pinned_.emplace(point.amount);
    } else {
      pageable_.resize(static_cast<std::size_t>(elements()));
    }
  }

  void verify() override {
    const bool to_device = point_.direction == CopyDirection::host_to_device;
    std::uint16_t* const host = on_host();
    if (to_device) {
      for (std::int64_t i = 0; i < elements(); ++i) {
        host[i] = moved_bits(0, static_cast<std::uint64_t>(i));
      }
      copy();
      device_.stream().wait();
      const Buffer wrong(Bytes(sizeof(std::uint64_t)));
      auto* const count = static_cast<std::uint64_t*>(wrong.get());
      check(cudaMemsetAsync(count, 0, sizeof(*count), device_.stream().get()), "cudaMemsetAsync");
      check_moved_bits(device_.stream().get(), on_device_.get(), elements(), 0, 0, count);
      device_.stream().wait();
      std::uint64_t found = 0;
      check(cudaMemcpy(&found, count, sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy");
      refuse_if(found != 0);
      return;
    }
    fill_moved_bits(device_.stream().get(), on_device_.get(), elements(), 1, 0);
    std::fill_n(host, elements(), std::uint16_t{0});
    copy();
    device_.stream().wait();
    bool same = true;
    for (std::int64_t i = 0; i < elements(); ++i) {
      same = same && host[i] == moved_bits(1, static_cast<std::uint64_t>(i));
    }
    refuse_if(!same);
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    if (point_.pinned) {
      return device_.time(times, [&](std::int64_t) { copy(); });
    }
    HostStopwatch stopwatch;  // the host copies into a buffer of the driver's: no event sees that
    stopwatch.start();
    for (std::int64_t i = 0; i < times; ++i) {
      copy();
    }
    device_.stream().wait();
    return Seconds(stopwatch.stop().value() / static_cast<double>(times));
  }

 private:
  [[nodiscard]] std::int64_t elements() const {
    return point_.amount.value() / static_cast<std::int64_t>(sizeof(std::uint16_t));
  }

  [[nodiscard]] std::uint16_t* on_host() {
    return point_.pinned ? static_cast<std::uint16_t*>(pinned_->get()) : pageable_.data();
  }

  void copy() {
    const bool to_device = point_.direction == CopyDirection::host_to_device;
    void* const host = on_host();
    check(cudaMemcpyAsync(to_device ? on_device_.get() : host,
                          to_device ? host : on_device_.get(),
                          static_cast<std::size_t>(point_.amount.value()),
                          to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                          device_.stream().get()),
          "cudaMemcpyAsync");
  }

  void refuse_if(bool wrong) const {
    if (wrong) {
      throw WrongResult(fmt::format("{}: other bytes arrived", in_words(Point(point_))));
    }
  }

  Device& device_;
  HostCopyPoint point_;
  Buffer on_device_;
  std::optional<PinnedBuffer> pinned_;
  std::vector<std::uint16_t> pageable_;
};

}  // namespace

std::vector<Point> HostCopyProbe::points() const {
  std::vector<Point> points;
  for (const bool pinned : {true, false}) {
    for (const CopyDirection direction :
         {CopyDirection::host_to_device, CopyDirection::device_to_host}) {
      for (std::int64_t amount = kLeast; amount <= kMost; amount *= 4) {
        points.emplace_back(
            HostCopyPoint{.direction = direction, .pinned = pinned, .amount = Bytes(amount)});
      }
    }
  }
  return points;
}

std::unique_ptr<Trial> HostCopyProbe::prepare(const Point& point) {
  return std::make_unique<HostCopyTrial>(device_, std::get<HostCopyPoint>(point));
}

}  // namespace trireme::calibrate::gpu
