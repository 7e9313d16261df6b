#include "calibrate/probe/gpu/collective_probe.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "calibrate/probe/gpu_points.h"
#include "sim/core/error.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr std::array kKinds = {CollectiveKind::all_to_all,
                               CollectiveKind::all_gather,
                               CollectiveKind::reduce_scatter,
                               CollectiveKind::all_reduce,
                               CollectiveKind::send_recv};

/// Where it matters whose memory is read; and fewer points than of what frameworks run by default.
constexpr Bytes kLeastSymmetric(1 << 20);

std::string_view usual_method(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all ? kNcclGrouped : kNccl;
}

/// The method with which a kind runs on symmetric memory, if there is one.
std::optional<std::string_view> symmetric_method(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_to_all:
      return kNcclCopyEngines;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_reduce:
      return kNcclSymmetric;
    case CollectiveKind::send_recv:
      return std::nullopt;
  }
  return std::nullopt;
}

CopyBy copy_by(const CollectivePoint& point) {
  return point.method == kNcclCopyEngines ? CopyBy::copy_engines : CopyBy::multiprocessors;
}

bool symmetric(const CollectivePoint& point) {
  return point.method == kNcclSymmetric || point.method == kNcclCopyEngines;
}

/// Where the output begins: windows are used from multiples of this on.
std::int64_t output_offset(const CollectiveExtents& extents) {
  return pad_to(extents.sent.value(), NCCL_WIN_REQUIRED_ALIGNMENT);
}

Bytes memory_of(const CollectiveExtents& extents) {
  return Bytes(output_offset(extents) +
               pad_to(extents.received.value(), NCCL_WIN_REQUIRED_ALIGNMENT));
}

class CollectiveTrial final : public Trial {
 public:
  CollectiveTrial(Device& device, std::unique_ptr<CollectiveBuffers> buffers, std::string_view what)
      : device_(device), buffers_(std::move(buffers)), what_(what) {}

  void verify() override { buffers_->verify(device_); }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    return device_.time(
        times,
        [&](std::int64_t) { buffers_->issue(device_.stream()); },
        // One more ahead of the clock: no rank is through it before all have come.
        [&] { buffers_->issue(device_.stream()); },
        [&](const Event& end) { buffers_->communicator().await(end, what_); });
  }

 private:
  Device& device_;
  std::unique_ptr<CollectiveBuffers> buffers_;
  std::string what_;
};

}  // namespace

CommunicatorSet::CommunicatorSet(CallWatch& watch, std::int64_t ranks_per_node)
    : watch_(watch), ranks_per_node_(ranks_per_node) {}

std::vector<GroupShape> CommunicatorSet::shapes() const {
  return group_shapes(watch_.link().ranks(), ranks_per_node_);
}

Communicator& CommunicatorSet::of(const GroupShape& shape, CopyBy copy_by) {
  for (const Made& made : made_) {
    if (made.shape == shape && made.copy_by == copy_by) {
      return *made.communicator;
    }
  }
  if (all_ == nullptr) {
    all_ = Communicator::of_all_ranks(watch_);
  }
  const auto color = static_cast<int>(group_of(watch_.link().rank(), ranks_per_node_, shape));
  return *made_.emplace_back(Made{shape, copy_by, all_->split(color, copy_by)}).communicator;
}

CollectiveBuffers::CollectiveBuffers(CommunicatorSet& communicators, const CollectivePoint& point)
    : point_(point),
      communicator_(communicators.of({.ranks = point.ranks, .ranks_per_node = point.ranks_per_node},
                                     copy_by(point))),
      watch_(communicators.watch()),
      extents_(collective_extents(point.collective, point.payload, point.ranks)) {
  if (symmetric(point)) {
    window_ = std::make_unique<SymmetricWindow>(communicator_, watch_, memory_of(extents_));
  } else {
    own_ = Buffer(memory_of(extents_));
  }
}

void* CollectiveBuffers::input() const {
  return window_ != nullptr ? window_->get() : own_.get();
}

void* CollectiveBuffers::output() const {
  return static_cast<char*>(input()) + output_offset(extents_);
}

void CollectiveBuffers::issue(const Stream& stream) const {
  issue_collective(communicator_,
                   point_.collective,
                   point_.method == kNcclCopyEngines,
                   point_.payload,
                   input(),
                   output(),
                   stream);
}

void CollectiveBuffers::verify(Device& device) const {
  fill_input(communicator_, point_.collective, point_.payload, input(), device.stream());
  issue(device.stream());
  Event end;
  end.record(device.stream());
  communicator_.await(end, in_words(Point(point_)));
  const std::uint64_t wrong =
      count_wrong(communicator_, point_.collective, point_.payload, output(), device.stream());
  if (wrong != 0) {
    throw WrongResult(fmt::format("{}: {} elements of the result are wrong on rank {}",
                                  in_words(Point(point_)),
                                  wrong,
                                  watch_.link().rank()));
  }
}

void CollectiveBuffers::check_path(Device& device) const {
  if (!symmetric(point_)) {
    return;
  }
  issue(device.stream());  // connects: what is recorded below then only runs
  Event end;
  end.record(device.stream());
  communicator_.await(end, in_words(Point(point_)));
  const std::vector<std::string> kernels =
      recorded_kernels(device.stream(), [&] { issue(device.stream()); });
  if (point_.method == kNcclCopyEngines && !kernels.empty()) {
    throw PointRefused("NCCL runs a kernel here, not the copy engines");
  }
  const bool of_symmetric_kind =
      std::any_of(kernels.begin(), kernels.end(), [](const std::string& kernel) {
        return kernel.find("Sym") != std::string::npos;
      });
  if (point_.method == kNcclSymmetric && !of_symmetric_kind) {
    throw PointRefused("NCCL runs its ordinary kernels here, not those for symmetric memory");
  }
}

CollectiveProbe::CollectiveProbe(Device& device, CommunicatorSet& communicators)
    : device_(device), communicators_(communicators) {}

std::vector<Point> CollectiveProbe::points() const {
  std::vector<GroupShape> shapes = communicators_.shapes();
  std::vector<Bytes> payloads = collective_payloads();
  if (shapes.empty()) {
    shapes.push_back({.ranks = 1, .ranks_per_node = 1});
    payloads.resize(1);
  }
  std::vector<Point> points;
  const auto add = [&](const GroupShape& shape,
                       CollectiveKind kind,
                       std::string_view method,
                       Bytes least = Bytes(0)) {
    for (const Bytes payload : payloads) {
      if (payload < least) {
        continue;
      }
      points.emplace_back(CollectivePoint{.collective = kind,
                                          .method = std::string(method),
                                          .ranks = shape.ranks,
                                          .ranks_per_node = shape.ranks_per_node,
                                          .type = ElementType::bf16,
                                          .payload = divisible_payload(payload, shape.ranks)});
    }
  };
  for (const GroupShape& shape : shapes) {
    for (const CollectiveKind kind : kKinds) {
      add(shape, kind, usual_method(kind));
    }
  }
  for (const GroupShape& shape : shapes) {
    for (const CollectiveKind kind : kKinds) {
      // Windows reach over NVLink only: groups inside a node.
      if (shape.ranks > 1 && shape.ranks == shape.ranks_per_node && symmetric_method(kind)) {
        add(shape, kind, *symmetric_method(kind), kLeastSymmetric);
      }
    }
  }
  return points;
}

void CollectiveProbe::start(MemoryStages& stages) {
  RankLink& link = communicators_.watch().link();
  if (link.ranks() < 2) {
    return;
  }
  const auto note = [&](const std::string& stage) {
    const double used = static_cast<double>(memory_state().used().value());
    stages.note(stage, Bytes(static_cast<std::int64_t>(largest(link, {used}).front())));
  };
  note("before communicators");
  for (const GroupShape& shape : communicators_.shapes()) {
    static_cast<void>(communicators_.of(shape, CopyBy::multiprocessors));
    const std::string group = fmt::format("{} ranks, {} a node", shape.ranks, shape.ranks_per_node);
    note(fmt::format("communicator of {}", group));
    for (const CollectiveKind kind : kKinds) {
      // A small one and a large one: they take different protocols, and connect for each.
      for (const Bytes payload : {Bytes(64 << 10), Bytes(256 << 20)}) {
        const CollectivePoint point{.collective = kind,
                                    .method = std::string(usual_method(kind)),
                                    .ranks = shape.ranks,
                                    .ranks_per_node = shape.ranks_per_node,
                                    .type = ElementType::bf16,
                                    .payload = divisible_payload(payload, shape.ranks)};
        const CollectiveBuffers buffers(communicators_, point);
        buffers.issue(device_.stream());
        Event end;
        end.record(device_.stream());
        buffers.communicator().await(end, in_words(Point(point)));
      }
      note(fmt::format("first {} of {}", trireme::name(kind), group));
    }
  }
}

std::unique_ptr<Trial> CollectiveProbe::prepare(const Point& any_point) {
  const auto& point = std::get<CollectivePoint>(any_point);
  if (point.ranks < 2) {
    throw PointRefused("one GPU: a collective of one rank is a copy on the device");
  }
  auto buffers = std::make_unique<CollectiveBuffers>(communicators_, point);
  buffers->check_path(device_);
  return std::make_unique<CollectiveTrial>(device_, std::move(buffers), in_words(any_point));
}

}  // namespace trireme::calibrate::gpu
