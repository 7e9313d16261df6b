#include "calibrate/harness/tcp_link.h"

#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "sim/engine/execute/transport.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

using Catch::Matchers::ContainsSubstring;
using std::chrono::milliseconds;

/// A port that other tests of this machine hardly use at the same time.
Rendezvous rendezvous(int number) {
  constexpr int kFirst = 40000;
  constexpr int kPorts = 2000;
  return {"127.0.0.1", static_cast<std::uint16_t>(kFirst + 10 * (::getpid() % kPorts) + number)};
}

constexpr LinkLimits kLimits{.connect = std::chrono::seconds(20),
                             .reply = std::chrono::seconds(20)};

/// Runs a body per rank on a thread of its own. Returns what each threw, in words; empty for none.
std::vector<std::string> run(std::int64_t ranks,
                             int port,
                             const LinkLimits& limits,
                             const std::function<void(RankLink& link)>& body) {
  std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto link = connect_by_tcp(rank, ranks, rendezvous(port), "test", limits);
        body(*link);
      } catch (const std::exception& error) {
        thrown[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  threads.clear();
  return thrown;
}

TEST_CASE("an id of any bytes reaches every rank") {
  std::string id(128, '\0');
  for (std::size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<char>(i * 37);
  }
  std::mutex mutex;
  int right = 0;
  const auto thrown = run(4, 0, kLimits, [&](RankLink& link) {
    const std::string received = broadcast(link, 2, link.rank() == 2 ? id : "not this");
    const std::vector<std::string> all = link.exchange(std::to_string(link.rank()));
    const std::lock_guard lock(mutex);
    right += received == id && all == std::vector<std::string>{"0", "1", "2", "3"} ? 1 : 0;
  });
  CHECK(thrown == std::vector<std::string>(4));
  CHECK(right == 4);
}

TEST_CASE("the largest of all ranks' values, place by place") {
  std::mutex mutex;
  std::vector<std::vector<double>> found;
  const auto thrown = run(3, 1, kLimits, [&](RankLink& link) {
    const auto own = static_cast<double>(link.rank());
    const std::vector<double> most = largest(link, {own, -own});
    const std::lock_guard lock(mutex);
    found.push_back(most);
  });
  CHECK(thrown == std::vector<std::string>(3));
  CHECK(found == std::vector<std::vector<double>>(3, {2.0, 0.0}));  // of 0 1 2 and 0 -1 -2
}

TEST_CASE("a rank that leaves is named to all") {
  const auto thrown = run(3, 2, kLimits, [](RankLink& link) {
    barrier(link);
    if (link.rank() != 1) {
      barrier(link);
    }
  });
  CHECK_THAT(thrown[0], ContainsSubstring("rank 1 (process "));
  CHECK_THAT(thrown[0], ContainsSubstring("its connection has ended"));
  CHECK(thrown[1].empty());
  CHECK(thrown[2] == thrown[0]);
}

TEST_CASE("a rank that fails says why to all") {
  const auto thrown = run(3, 3, kLimits, [](RankLink& link) {
    if (link.rank() == 2) {
      link.fail("the device has gone");
      return;
    }
    barrier(link);
  });
  CHECK_THAT(thrown[0], ContainsSubstring("rank 2 on "));
  CHECK_THAT(thrown[0], ContainsSubstring("has failed: the device has gone"));
  CHECK(thrown[1] == thrown[0]);
}

TEST_CASE("a silent rank is named after the time for an answer") {
  const LinkLimits limits{.connect = std::chrono::seconds(20), .reply = milliseconds(300)};
  const auto thrown = run(3, 4, limits, [](RankLink& link) {
    if (link.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(1500));
      return;
    }
    barrier(link);
  });
  CHECK_THAT(thrown[0], ContainsSubstring("is silent: rank 0 has waited 300 ms for it"));
  CHECK_THAT(thrown[0], ContainsSubstring("rank 1 "));
  CHECK(thrown[2] == thrown[0]);
}

TEST_CASE("ranks that do not come are named") {
  const LinkLimits limits{.connect = milliseconds(300), .reply = milliseconds(300)};
  std::string first;
  try {
    static_cast<void>(connect_by_tcp(0, 3, rendezvous(5), "test", limits));
  } catch (const engine::RankFailure& failure) {
    first = failure.what();
    CHECK(failure.rank() == 1);
  }
  CHECK_THAT(first, ContainsSubstring("rank 1, 2 has not connected to rank 0"));
  CHECK_THROWS_WITH(connect_by_tcp(1, 3, rendezvous(6), "test", limits),
                    ContainsSubstring("rank 1 has not reached rank 0 at 127.0.0.1:"));
}

TEST_CASE("a process of another run is not let in") {
  const LinkLimits limits{.connect = milliseconds(500), .reply = milliseconds(500)};
  std::string stray;
  std::jthread other([&] {
    try {
      static_cast<void>(connect_by_tcp(1, 2, rendezvous(7), "another run", limits));
    } catch (const std::exception& error) {
      stray = error.what();
    }
  });
  CHECK_THROWS_WITH(connect_by_tcp(0, 2, rendezvous(7), "test", limits),
                    ContainsSubstring("rank 1 has not connected"));
  other.join();
  CHECK_THAT(stray, ContainsSubstring("rank 1 has not reached rank 0"));
}

}  // namespace
}  // namespace trireme::calibrate
