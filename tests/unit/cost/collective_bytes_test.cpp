#include "sim/cost/collective_bytes.h"

#include <array>
#include <cstdint>
#include <utility>

#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

Bytes mebibytes(std::int64_t count) {
  return Bytes(count * kMebibyte);
}

/// The shapes of the exact goldens: 8 ranks of one node, 32,768 tokens, hidden size 4,096, bf16.
constexpr Group kNode{.ranks = 8, .ranks_per_node = 8};
constexpr std::int64_t kActivation = 32768LL * 4096;
constexpr std::int64_t kBlockWeights = 4LL * 4096 * 4096;  // queries, keys, values and output

TEST_CASE("chunks: the first ones hold one more", "[cost]") {
  // 10 = 3 + 3 + 2 + 2
  CHECK(chunk_elements(Elements(10), 4, 0) == Elements(3));
  CHECK(chunk_elements(Elements(10), 4, 1) == Elements(3));
  CHECK(chunk_elements(Elements(10), 4, 2) == Elements(2));
  CHECK(chunk_elements(Elements(10), 4, 3) == Elements(2));
  // one element: one chunk holds it
  CHECK(chunk_elements(Elements(1), 8, 0) == Elements(1));
  CHECK(chunk_elements(Elements(1), 8, 1) == Elements(0));
}

TEST_CASE("Megatron's block of the goldens", "[cost]") {
  // N = 32768 * 4096 * 2 = 256 MiB; all-gather and reduce-scatter send 256 * 7 / 8 = 224 MiB
  REQUIRE(bytes_of(Elements(kActivation), ElementType::bf16) == mebibytes(256));
  const Bytes gather = all_gather_bytes(Elements(kActivation), ElementType::bf16, kNode, 3).sent;
  const Bytes scatter =
      reduce_scatter_bytes(Elements(kActivation), ElementType::bf16, kNode, 3).sent;
  CHECK(gather == mebibytes(224));
  CHECK(scatter == mebibytes(224));
  CHECK(8 * gather == mebibytes(1792));                // 1.75 GiB over all ranks
  CHECK(gather + scatter == mebibytes(448));           // forward
  CHECK(2 * gather + scatter == mebibytes(672));       // backward
  CHECK(3 * gather + 2 * scatter == mebibytes(1120));  // both, 5 N (P - 1) / P
}

TEST_CASE("Ulysses' block of the goldens", "[cost]") {
  // N (P - 1) / P^2 = 256 * 7 / 64 = 28 MiB for each of Q, K, V and O
  const Bytes exchange = all_to_all_bytes(Elements(kActivation), ElementType::bf16, kNode, 0).sent;
  CHECK(exchange == mebibytes(28));
  CHECK(4 * exchange == mebibytes(112));
  CHECK(8 * exchange == mebibytes(224));  // forward and backward, 8 N (P - 1) / P^2
  // gradients in fp32: G = 4 * 4096^2 * 4 = 256 MiB, all-reduced 2 * 256 * 7 / 8 = 448 MiB
  CHECK(all_reduce_bytes(Elements(kBlockWeights), ElementType::fp32, kNode, 5).sent ==
        mebibytes(448));
}

TEST_CASE("ZeRO-3's block of the goldens", "[cost]") {
  // W = 4 * 4096^2 * 2 = 128 MiB: one gather 112 MiB; reduce-scatter of fp32 gradients 224 MiB
  const Bytes gather = all_gather_bytes(Elements(kBlockWeights), ElementType::bf16, kNode, 7).sent;
  const Bytes scatter =
      reduce_scatter_bytes(Elements(kBlockWeights), ElementType::fp32, kNode, 7).sent;
  CHECK(gather == mebibytes(112));
  CHECK(scatter == mebibytes(224));
  CHECK(gather + scatter == mebibytes(336));      // kept for backward, k = 1
  CHECK(2 * gather + scatter == mebibytes(448));  // gathered again, k = 2
}

TEST_CASE("a hop of a ring sends one block and receives one", "[cost]") {
  // keys and values of 4,096 tokens, 8 heads of 128: 2 * 4096 * 8 * 128 * 2 B = 16 MiB
  const Elements block(2LL * 4096 * 8 * 128);
  const CollectiveBytes bytes = ring_hop_bytes(block, ElementType::bf16, kNode, 2, 1);
  CHECK(bytes == CollectiveBytes{.sent = mebibytes(16), .received = mebibytes(16)});
  const Group one{.ranks = 1, .ranks_per_node = 1};
  CHECK(ring_hop_bytes(block, ElementType::bf16, one, 0, 1) == CollectiveBytes{});
}

TEST_CASE("a hop leaves the node where the other rank stands in another", "[cost]") {
  // ranks 0 to 3 and 4 to 7 on two nodes; one element of two bytes
  const Group group{.ranks = 8, .ranks_per_node = 4};
  const auto off_node = [&](std::int64_t position, std::int64_t shift) {
    const CollectiveBytes bytes =
        ring_hop_bytes(Elements(1), ElementType::bf16, group, position, shift);
    return std::pair(bytes.sent_off_node.value(), bytes.received_off_node.value());
  };
  CHECK(off_node(1, 1) == std::pair<std::int64_t, std::int64_t>(0, 0));   // to 2, from 0
  CHECK(off_node(3, 1) == std::pair<std::int64_t, std::int64_t>(2, 0));   // to 4, from 2
  CHECK(off_node(0, 1) == std::pair<std::int64_t, std::int64_t>(0, 2));   // to 1, from 7
  CHECK(off_node(0, -1) == std::pair<std::int64_t, std::int64_t>(2, 0));  // to 7, from 1
  CHECK(off_node(2, 4) == std::pair<std::int64_t, std::int64_t>(2, 2));   // to 6, from 6
}

TEST_CASE("indivisible payloads are split by elements", "[cost]") {
  SECTION("all-gather of 10 elements over 4 ranks, chunks 3 3 2 2") {
    const Group group{.ranks = 4, .ranks_per_node = 4};
    // rank 0 passes on all but rank 1's chunk: 10 - 3; it lacks all but its own: 10 - 3
    CHECK(all_gather_bytes(Elements(10), ElementType::bf16, group, 0) ==
          CollectiveBytes{.sent = Bytes(14), .received = Bytes(14)});
    // rank 1: all but rank 2's chunk, 10 - 2 elements; it lacks 10 - 3
    CHECK(all_gather_bytes(Elements(10), ElementType::bf16, group, 1) ==
          CollectiveBytes{.sent = Bytes(16), .received = Bytes(14)});
    // rank 3: all but rank 0's chunk, 10 - 3; it lacks 10 - 2
    CHECK(all_gather_bytes(Elements(10), ElementType::bf16, group, 3) ==
          CollectiveBytes{.sent = Bytes(14), .received = Bytes(16)});
  }
  SECTION("reduce-scatter of 10 elements over 4 ranks") {
    const Group group{.ranks = 4, .ranks_per_node = 4};
    // rank 2 sends all but its own chunk, 10 - 2; it receives all but rank 1's, 10 - 3
    CHECK(reduce_scatter_bytes(Elements(10), ElementType::bf16, group, 2) ==
          CollectiveBytes{.sent = Bytes(16), .received = Bytes(14)});
  }
  SECTION("a norm of one fp32 element over 8 ranks") {
    // rank 0 holds the only chunk: it is sent on in the gather only; rank 7 passes it on in the
    // scatter only; the others in both
    CHECK(all_reduce_bytes(Elements(1), ElementType::fp32, kNode, 0).sent == Bytes(4));
    CHECK(all_reduce_bytes(Elements(1), ElementType::fp32, kNode, 3).sent == Bytes(8));
    CHECK(all_reduce_bytes(Elements(1), ElementType::fp32, kNode, 7).sent == Bytes(4));
  }
  SECTION("all-to-all of 7 elements over 2 ranks: 4 and 3 held, cut into 2 2 and 2 1") {
    const Group group{.ranks = 2, .ranks_per_node = 1};
    CHECK(all_to_all_bytes(Elements(7), ElementType::fp8, group, 0) ==
          CollectiveBytes{Bytes(2), Bytes(2), Bytes(2), Bytes(2)});
    CHECK(all_to_all_bytes(Elements(7), ElementType::fp8, group, 1) ==
          CollectiveBytes{Bytes(2), Bytes(2), Bytes(2), Bytes(2)});
  }
}

TEST_CASE("the part that leaves the node", "[cost]") {
  const Group two_nodes{.ranks = 16, .ranks_per_node = 8};
  SECTION("all-to-all: (n - p) / n of what a rank holds") {
    // 16 * 16 * 10 elements: 160 held, 10 for each peer, 8 peers on the other node
    const CollectiveBytes bytes = all_to_all_bytes(Elements(2560), ElementType::bf16, two_nodes, 9);
    CHECK(bytes.sent == Bytes(300));           // 15 * 10 * 2
    CHECK(bytes.sent_off_node == Bytes(160));  // 8 * 10 * 2
    CHECK(bytes.received == Bytes(300));
    CHECK(bytes.received_off_node == Bytes(160));
  }
  SECTION("ring: 1 / p of what a rank sends") {
    // 1600 elements: 1500 sent, 1500 / 8 = 187 and 4 over: the first four ranks of a node one more
    const auto off_node = [&](std::int64_t position) {
      return all_gather_bytes(Elements(1600), ElementType::fp8, two_nodes, position).sent_off_node;
    };
    CHECK(off_node(0) == Bytes(188));
    CHECK(off_node(3) == Bytes(188));
    CHECK(off_node(4) == Bytes(187));
    CHECK(off_node(15) == Bytes(187));
    // the ranks of a node together send what one ring takes across: 4 * 188 + 4 * 187
    Bytes node;
    for (std::int64_t position = 8; position < 16; ++position) {
      node += off_node(position);
    }
    CHECK(node == Bytes(1500));
  }
  SECTION("one rank on a node: all of it") {
    const Group spread{.ranks = 4, .ranks_per_node = 1};
    CHECK(reduce_scatter_bytes(Elements(8), ElementType::fp32, spread, 1) ==
          CollectiveBytes{Bytes(24), Bytes(24), Bytes(24), Bytes(24)});
  }
}

TEST_CASE("an all-to-all with a count for each peer", "[cost]") {
  const Group group{.ranks = 4, .ranks_per_node = 2};
  const std::array<Elements, 4> to{Elements(1), Elements(20), Elements(300), Elements(4000)};
  const std::array<Elements, 4> from{Elements(5), Elements(6), Elements(7), Elements(8)};
  // rank 1 keeps 20; sends 1 + 300 + 4000, of which 4300 leave the node; receives 5 + 7 + 8
  CHECK(uneven_all_to_all_bytes(to, from, ElementType::fp8, group, 1) ==
        CollectiveBytes{Bytes(4301), Bytes(20), Bytes(4300), Bytes(15)});
  CHECK_THROWS_AS(uneven_all_to_all_bytes(std::span(to).first(3), from, ElementType::fp8, group, 1),
                  std::logic_error);
}

TEST_CASE("a group must hold the rank and fill its nodes", "[cost]") {
  const Elements payload(8);
  CHECK_THROWS_AS(all_gather_bytes(payload, ElementType::bf16, {0, 1}, 0), std::logic_error);
  CHECK_THROWS_AS(all_gather_bytes(payload, ElementType::bf16, {12, 8}, 0), std::logic_error);
  CHECK_THROWS_AS(all_gather_bytes(payload, ElementType::bf16, {8, 8}, 8), std::logic_error);
}

}  // namespace
}  // namespace trireme::cost
