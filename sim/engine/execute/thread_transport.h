// Ranks as threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/execute/transport.h"

namespace trireme::engine {

/// Mailboxes for every pair of ranks. A rank that has ended, by itself or by a failure, leaves the
/// messages it sent; who waits for one more fails at once, with the failure that began it all. So
/// which ranks fail, and of what, does not depend on how threads are scheduled.
class ThreadNetwork {
 public:
  /// `timeout`: how long a rank waits for one message.
  ThreadNetwork(std::int64_t ranks, std::chrono::milliseconds timeout);
  ~ThreadNetwork();

  [[nodiscard]] std::int64_t ranks() const { return static_cast<std::int64_t>(mailboxes_.size()); }

  /// The end of one rank, for one thread at a time. The network outlives it.
  [[nodiscard]] std::unique_ptr<Transport> endpoint(std::int64_t rank);

  /// `rank` sends nothing more. Wakes the ranks that wait for it.
  void finish(std::int64_t rank);

  /// `rank` sends nothing more because of `cause`, which may lie in another rank.
  void fail(std::int64_t rank, const RankFailure& cause);

 private:
  class Endpoint;

  struct Mailbox {
    std::vector<std::deque<std::vector<double>>> from;  // by source
    std::condition_variable changed;
    std::optional<std::int64_t> waits_for;
    std::optional<RankFailure> end;  // what a rank is told that waits for this one in vain
  };

  void send(std::int64_t from, std::int64_t to, std::span<const double> message);
  void receive(std::int64_t from, std::int64_t to, std::span<double> message);
  [[nodiscard]] RankFailure silence(std::int64_t from, std::int64_t to) const;
  [[nodiscard]] Mailbox& mailbox(std::int64_t rank);
  [[nodiscard]] const Mailbox& mailbox(std::int64_t rank) const;

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;  // of all mailboxes
  std::vector<Mailbox> mailboxes_;
};

/// Runs `body` once per rank, each on a thread of its own, and waits for all of them. A rank that
/// throws ends the ranks that depend on it. Afterwards throws what the lowest rank threw that
/// failed by itself; a RankFailure only when no rank did.
void run_ranks(ThreadNetwork& network,
               const std::function<void(std::int64_t rank, Transport& transport)>& body);

}  // namespace trireme::engine
