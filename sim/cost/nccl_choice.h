// Which algorithm and protocol NCCL takes for a collective: the one of which it expects the least
// time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/units/units.h"

namespace trireme::cost {

enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
inline constexpr std::size_t kNcclProtocols = 3;
inline constexpr std::array<std::string_view, kNcclProtocols> kNcclProtocolNames = {
    "LL", "LL128", "Simple"};

enum class NcclAlgorithm : std::uint8_t { ring, tree, nvls, nvls_tree, pat };
inline constexpr std::array<std::string_view, 5> kNcclAlgorithmNames = {
    "ring", "tree", "NVLS", "NVLS tree", "PAT"};

enum class NcclCollective : std::uint8_t { all_gather, reduce_scatter, all_reduce };

template <class T>
using ByProtocol = std::array<T, kNcclProtocols>;

/// On one node, on two, on more.
template <class T>
using ByNodes = std::array<T, 3>;

/// Base latency, and latency per step on each kind of link.
struct NcclLatencies {
  ByProtocol<Seconds> base;
  ByProtocol<Seconds> nvlink;
  ByProtocol<Seconds> pcie;
  ByProtocol<Seconds> network;
};

struct NcclRing {
  NcclLatencies latency;
  double ll_factor = 0;
  double ll128_factor = 0;
  double ll128_factor_one_gpu_per_node = 0;
  bool tree_latency_with_one_gpu_per_node = false;
  ByProtocol<Seconds> network_overhead;
  Bytes plateau_from;
  double plateau_factor_before_ampere = 0;
  double plateau_factor_from_ampere = 0;
};

struct NcclTree {
  NcclLatencies latency;
  double factor = 0;
  double ll_factor = 0;
  double ll128_factor_one_node = 0;
  double ll128_factor = 0;
  ByProtocol<std::vector<double>> correction;  // of sizes of 64 bytes, 128 bytes, ...
};

/// How releases estimate NVLS from the bandwidth of a channel.
enum class NcclNvlsForm : std::uint8_t {
  least,                // the least of the channel's in a node and between nodes
  least_by_collective,  // that of an all-reduce; of others without the own part
  efficiency            // a fraction of it, without a channel's part, an all-reduce twice
};

struct NcclNvls {
  NcclNvlsForm form = NcclNvlsForm::efficiency;
  std::optional<double> all_reduce_factor;  // over bus bandwidth; absent: ranks over steps
  Seconds latency;
  Seconds tree_latency;
  Seconds tree_network_latency;
};

struct NcclPat {
  Seconds base_latency;
  double factor = 0;
  double log_divisor = 0;
  Seconds per_rank;
};

struct NcclArchitecture {
  bool before_ampere = false;
  bool after_ampere = false;
  std::int64_t nvlinks = 0;
  BytesPerSecond nvlink;                       // of one of them
  std::vector<BytesPerSecond> speeds_in_node;  // of a channel, descending
  std::vector<BytesPerSecond> speeds_between_nodes;
  ByNodes<BytesPerSecond> ll_most;
  ByNodes<BytesPerSecond> ring_ll128_channel;
  ByNodes<BytesPerSecond> tree_channel;
  ByNodes<BytesPerSecond> tree_ll128_channel;
  std::optional<ByNodes<BytesPerSecond>> nvls_tree_channel;  // absent: no cap
  std::optional<double> nvls_efficiency;                     // absent: no NVLS
};

struct NcclDoubling {
  BytesPerSecond from{0};
  BytesPerSecond after_ampere_from{0};
  std::int64_t after_ampere_channels = 0;
};

/// The constants of one release, for one architecture.
struct NcclTuning {
  NcclRing ring;
  NcclTree tree;
  double slowest_tried = 0;  // bandwidth of a channel, over that of the best so far
  NcclDoubling doubling;
  NcclNvls nvls;
  std::optional<NcclPat> pat;
  NcclArchitecture architecture;
  ByNodes<BytesPerSecond> ll_most_over_nodes;  // by the host's processor, Intel's
};

/// The ranks of a communicator as NCCL sees them.
struct NcclCommunicator {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;          // each with as many ranks
  bool nvswitch = true;            // else PCIe inside a node
  BytesPerSecond pcie{1};          // of a GPU, where there is no NVSwitch
  std::int64_t nics_per_node = 1;  // that the ranks use
  BytesPerSecond nic{1};
};

struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  Seconds expected;  // by NCCL's own estimate
};

/// Channels and the bandwidth of one, as NCCL's search finds them.
struct NcclChannels {
  std::int64_t count = 0;
  BytesPerSecond bandwidth{0};
};

/// The channels of rings and trees.
///
/// EQ nccl-channels: s n largest over the speeds s, the fastest of equals, down to slowest_tried of
///   the best; n = floor(B / s), over nodes at most the NICs, and s at most nic. Then twice as many
///   of half the speed where s is at least doubling.from, after Ampere with more than
///   doubling.after_ampere_channels at least doubling.after_ampere_from
///   B  nvlinks times nvlink, or pcie    [bytes/second]
///   s  a channel's bandwidth            [bytes/second]
///   n  channels                         [1]
/// Source: nccl, src/graph/search.cc, ncclTopoCompute, ncclTopoCompareGraphs, ncclTopoDupChannels
/// Valid:  nodes whose GPUs are all alike, with NVSwitch or one PCIe tree
/// Tests:  tests/unit/config/nccl_tuning_test.cpp
[[nodiscard]] NcclChannels nccl_channels(const NcclCommunicator& communicator,
                                         const NcclTuning& tuning);

/// What NCCL expects one way of doing a collective to take; empty for a way that it does not take.
/// `amount` is the gathered or reduced buffer.
///
/// EQ nccl-time: T = L + S / (B r)
///   S  amount                                                                   [bytes]
///   B  bus bandwidth: channels times their bandwidth, times a factor of algorithm and protocol,
///      at most a cap                                                            [bytes/second]
///   r  over bus bandwidth: of rings k n / (n - 1), k = 1/2 in an all-reduce, else 1; of trees 1/2;
///      of NVLS in an all-reduce as of rings or nvls.all_reduce_factor, else 1   [1]
///   L  of a ring base + (t - x) max(hop, overhead) + x network, t = (n - 1) / k, x = (m - 1) / k;
///      of a tree base + 2 ((n / m - 1) hop + floor(log2 m) network)             [seconds]
///   n  ranks                                                                    [ranks]
///   m  nodes                                                                    [1]
/// Source: nccl, src/graph/tuning.cc, ncclTopoTuneModel and ncclTopoGetAlgoTime
/// Valid:  hosts with processors of Intel, no SHARP, no settings by environment. A prior: 8 H100
///   within 8 % from 32 MiB, small sizes and many nodes worse
/// Tests:  tests/unit/config/nccl_tuning_test.cpp
[[nodiscard]] std::optional<Seconds> nccl_time(NcclCollective collective,
                                               Bytes amount,
                                               NcclAlgorithm algorithm,
                                               NcclProtocol protocol,
                                               const NcclCommunicator& communicator,
                                               const NcclTuning& tuning);

/// The way of which NCCL expects the least time; of equals the first. Two ranks or more.
[[nodiscard]] NcclChoice nccl_choice(NcclCollective collective,
                                     Bytes amount,
                                     const NcclCommunicator& communicator,
                                     const NcclTuning& tuning);

}  // namespace trireme::cost
