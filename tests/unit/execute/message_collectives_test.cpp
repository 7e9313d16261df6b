#include "sim/engine/execute/message_collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "sim/cost/collective_bytes.h"
#include "sim/engine/execute/thread_transport.h"
#include "tests/catch.h"

namespace trireme::engine {
namespace {

constexpr std::chrono::seconds kTimeout(20);

/// What a rank holds at `index` before a collective: integers, so that sums are exact in any order.
double value_of(std::int64_t rank, std::int64_t index) {
  return static_cast<double>((rank + 1) * 1000 + index * (rank % 3 - 1));
}

std::vector<double> values_of(std::int64_t rank, std::int64_t elements) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements; ++i) {
    values.push_back(value_of(rank, i));
  }
  return values;
}

/// What one rank has after a collective.
struct Outcome {
  std::vector<double> values;
  WireCount count;
};

MessageGroup all_ranks(std::int64_t ranks, std::int64_t rank) {
  MessageGroup group{.ranks = std::vector<std::int64_t>(static_cast<std::size_t>(ranks)),
                     .position = rank};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

/// Runs `body(carrier, group)`, which returns the rank's values, on `ranks` ranks.
template <class Body>
std::vector<Outcome> run(std::int64_t ranks,
                         CollectiveKind kind,
                         ElementType type,
                         std::int64_t gpus_per_node,
                         Body body) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  ThreadNetwork network(ranks, kTimeout);
  run_ranks(network, [&](std::int64_t rank, Transport& transport) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    Carrier carrier{.transport = transport,
                    .count = outcome.count,
                    .account = {.phase = Phase::backward,
                                .traffic = Traffic::gradients,
                                .component = Component::mlp,
                                .collective = kind},
                    .type = type,
                    .gpus_per_node = gpus_per_node};
    outcome.values = body(carrier, all_ranks(ranks, rank));
  });
  return outcomes;
}

Bytes sum(const std::map<std::int64_t, Bytes>& by_rank) {
  Bytes total;
  for (const auto& [rank, bytes] : by_rank) {
    total += bytes;
  }
  return total;
}

/// Every message is booked once on both ends, and a rank's bytes are those of the formula.
template <class BytesOf>
void check_bytes(const std::vector<Outcome>& outcomes, CollectiveKind kind, BytesOf bytes_of_rank) {
  const auto ranks = static_cast<std::int64_t>(outcomes.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const WireCount& count = outcomes[static_cast<std::size_t>(rank)].count;
    const cost::CollectiveBytes expected = bytes_of_rank(cost::Group{ranks, ranks}, rank);
    CHECK(count.ledger.sent == expected.sent);
    CHECK(count.ledger.received == expected.received);
    CHECK(count.ledger.sent_by_collective[ledger::index(kind)] == expected.sent);
    CHECK(count.ledger.sent_by_phase[ledger::index(Phase::backward)] == expected.sent);
    CHECK(count.ledger.sent_by_traffic[ledger::index(Traffic::gradients)]
                                      [ledger::index(Component::mlp)] == expected.sent);
    CHECK(sum(count.sent_to) == expected.sent);
    CHECK(sum(count.received_from) == expected.received);
    for (const auto& [peer, sent] : count.sent_to) {
      CHECK(peer != rank);
      CHECK(outcomes[static_cast<std::size_t>(peer)].count.received_from.at(rank) == sent);
    }
  }
}

const std::vector<std::int64_t> kGroupSizes = {1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST_CASE("all_gather: every rank has the shards in order of position", "[execute]") {
  const std::int64_t ranks = GENERATE(from_range(kGroupSizes));
  const std::int64_t shard = GENERATE(1, 5, 8);
  CAPTURE(ranks, shard);
  const std::vector<Outcome> outcomes = run(
      ranks, CollectiveKind::all_gather, ElementType::bf16, ranks, [&](auto& carrier, auto group) {
        std::vector<double> gathered(static_cast<std::size_t>(ranks * shard));
        all_gather(carrier, group, values_of(group.position, shard), gathered);
        return gathered;
      });
  std::vector<double> expected;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<double> part = values_of(rank, shard);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.values == expected);
  }
  check_bytes(outcomes, CollectiveKind::all_gather, [&](cost::Group group, std::int64_t position) {
    return cost::all_gather_bytes(Elements(ranks * shard), ElementType::bf16, group, position);
  });
}

TEST_CASE("hop: every rank has the block of the rank as far back", "[execute]") {
  const std::int64_t ranks = GENERATE(2, 3, 5, 8);
  const std::int64_t shift = GENERATE(1, -1, 2, 7);
  if (shift % ranks == 0 || shift >= ranks) {
    return;
  }
  CAPTURE(ranks, shift);
  const std::vector<Outcome> outcomes = run(
      ranks, CollectiveKind::send_recv, ElementType::bf16, ranks, [&](auto& carrier, auto group) {
        std::vector<double> received(5);
        hop(carrier, group, shift, values_of(group.position, 5), received);
        return received;
      });
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    CHECK(outcomes[static_cast<std::size_t>(rank)].values ==
          values_of((rank - shift + ranks) % ranks, 5));
  }
  check_bytes(outcomes, CollectiveKind::send_recv, [&](cost::Group group, std::int64_t position) {
    return cost::ring_hop_bytes(Elements(5), ElementType::bf16, group, position, shift);
  });
}

TEST_CASE("reduce_scatter: every rank has its chunk of the sum or the maximum", "[execute]") {
  const std::int64_t ranks = GENERATE(from_range(kGroupSizes));
  const std::int64_t shard = GENERATE(1, 5, 8);
  const Combine combine = GENERATE(Combine::sum, Combine::max);
  CAPTURE(ranks, shard, combine == Combine::max);
  const std::vector<Outcome> outcomes =
      run(ranks,
          CollectiveKind::reduce_scatter,
          ElementType::fp32,
          ranks,
          [&](auto& carrier, auto group) {
            std::vector<double> own(static_cast<std::size_t>(shard));
            reduce_scatter(carrier, group, values_of(group.position, ranks * shard), own, combine);
            return own;
          });
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> expected;
    for (std::int64_t i = rank * shard; i < (rank + 1) * shard; ++i) {
      double result = value_of(0, i);
      for (std::int64_t other = 1; other < ranks; ++other) {
        result = combine == Combine::sum ? result + value_of(other, i)
                                         : std::max(result, value_of(other, i));
      }
      expected.push_back(result);
    }
    CAPTURE(rank);
    CHECK(outcomes[static_cast<std::size_t>(rank)].values == expected);
  }
  check_bytes(
      outcomes, CollectiveKind::reduce_scatter, [&](cost::Group group, std::int64_t position) {
        return cost::reduce_scatter_bytes(
            Elements(ranks * shard), ElementType::fp32, group, position);
      });
}

TEST_CASE("all_reduce: every rank has the sum or the maximum", "[execute]") {
  const std::int64_t ranks = GENERATE(from_range(kGroupSizes));
  // None, fewer than ranks, an odd number, a multiple of all group sizes but 5 and 7.
  const std::int64_t elements = GENERATE(0, 1, 3, 37, 72);
  const Combine combine = GENERATE(Combine::sum, Combine::max);
  CAPTURE(ranks, elements, combine == Combine::max);
  const std::vector<Outcome> outcomes = run(
      ranks, CollectiveKind::all_reduce, ElementType::fp32, ranks, [&](auto& carrier, auto group) {
        std::vector<double> values = values_of(group.position, elements);
        all_reduce(carrier, group, values, combine);
        return values;
      });
  std::vector<double> expected = values_of(0, elements);
  for (std::int64_t other = 1; other < ranks; ++other) {
    for (std::int64_t i = 0; i < elements; ++i) {
      double& result = expected[static_cast<std::size_t>(i)];
      result = combine == Combine::sum ? result + value_of(other, i)
                                       : std::max(result, value_of(other, i));
    }
  }
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.values == expected);
  }
  check_bytes(outcomes, CollectiveKind::all_reduce, [&](cost::Group group, std::int64_t position) {
    return cost::all_reduce_bytes(Elements(elements), ElementType::fp32, group, position);
  });
}

TEST_CASE("all_reduce: all ranks have the same bits, also where sums round", "[execute]") {
  const std::int64_t ranks = GENERATE(2, 5, 8);
  const std::vector<Outcome> outcomes = run(
      ranks, CollectiveKind::all_reduce, ElementType::fp32, ranks, [&](auto& carrier, auto group) {
        std::vector<double> values;
        for (std::int64_t i = 0; i < 23; ++i) {
          values.push_back(1.0 / static_cast<double>(3 + 7 * group.position + i));
        }
        all_reduce(carrier, group, values, Combine::sum);
        return values;
      });
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.values == outcomes.front().values);
  }
  // 1/3 + 1/10 = 13/30 are the first terms; the whole sum to rounding
  double first = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    first += 1.0 / static_cast<double>(3 + 7 * rank);
  }
  CHECK(outcomes.front().values.front() == Approx(first).epsilon(1e-15));
}

TEST_CASE("all_to_all: chunk i goes to position i", "[execute]") {
  const std::int64_t ranks = GENERATE(from_range(kGroupSizes));
  const std::int64_t piece = GENERATE(1, 3, 4);
  CAPTURE(ranks, piece);
  const std::vector<Outcome> outcomes = run(
      ranks, CollectiveKind::all_to_all, ElementType::bf16, ranks, [&](auto& carrier, auto group) {
        std::vector<double> to(static_cast<std::size_t>(ranks * piece));
        all_to_all(carrier, group, values_of(group.position, ranks * piece), to);
        return to;
      });
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> expected;
    for (std::int64_t source = 0; source < ranks; ++source) {
      for (std::int64_t i = 0; i < piece; ++i) {
        expected.push_back(value_of(source, rank * piece + i));
      }
    }
    CAPTURE(rank);
    CHECK(outcomes[static_cast<std::size_t>(rank)].values == expected);
  }
  check_bytes(outcomes, CollectiveKind::all_to_all, [&](cost::Group group, std::int64_t position) {
    return cost::all_to_all_bytes(
        Elements(ranks * ranks * piece), ElementType::bf16, group, position);
  });
}

TEST_CASE("a group of one moves nothing", "[execute]") {
  std::vector<Outcome> outcomes =
      run(1, CollectiveKind::all_reduce, ElementType::bf16, 1, [&](auto& carrier, auto group) {
        std::vector<double> values = {1, 2, 3};
        all_reduce(carrier, group, values, Combine::sum);
        return values;
      });
  CHECK(outcomes[0].values == std::vector<double>{1, 2, 3});
  CHECK(outcomes[0].count.ledger.sent == Bytes(0));
  CHECK(outcomes[0].count.sent_to.empty());
}

TEST_CASE("groups that are parts of the ranks do not mix", "[execute]") {
  // Ranks 0 2 4 and 1 3 5; each sums its own rank numbers plus one: 1 + 3 + 5 = 9, 2 + 4 + 6 = 12.
  std::vector<double> sums(6);
  ThreadNetwork network(6, kTimeout);
  run_ranks(network, [&](std::int64_t rank, Transport& transport) {
    WireCount count;
    Carrier carrier{.transport = transport, .count = count, .account = {}};
    const MessageGroup group{.ranks = {rank % 2, 2 + rank % 2, 4 + rank % 2}, .position = rank / 2};
    std::vector<double> value = {static_cast<double>(rank + 1)};
    all_reduce(carrier, group, value, Combine::sum);
    sums[static_cast<std::size_t>(rank)] = value[0];
  });
  CHECK(sums == std::vector<double>{9, 12, 9, 12, 9, 12});
}

TEST_CASE("messages between nodes are booked as off the node", "[execute]") {
  // 4 ranks on 2 nodes, 3 elements of bf16 for each peer: 6 bytes to each, two peers off the node.
  const std::vector<Outcome> outcomes =
      run(4, CollectiveKind::all_to_all, ElementType::bf16, 2, [&](auto& carrier, auto group) {
        std::vector<double> to(12);
        all_to_all(carrier, group, values_of(group.position, 12), to);
        return to;
      });
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const WireCount& count = outcomes[static_cast<std::size_t>(rank)].count;
    CHECK(count.ledger.sent_by_link[ledger::index(LinkClass::nvlink)] == Bytes(6));
    CHECK(count.ledger.sent_by_link[ledger::index(LinkClass::nic)] == Bytes(12));
    CHECK(count.sent_to.at((rank + 1) % 4) == Bytes(6));
    const cost::Group group{.ranks = 4, .ranks_per_node = 2};
    CHECK(cost::all_to_all_bytes(Elements(48), ElementType::bf16, group, rank).sent_off_node ==
          Bytes(12));
  }
}

TEST_CASE("a ring over two nodes leaves each node at one rank", "[execute]") {
  // An all-gather of 4 shards of 5 elements in bf16: each rank sends 3 shards = 30 bytes to its
  // successor. Ranks 1 and 3 have theirs on the other node. The ledger spreads the exits over the
  // ranks of a node, so that the parts agree in total only: 2 x 30 = 4 x 15 bytes.
  const std::vector<Outcome> outcomes =
      run(4, CollectiveKind::all_gather, ElementType::bf16, 2, [&](auto& carrier, auto group) {
        std::vector<double> gathered(20);
        all_gather(carrier, group, values_of(group.position, 5), gathered);
        return gathered;
      });
  Bytes off_node;
  Bytes spread;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const Bytes nic = outcomes[static_cast<std::size_t>(rank)]
                          .count.ledger.sent_by_link[ledger::index(LinkClass::nic)];
    CHECK(nic == Bytes(rank % 2 == 1 ? 30 : 0));
    off_node += nic;
    const cost::Group group{.ranks = 4, .ranks_per_node = 2};
    spread += cost::all_gather_bytes(Elements(20), ElementType::bf16, group, rank).sent_off_node;
  }
  CHECK(off_node == Bytes(60));
  CHECK(spread == Bytes(60));
}

TEST_CASE("buffers that do not fit the group are refused", "[execute]") {
  ThreadNetwork network(2, kTimeout);
  const auto gather = [](std::int64_t rank, Transport& transport) {
    WireCount count;
    Carrier carrier{.transport = transport, .count = count, .account = {}};
    std::vector<double> gathered(5);
    all_gather(carrier, all_ranks(2, rank), values_of(rank, 3), gathered);
  };
  CHECK_THROWS_WITH(run_ranks(network, gather),
                    Catch::Matchers::ContainsSubstring("not a shard for each rank"));
}

}  // namespace
}  // namespace trireme::engine
