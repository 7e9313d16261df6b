#include "sim/engine/execute/thread_transport.h"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace trireme::engine {
namespace {

using namespace std::chrono_literals;

/// The failure that a run ends with.
RankFailure failure_of(ThreadNetwork& network,
                       const std::function<void(std::int64_t, Transport&)>& body) {
  try {
    run_ranks(network, body);
  } catch (const RankFailure& failure) {
    return failure;
  }
  return RankFailure(-1, "no rank failed");
}

void receive_one(Transport& transport, std::int64_t from) {
  std::vector<double> message(1);
  transport.receive(from, message);
}

TEST_CASE("messages of a pair arrive in order, and sending never waits", "[execute]") {
  ThreadNetwork network(2, 20s);
  std::vector<std::int64_t> known_as(2);
  std::vector<double> arrived;
  run_ranks(network, [&](std::int64_t rank, Transport& transport) {
    known_as[static_cast<std::size_t>(rank)] = transport.rank() + 10 * transport.ranks();
    // Both send before either receives: with waiting sends this would never end.
    for (int i = 0; i < 100; ++i) {
      const std::vector<double> message = {static_cast<double>(i), static_cast<double>(rank)};
      transport.send(1 - rank, message);
    }
    for (int i = 0; i < 100; ++i) {
      std::vector<double> message(2);
      transport.receive(1 - rank, message);
      if (rank == 0) {
        arrived.push_back(message[0] + 1000 * message[1]);
      }
    }
  });
  CHECK(known_as == std::vector<std::int64_t>{20, 21});
  REQUIRE(arrived.size() == 100);
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    CHECK(arrived[i] == static_cast<double>(1000 + i));
  }
}

TEST_CASE("a silent rank is named by those that wait for it", "[execute]") {
  // Rank 0 waits for 1, which waits for 2, which sleeps beyond the time-out.
  ThreadNetwork network(3, 100ms);
  const RankFailure failure = failure_of(network, [](std::int64_t rank, Transport& transport) {
    if (rank == 2) {
      std::this_thread::sleep_for(400ms);
    } else {
      receive_one(transport, rank + 1);
    }
  });
  CHECK(failure.rank() == 2);
  CHECK_THAT(failure.what(), Catch::Matchers::ContainsSubstring("rank 2 is silent"));
}

TEST_CASE("ranks that wait for each other are told so", "[execute]") {
  ThreadNetwork network(2, 100ms);
  const RankFailure failure = failure_of(
      network, [](std::int64_t rank, Transport& transport) { receive_one(transport, 1 - rank); });
  CHECK_THAT(failure.what(), Catch::Matchers::ContainsSubstring("wait for each other"));
}

TEST_CASE("the failure of a rank wakes all ranks at once and is what the run throws", "[execute]") {
  // Everyone waits for the next rank, rank 3 throws: the others fail one after the other, each for
  // the same cause. With a time-out of 20 s this would not end in time by waiting.
  ThreadNetwork network(4, 20s);
  std::vector<std::int64_t> named(3);
  std::vector<std::string> told(3);
  const auto begin = std::chrono::steady_clock::now();
  const auto body = [&](std::int64_t rank, Transport& transport) {
    if (rank == 3) {
      throw std::domain_error("weights are not finite");
    }
    try {
      receive_one(transport, rank + 1);
    } catch (const RankFailure& failure) {
      named[static_cast<std::size_t>(rank)] = failure.rank();
      told[static_cast<std::size_t>(rank)] = failure.what();
      throw;
    }
  };
  CHECK_THROWS_AS(run_ranks(network, body), std::domain_error);
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(named[rank] == 3);
    CHECK(told[rank] == "rank 3 failed: weights are not finite");
  }
}

TEST_CASE("of several failures the lowest rank's is thrown, whichever came first", "[execute]") {
  ThreadNetwork network(4, 20s);
  const auto body = [](std::int64_t rank, Transport& transport) {
    if (rank == 1) {
      std::this_thread::sleep_for(50ms);
      throw std::domain_error("of rank 1");
    }
    if (rank == 3) {
      throw std::domain_error("of rank 3");
    }
    receive_one(transport, 3);
  };
  CHECK_THROWS_WITH(run_ranks(network, body), "of rank 1");
}

TEST_CASE("messages of a rank that failed later are still delivered", "[execute]") {
  ThreadNetwork network(2, 20s);
  double arrived = 0;
  const auto body = [&](std::int64_t rank, Transport& transport) {
    if (rank == 0) {
      const std::vector<double> message = {7};
      transport.send(1, message);
      throw std::domain_error("after sending");
    }
    std::this_thread::sleep_for(50ms);
    std::vector<double> message(1);
    transport.receive(0, message);
    arrived = message[0];
  };
  CHECK_THROWS_WITH(run_ranks(network, body), "after sending");
  CHECK(arrived == 7);
}

TEST_CASE("waiting for a rank that has ended fails at once", "[execute]") {
  ThreadNetwork network(2, 20s);
  const auto begin = std::chrono::steady_clock::now();
  const RankFailure failure = failure_of(network, [](std::int64_t rank, Transport& transport) {
    if (rank == 0) {
      receive_one(transport, 1);
    }
  });
  CHECK(failure.rank() == 1);
  CHECK_THAT(failure.what(), Catch::Matchers::ContainsSubstring("rank 1 ended"));
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

TEST_CASE("a message of another length than expected is refused", "[execute]") {
  ThreadNetwork network(2, 20s);
  const auto body = [](std::int64_t rank, Transport& transport) {
    if (rank == 0) {
      const std::vector<double> message = {1, 2, 3};
      transport.send(1, message);
    } else {
      receive_one(transport, 0);
    }
  };
  CHECK_THROWS_WITH(run_ranks(network, body), "rank 0 sent 3 elements where rank 1 expected 1");
}

}  // namespace
}  // namespace trireme::engine
