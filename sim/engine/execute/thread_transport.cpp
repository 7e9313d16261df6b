#include "sim/engine/execute/thread_transport.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "sim/units/units.h"

namespace trireme::engine {

class ThreadNetwork::Endpoint : public Transport {
 public:
  Endpoint(ThreadNetwork& network, std::int64_t rank) : network_(network), rank_(rank) {}

  [[nodiscard]] std::int64_t rank() const override { return rank_; }

  [[nodiscard]] std::int64_t ranks() const override { return network_.ranks(); }

  void send(std::int64_t to, std::span<const double> message) override {
    network_.send(rank_, to, message);
  }

  void receive(std::int64_t from, std::span<double> message) override {
    network_.receive(from, rank_, message);
  }

 private:
  ThreadNetwork& network_;
  std::int64_t rank_;
};

ThreadNetwork::ThreadNetwork(std::int64_t ranks, std::chrono::milliseconds timeout)
    : timeout_(timeout), mailboxes_(static_cast<std::size_t>(ranks)) {
  ensure(ranks >= 1, "thread network: no ranks");
  for (Mailbox& box : mailboxes_) {
    box.from.resize(mailboxes_.size());
  }
}

ThreadNetwork::~ThreadNetwork() = default;

std::unique_ptr<Transport> ThreadNetwork::endpoint(std::int64_t rank) {
  ensure(rank >= 0 && rank < ranks(), "thread network: no such rank");
  return std::make_unique<Endpoint>(*this, rank);
}

ThreadNetwork::Mailbox& ThreadNetwork::mailbox(std::int64_t rank) {
  ensure(rank >= 0 && rank < ranks(), "thread network: no such rank");
  return mailboxes_[static_cast<std::size_t>(rank)];
}

const ThreadNetwork::Mailbox& ThreadNetwork::mailbox(std::int64_t rank) const {
  return mailboxes_[static_cast<std::size_t>(rank)];
}

void ThreadNetwork::finish(std::int64_t rank) {
  fail(rank, RankFailure(rank, fmt::format("rank {} ended while another waited for it", rank)));
}

void ThreadNetwork::fail(std::int64_t rank, const RankFailure& cause) {
  const std::lock_guard lock(mutex_);
  mailbox(rank).end = cause;
  for (Mailbox& box : mailboxes_) {
    box.changed.notify_all();
  }
}

void ThreadNetwork::send(std::int64_t from, std::int64_t to, std::span<const double> message) {
  std::vector<double> copy(message.begin(), message.end());
  Mailbox& box = mailbox(to);
  const std::lock_guard lock(mutex_);
  box.from[static_cast<std::size_t>(from)].push_back(std::move(copy));
  box.changed.notify_all();
}

void ThreadNetwork::receive(std::int64_t from, std::int64_t to, std::span<double> message) {
  const Mailbox& source = mailbox(from);
  Mailbox& box = mailbox(to);
  std::deque<std::vector<double>>& waiting = box.from[static_cast<std::size_t>(from)];
  std::unique_lock lock(mutex_);
  box.waits_for = from;
  const bool in_time = box.changed.wait_for(
      lock, timeout_, [&] { return !waiting.empty() || source.end.has_value(); });
  if (!in_time) {
    throw silence(from, to);
  }
  box.waits_for.reset();
  if (waiting.empty()) {
    throw RankFailure(*source.end);
  }
  const std::vector<double> received = std::move(waiting.front());
  waiting.pop_front();
  lock.unlock();
  if (received.size() != message.size()) {
    throw std::logic_error(fmt::format("rank {} sent {} elements where rank {} expected {}",
                                       from,
                                       received.size(),
                                       to,
                                       message.size()));
  }
  std::copy(received.begin(), received.end(), message.begin());
}

/// Who is silent when `to` has waited for `from` in vain: the one at the end of the chain of ranks
/// that wait for each other.
RankFailure ThreadNetwork::silence(std::int64_t from, std::int64_t to) const {
  std::int64_t silent = from;
  for (std::int64_t hop = 0; hop < ranks() && mailbox(silent).waits_for.has_value(); ++hop) {
    silent = *mailbox(silent).waits_for;
  }
  if (mailbox(silent).waits_for.has_value()) {
    return RankFailure(from,
                       fmt::format("rank {} waits for rank {}, which waits as well: ranks wait for "
                                   "each other, for {} ms by now",
                                   to,
                                   from,
                                   timeout_.count()));
  }
  return RankFailure(
      silent,
      fmt::format(
          "rank {} is silent: rank {} has waited {} ms for it", silent, to, timeout_.count()));
}

namespace {

/// Runs one rank and tells the network how it ended. Returns what it threw.
std::exception_ptr run_rank(ThreadNetwork& network,
                            std::int64_t rank,
                            const std::function<void(std::int64_t, Transport&)>& body) {
  try {
    const std::unique_ptr<Transport> transport = network.endpoint(rank);
    body(rank, *transport);
    network.finish(rank);
    return nullptr;
  } catch (const RankFailure& failure) {
    network.fail(rank, failure);
    return std::current_exception();
  } catch (const std::exception& error) {
    network.fail(rank, RankFailure(rank, fmt::format("rank {} failed: {}", rank, error.what())));
    return std::current_exception();
  }
}

/// Whether an exception tells of the failure of a rank, which another one may have caused.
bool is_rank_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RankFailure&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void run_ranks(ThreadNetwork& network,
               const std::function<void(std::int64_t rank, Transport& transport)>& body) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(network.ranks()));
  {
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < network.ranks(); ++rank) {
      threads.emplace_back([&network, &thrown, &body, rank] {
        thrown[static_cast<std::size_t>(rank)] = run_rank(network, rank, body);
      });
    }
  }
  std::exception_ptr first;
  for (const std::exception_ptr& error : thrown) {
    if (error && (!first || (is_rank_failure(first) && !is_rank_failure(error)))) {
      first = error;
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace trireme::engine
