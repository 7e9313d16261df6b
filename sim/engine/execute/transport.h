// Messages between the ranks of an execution: the only way in which they share anything.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>

namespace trireme::engine {

/// A rank that failed, died or fell silent: the run cannot go on. The message names it.
class RankFailure : public std::runtime_error {
 public:
  RankFailure(std::int64_t failed_rank, const std::string& message)
      : std::runtime_error(message), rank_(failed_rank) {}

  [[nodiscard]] std::int64_t rank() const { return rank_; }

 private:
  std::int64_t rank_;
};

/// One rank's end of the network. Messages from one rank to another arrive in the order in which
/// they were sent; sending never waits for the receiver.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t ranks() const = 0;

  virtual void send(std::int64_t to, std::span<const double> message) = 0;

  /// Waits for the next message from `from`, which must be as long as `message`.
  /// Throws RankFailure when it does not come within the transport's time-out.
  virtual void receive(std::int64_t from, std::span<double> message) = 0;
};

}  // namespace trireme::engine
