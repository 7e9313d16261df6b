// How the ranks of a measurement agree: small messages, beside what is measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/units/units.h"

namespace trireme::calibrate {

/// How long a run waits before it gives a rank up.
struct LinkLimits {
  std::chrono::milliseconds connect = std::chrono::seconds(60);  // for all ranks to start
  std::chrono::milliseconds reply = std::chrono::seconds(60);    // for one message of each
};

/// One rank's end. All ranks call exchange() in the same order.
class RankLink {
 public:
  RankLink() = default;
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;
  virtual ~RankLink() = default;

  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t ranks() const = 0;

  /// The message of every rank, by rank. Bytes of any value. Throws RankFailure, which names the
  /// rank and its host, when one does not answer in time or is gone.
  [[nodiscard]] virtual std::vector<std::string> exchange(const std::string& message) = 0;

  /// Throws RankFailure when another rank is known to have failed; does not wait. For loops that
  /// wait for a device.
  virtual void poll() = 0;

  /// Tells the other ranks that this one has failed and why, as far as that can still be done.
  virtual void fail(const std::string& reason) noexcept = 0;
};

/// A process of its own.
class SingleRank final : public RankLink {
 public:
  [[nodiscard]] std::int64_t rank() const override { return 0; }

  [[nodiscard]] std::int64_t ranks() const override { return 1; }

  [[nodiscard]] std::vector<std::string> exchange(const std::string& message) override {
    return {message};
  }

  void poll() override {}

  void fail(const std::string& /*reason*/) noexcept override {}
};

/// Returns when all ranks have called it.
void barrier(RankLink& link);

/// The text of `rank`, an id of a communicator for one, on every rank.
[[nodiscard]] std::string broadcast(RankLink& link, std::int64_t rank, const std::string& message);

/// Place by place the largest of all ranks' values. All ranks give as many.
[[nodiscard]] std::vector<double> largest(RankLink& link, const std::vector<double>& values);

/// How the ranks lie on hosts.
struct Placement {
  std::vector<std::string> hosts;   // each once, in the order of their first ranks
  std::int64_t ranks_per_host = 0;  // of the first host
  bool uniform = true;              // as many ranks on every host, and consecutive
  std::int64_t local_rank = 0;      // place of this rank on its host
};

[[nodiscard]] Placement find_placement(RankLink& link);

}  // namespace trireme::calibrate
