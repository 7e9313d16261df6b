#include "calibrate/probe/cpu/mpi_collectives.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calibrate/harness/stopwatch.h"
#include "calibrate/probe/cpu/executor_collectives.h"
#include "calibrate/probe/cpu/executor_trial.h"

namespace trireme::calibrate {

namespace {

/// One collective of one group on this rank.
class MpiTrial final : public Trial {
 public:
  MpiTrial(engine::MpiCalls& mpi, MPI_Comm group, const CollectivePoint& point)
      : mpi_(mpi), group_(group), kind_(point.collective), ranks_(point.ranks) {
    position_ = mpi.rank() % ranks_;
    const std::int64_t elements = point.payload.value() / width(ElementType::fp64);
    const bool sends_part = kind_ == CollectiveKind::all_gather;
    const bool takes_part = kind_ == CollectiveKind::reduce_scatter;
    sent_ = sends_part ? elements / ranks_ : elements;
    received_ = takes_part ? elements / ranks_ : elements;
    const std::int64_t sets = rotated_layers(sent_ + received_);
    for (std::int64_t set = 0; set < sets; ++set) {
      Buffers& buffers = buffers_.emplace_back();
      for (std::int64_t i = 0; i < sent_; ++i) {
        buffers.sent.push_back(value(position_, i));
      }
      buffers.received.assign(static_cast<std::size_t>(received_), -1.0);
    }
  }

  void verify() override {
    run_once(buffers_[0]);
    for (std::int64_t i = 0; i < received_; ++i) {
      const double found = buffers_[0].received[static_cast<std::size_t>(i)];
      if (found != expected(i)) {
        throw WrongResult(fmt::format(
            "{}: element {} is {} where it has to be {}", name(kind_), i, found, expected(i)));
      }
    }
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    mpi_.complete("MPI_Ibarrier",
                  [&](MPI_Request* request) { return MPI_Ibarrier(group_, request); });
    HostStopwatch watch;
    watch.start();
    for (std::int64_t i = 0; i < times; ++i) {
      run_once(buffers_[next_++ % buffers_.size()]);
    }
    return (1.0 / static_cast<double>(times)) * watch.stop();
  }

 private:
  struct Buffers {
    std::vector<double> sent;
    std::vector<double> received;
  };

  /// What a rank sends: whole numbers, so that sums are exact, another of every rank.
  static double value(std::int64_t position, std::int64_t element) {
    constexpr std::int64_t kValues = 997;
    return static_cast<double>((element * 31 + position * 17) % kValues);
  }

  [[nodiscard]] double sum(std::int64_t element) const {
    double total = 0;
    for (std::int64_t position = 0; position < ranks_; ++position) {
      total += value(position, element);
    }
    return total;
  }

  /// Element `i` of what this rank receives.
  [[nodiscard]] double expected(std::int64_t i) const {
    const std::int64_t chunk = sent_ / ranks_;
    switch (kind_) {
      case CollectiveKind::all_gather:
        return value(i / sent_, i % sent_);
      case CollectiveKind::reduce_scatter:
        return sum(position_ * received_ + i);
      case CollectiveKind::all_reduce:
        return sum(i);
      case CollectiveKind::all_to_all:
        return value(i / chunk, position_ * chunk + i % chunk);
      case CollectiveKind::send_recv:
        break;
    }
    return value((position_ + ranks_ - 1) % ranks_, i);
  }

  void run_once(Buffers& buffers) {
    const double* const from = buffers.sent.data();
    double* const to = buffers.received.data();
    const int chunk = static_cast<int>(sent_ / ranks_);
    switch (kind_) {
      case CollectiveKind::all_gather:
        return mpi_.complete("MPI_Iallgather", [&](MPI_Request* request) {
          return MPI_Iallgather(from,
                                static_cast<int>(sent_),
                                MPI_DOUBLE,
                                to,
                                static_cast<int>(sent_),
                                MPI_DOUBLE,
                                group_,
                                request);
        });
      case CollectiveKind::reduce_scatter:
        return mpi_.complete("MPI_Ireduce_scatter_block", [&](MPI_Request* request) {
          return MPI_Ireduce_scatter_block(
              from, to, static_cast<int>(received_), MPI_DOUBLE, MPI_SUM, group_, request);
        });
      case CollectiveKind::all_reduce:
        return mpi_.complete("MPI_Iallreduce", [&](MPI_Request* request) {
          return MPI_Iallreduce(
              from, to, static_cast<int>(sent_), MPI_DOUBLE, MPI_SUM, group_, request);
        });
      case CollectiveKind::all_to_all:
        return mpi_.complete("MPI_Ialltoall", [&](MPI_Request* request) {
          return MPI_Ialltoall(from, chunk, MPI_DOUBLE, to, chunk, MPI_DOUBLE, group_, request);
        });
      case CollectiveKind::send_recv:
        return pass_on(from, to);
    }
  }

  /// Sends to the next rank of the ring and receives from the one before.
  void pass_on(const double* from, double* to) {
    const int next = static_cast<int>((position_ + 1) % ranks_);
    const int previous = static_cast<int>((position_ + ranks_ - 1) % ranks_);
    MPI_Request receiving = MPI_REQUEST_NULL;
    mpi_.complete("MPI_Isend", [&](MPI_Request* request) {
      const int code =
          MPI_Irecv(to, static_cast<int>(received_), MPI_DOUBLE, previous, 0, group_, &receiving);
      return code != MPI_SUCCESS
                 ? code
                 : MPI_Isend(from, static_cast<int>(sent_), MPI_DOUBLE, next, 0, group_, request);
    });
    mpi_.complete("MPI_Irecv", [&](MPI_Request* request) {
      *request = receiving;
      return MPI_SUCCESS;
    });
  }

  engine::MpiCalls& mpi_;
  MPI_Comm group_;
  CollectiveKind kind_;
  std::int64_t ranks_;
  std::int64_t position_ = 0;
  std::int64_t sent_ = 0;  // elements that this rank gives
  std::int64_t received_ = 0;
  std::vector<Buffers> buffers_;
  std::size_t next_ = 0;
};

class MpiProbe final : public Probe {
 public:
  MpiProbe(engine::MpiCalls& mpi, std::int64_t ranks_per_node, Grid grid)
      : mpi_(mpi), ranks_per_node_(ranks_per_node), grid_(grid) {}

  // Communicators are left to MPI_Finalize: to free one waits for its other ranks, which may have
  // failed.

  [[nodiscard]] std::string_view name() const override { return "mpi"; }

  [[nodiscard]] std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const CollectiveKind kind : {CollectiveKind::all_to_all,
                                      CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_reduce,
                                      CollectiveKind::send_recv}) {
      for (const std::int64_t ranks : group_sizes(mpi_.ranks())) {
        for (const Bytes payload : payload_sizes(grid_)) {
          points.emplace_back(CollectivePoint{.collective = kind,
                                              .method = "mpi",
                                              .ranks = ranks,
                                              .ranks_per_node = std::min(ranks, ranks_per_node_),
                                              .type = ElementType::fp64,
                                              .payload = whole_chunks(payload, ranks)});
        }
      }
    }
    return points;
  }

  void start(MemoryStages& /*stages*/) override {
    for (const std::int64_t ranks : group_sizes(mpi_.ranks())) {
      const int group = static_cast<int>(mpi_.rank() / ranks);
      mpi_.run_blocking("MPI_Comm_split", [&] {
        return MPI_Comm_split(
            MPI_COMM_WORLD, group, static_cast<int>(mpi_.rank()), &groups_[ranks]);
      });
    }
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    const auto& collective = std::get<CollectivePoint>(point);
    return std::make_unique<MpiTrial>(mpi_, groups_.at(collective.ranks), collective);
  }

 private:
  /// A payload that is cut into as many chunks of whole elements as there are ranks.
  static Bytes whole_chunks(Bytes payload, std::int64_t ranks) {
    return Bytes(pad_to(payload.value(), ranks * width(ElementType::fp64)));
  }

  engine::MpiCalls& mpi_;
  std::int64_t ranks_per_node_;
  Grid grid_;
  std::map<std::int64_t, MPI_Comm> groups_;  // this rank's, by size
};

}  // namespace

std::unique_ptr<Probe> mpi_collectives(engine::MpiCalls& mpi,
                                       std::int64_t ranks_per_node,
                                       Grid grid) {
  return std::make_unique<MpiProbe>(mpi, ranks_per_node, grid);
}

}  // namespace trireme::calibrate
