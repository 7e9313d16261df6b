#include "calibrate/probe/gpu/interference_probe.h"

#include <array>
#include <cmath>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/gemm_probe.h"
#include "calibrate/probe/gpu/kernels.h"
#include "calibrate/probe/gpu_points.h"
#include "sim/core/error.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr Bytes kPayload(256 << 20);
constexpr std::int64_t kEdge = 8192;  // of the square product
constexpr int kBlocks = 32;           // of kCopyBlocks

/// Something that a stream does again and again.
class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  virtual ~Job() = default;

  virtual void verify(Device& device) = 0;
  virtual void issue(const Stream& stream) = 0;
  virtual void await(const Event& end) = 0;
};

class ProductJob final : public Job {
 public:
  ProductJob(const BlasHandle& handle, const GemmPoint& point, const Stream& stream)
      : point_(point), matmul_(handle, point), buffers_(point) {
    fill_gemm(stream, buffers_, 0);
  }

  void verify(Device& device) override {
    issue(device.stream());
    device.stream().wait();
    verify_gemm(point_, buffers_);
  }

  void issue(const Stream& stream) override { matmul_.execute(stream, buffers_); }

  void await(const Event& /*end*/) override {}

 private:
  GemmPoint point_;
  Matmul matmul_;
  GemmBuffers buffers_;
};

class CollectiveJob final : public Job {
 public:
  CollectiveJob(CommunicatorSet& communicators, const CollectivePoint& point)
      : what_(in_words(Point(point))), buffers_(communicators, point) {}

  void verify(Device& device) override { buffers_.verify(device); }

  void issue(const Stream& stream) override { buffers_.issue(stream); }

  void await(const Event& end) override { buffers_.communicator().await(end, what_); }

 private:
  std::string what_;
  CollectiveBuffers buffers_;
};

class CopyJob final : public Job {
 public:
  explicit CopyJob(Bytes payload) : from_(payload), to_(payload) {}

  void verify(Device& device) override {
    const std::int64_t elements = from_.amount().value() / width(ElementType::bf16);
    fill_moved_bits(device.stream().get(), from_.get(), elements, 0, 0);
    issue(device.stream());
    const Buffer counter(Bytes(sizeof(std::uint64_t)));
    auto* const wrong = static_cast<std::uint64_t*>(counter.get());
    check(cudaMemsetAsync(wrong, 0, sizeof(*wrong), device.stream().get()), "cudaMemsetAsync");
    check_moved_bits(device.stream().get(), to_.get(), elements, 0, 0, wrong);
    device.stream().wait();
    std::uint64_t found = 0;
    check(cudaMemcpy(&found, wrong, sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (found != 0) {
      throw WrongResult(fmt::format("{}: {} elements are wrong", kCopyBlocks, found));
    }
  }

  void issue(const Stream& stream) override {
    copy_with_blocks(stream.get(), from_.get(), to_.get(), from_.amount(), kBlocks);
  }

  void await(const Event& /*end*/) override {}

 private:
  Buffer from_;
  Buffer to_;
};

class InterferenceTrial final : public Trial {
 public:
  InterferenceTrial(Device& device,
                    RankLink& link,
                    std::unique_ptr<Job> timed,
                    std::unique_ptr<Job> beside,
                    bool together)
      : device_(device),
        link_(link),
        timed_(std::move(timed)),
        beside_(std::move(beside)),
        together_(together) {}

  void verify() override {
    timed_->verify(device_);
    beside_->verify(device_);
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    return together_ ? run_together(times) : run_alone(*timed_, times);
  }

 private:
  [[nodiscard]] Seconds run_alone(Job& job, std::int64_t times) {
    return device_.time(
        times,
        [&](std::int64_t) { job.issue(device_.stream()); },
        [&] { job.issue(device_.stream()); },
        [&](const Event& end) { job.await(end); });
  }

  /// What is beside must not end before what is timed: where it did, the sample is taken again with
  /// more of it, on all ranks as collectives need as many calls on each.
  [[nodiscard]] Seconds run_together(std::int64_t times) {
    if (per_timed_ == 0) {
      constexpr std::int64_t kFirstRuns = 5;
      const Seconds timed = run_alone(*timed_, kFirstRuns);
      const Seconds beside = run_alone(*beside_, kFirstRuns);
      constexpr double kSlower = 1.5;  // a first guess of how much slower the timed one gets
      per_timed_ = largest(link_, {kSlower * ratio(timed, beside)}).front();
    }
    constexpr double kMostPerTimed = 1e4;
    while (per_timed_ < kMostPerTimed) {
      const auto count =
          static_cast<std::int64_t>(std::ceil(per_timed_ * static_cast<double>(times + 1))) + 2;
      for (std::int64_t i = 0; i < count; ++i) {
        beside_->issue(beside_stream_);
      }
      beside_end_.record(beside_stream_);
      bool covered = false;
      const Seconds time = device_.time(
          times,
          [&](std::int64_t) { timed_->issue(device_.stream()); },
          [&] { timed_->issue(device_.stream()); },
          [&](const Event& end) {
            timed_->await(end);
            check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
            covered = !beside_end_.passed();
          });
      beside_->await(beside_end_);
      beside_stream_.wait();
      if (largest(link_, {covered ? 0.0 : 1.0}).front() == 0.0) {
        return time;
      }
      per_timed_ *= 2;
    }
    throw Error(ErrorKind::device, {}, "interference: two streams do not run at once here");
  }

  Device& device_;
  RankLink& link_;
  std::unique_ptr<Job> timed_;
  std::unique_ptr<Job> beside_;
  bool together_;
  double per_timed_ = 0;  // runs of what is beside for each run that is timed; 0: not known yet
  Stream beside_stream_;
  Event beside_end_;
};

}  // namespace

InterferenceProbe::InterferenceProbe(Device& device, CommunicatorSet& communicators)
    : device_(device), communicators_(communicators) {}

std::vector<Point> InterferenceProbe::points() const {
  const GemmPoint gemm{.m = kEdge, .n = kEdge, .k = kEdge, .pass = GemmPass::forward};
  const std::vector<GroupShape> shapes = communicators_.shapes();
  std::vector<CollectivePoint> collectives;
  if (shapes.empty()) {
    collectives.push_back({.collective = CollectiveKind::all_gather,
                           .method = std::string(kCopyBlocks),
                           .ranks = 1,
                           .ranks_per_node = 1,
                           .type = ElementType::bf16,
                           .payload = kPayload});
  } else {
    const GroupShape& shape = shapes.back();
    for (const CollectiveKind kind : {CollectiveKind::all_to_all,
                                      CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_reduce}) {
      collectives.push_back(
          {.collective = kind,
           .method = std::string(kind == CollectiveKind::all_to_all ? kNcclGrouped : kNccl),
           .ranks = shape.ranks,
           .ranks_per_node = shape.ranks_per_node,
           .type = ElementType::bf16,
           .payload = divisible_payload(kPayload, shape.ranks)});
    }
  }
  std::vector<Point> points;
  for (const CollectivePoint& collective : collectives) {
    for (const bool collective_timed : {true, false}) {
      for (const bool together : {false, true}) {
        points.emplace_back(InterferencePoint{.collective = collective,
                                              .gemm = gemm,
                                              .collective_timed = collective_timed,
                                              .together = together});
      }
    }
  }
  return points;
}

void InterferenceProbe::start(MemoryStages& /*stages*/) {
  handle_ = std::make_unique<BlasHandle>();
}

std::unique_ptr<Trial> InterferenceProbe::prepare(const Point& any_point) {
  const auto& point = std::get<InterferencePoint>(any_point);
  auto product = std::make_unique<ProductJob>(*handle_, point.gemm, device_.stream());
  std::unique_ptr<Job> collective;
  if (point.collective.method == kCopyBlocks) {
    collective = std::make_unique<CopyJob>(point.collective.payload);
  } else {
    collective = std::make_unique<CollectiveJob>(communicators_, point.collective);
  }
  std::unique_ptr<Job> timed = std::move(collective);
  std::unique_ptr<Job> beside = std::move(product);
  if (!point.collective_timed) {
    std::swap(timed, beside);
  }
  return std::make_unique<InterferenceTrial>(
      device_, communicators_.watch().link(), std::move(timed), std::move(beside), point.together);
}

}  // namespace trireme::calibrate::gpu
