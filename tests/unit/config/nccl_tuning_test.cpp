// NCCL's constants as the presets have them, and what NCCL chooses by them.
#include "sim/config/nccl_tuning.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "sim/config/embedded_files.h"
#include "sim/config/yaml_reader.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

using Catch::Matchers::ContainsSubstring;
using cost::nccl_channels;
using cost::nccl_choice;
using cost::nccl_time;
using cost::NcclAlgorithm;
using cost::NcclChoice;
using cost::NcclCollective;
using cost::NcclCommunicator;
using cost::NcclProtocol;
using cost::NcclTuning;

constexpr double kExact = 1e-9;

NcclTuning tuning(std::string_view version, std::string_view gpu) {
  const auto spec = nccl_tuning(version, gpu);
  REQUIRE(spec);
  return spec->tuning;
}

NcclCommunicator one_node(std::int64_t ranks) {
  NcclCommunicator communicator;
  communicator.ranks = ranks;
  return communicator;
}

/// Nodes of eight with a NIC of 400 Gbit/s for each GPU.
NcclCommunicator nodes_of_eight(std::int64_t nodes) {
  NcclCommunicator communicator;
  communicator.ranks = 8 * nodes;
  communicator.nodes = nodes;
  communicator.nics_per_node = 8;
  communicator.nic = BytesPerSecond(50e9);
  return communicator;
}

TEST_CASE("every release is read for every architecture that it knows", "[config]") {
  const std::vector<std::string> releases = nccl_releases();
  REQUIRE(releases == std::vector<std::string>{"2.21.5", "2.23.4", "2.27.7", "2.28.9", "2.30.7"});
  for (const std::string& release : releases) {
    CAPTURE(release);
    for (const char* gpu : {"v100", "a100-sxm-80", "h100-sxm", "h200-sxm"}) {
      CAPTURE(gpu);
      const auto spec = nccl_tuning(release, gpu);
      REQUIRE(spec);
      CHECK(spec->release == release);
      CHECK_THAT(spec->source, ContainsSubstring("nccl, tag v" + release));
    }
    CHECK(nccl_tuning(release, "b200-sxm").has_value() == (release >= "2.27"));
    CHECK_FALSE(nccl_tuning(release, "mi300x"));
  }
}

TEST_CASE("a version takes the newest release that is not newer", "[config]") {
  const auto release = [](std::string_view version) {
    return nccl_tuning(version, "h100-sxm")->release;
  };
  CHECK(release("2.27") == "2.27.7");
  CHECK(release("2.27.3 to 2.29.2") == "2.23.4");
  CHECK(release("2.29.2") == "2.28.9");
  CHECK(release("2.18.1") == "2.21.5");  // older than all
  CHECK(release("3") == "2.30.7");
  CHECK(release("") == "2.30.7");
}

TEST_CASE("NCCL's channels on one node and on several", "[config]") {
  const auto channels = [](const NcclCommunicator& communicator, const NcclTuning& of) {
    const auto found = nccl_channels(communicator, of);
    return std::pair(found.count, found.bandwidth.value() / 1e9);
  };
  // 18 x 20.6 = 370.8: 6 x 60 is as much as 9 x 40 or 12 x 30, and faster; doubled.
  CHECK(channels(one_node(8), tuning("2.30", "h100-sxm")) == std::pair(std::int64_t{12}, 30.0));
  // 12 x 20 = 240: 6 x 40, doubled.
  CHECK(channels(one_node(8), tuning("2.30", "a100-sxm-80")) == std::pair(std::int64_t{12}, 20.0));
  // 18 x 40.1 = 721.8: 8 x 90, doubled.
  CHECK(channels(one_node(8), tuning("2.30", "b200-sxm")) == std::pair(std::int64_t{16}, 45.0));
  // Over nodes 7 x 48 = 336, but 8 x 45 = 360.
  CHECK(channels(nodes_of_eight(2), tuning("2.30", "h100-sxm")) ==
        std::pair(std::int64_t{8}, 45.0));
}

TEST_CASE("NCCL's estimates by hand: 8 x H100", "[config]") {
  const NcclTuning h100 = tuning("2.30", "h100-sxm");
  const Bytes large(std::int64_t{32} << 20);
  const auto microseconds =
      [&](NcclCollective collective, Bytes amount, NcclAlgorithm algorithm, NcclProtocol protocol) {
        return nccl_time(collective, amount, algorithm, protocol, one_node(8), h100)->value() * 1e6;
      };
  // 8.4 + 7 x 3.4 = 32.2 us; 33,554,432 x 7/8 over 360 GB/s.
  CHECK(
      microseconds(NcclCollective::all_gather, large, NcclAlgorithm::ring, NcclProtocol::simple) ==
      Approx(32.2 + 33'554'432 * 7.0 / 8 / 360e3).epsilon(kExact));
  // 14 + 7 x 1.9 = 27.3 us; 0.92 of 360 GB/s, less than 12 x 36.7.
  CHECK(microseconds(NcclCollective::all_gather, large, NcclAlgorithm::ring, NcclProtocol::ll128) ==
        Approx(27.3 + 33'554'432 * 7.0 / 8 / 331.2e3).epsilon(kExact));
  // 6.6 + 14 x 0.6 = 15 us; the least of 141 and half of 360 GB/s, 14/8 times.
  CHECK(microseconds(
            NcclCollective::all_reduce, Bytes(4096), NcclAlgorithm::ring, NcclProtocol::ll) ==
        Approx(15 + 4096 * 14.0 / 8 / 141e3).epsilon(kExact));
  // 6.8 + 2 x 7 x 0.6 = 15.2 us; 0.92 x 360 / 3.8, halved, 0.7 at 4 KiB.
  CHECK(microseconds(
            NcclCollective::all_reduce, Bytes(4096), NcclAlgorithm::tree, NcclProtocol::ll) ==
        Approx(15.2 + 4096 / (331.2e3 / 3.8 / 2 * 0.7)).epsilon(1e-7));
  // 370.8 / 9 = 41.2: channels of 40 GB/s; 0.85, 7/8 and twice: 476 GB/s over 8, 14/8 times.
  CHECK(
      microseconds(NcclCollective::all_reduce, large, NcclAlgorithm::nvls, NcclProtocol::simple) ==
      Approx(25 + 33'554'432 * 14.0 / 8 / 476e3).epsilon(kExact));
  // Until 2.27 an estimate of 8 x 40 GB/s x 5/6.
  CHECK(nccl_time(NcclCollective::all_reduce,
                  large,
                  NcclAlgorithm::nvls,
                  NcclProtocol::simple,
                  one_node(8),
                  tuning("2.27.7", "h100-sxm"))
                ->value() *
            1e6 ==
        Approx(25 + 33'554'432 / (320e3 * 5 / 6)).epsilon(kExact));
  CHECK_FALSE(nccl_time(NcclCollective::all_gather,
                        large,
                        NcclAlgorithm::tree,
                        NcclProtocol::simple,
                        one_node(8),
                        h100));
}

TEST_CASE("NCCL's estimates by hand: several nodes", "[config]") {
  const NcclTuning h100 = tuning("2.30", "h100-sxm");
  const auto expected = nccl_time(NcclCollective::all_gather,
                                  Bytes(1 << 30),
                                  NcclAlgorithm::ring,
                                  NcclProtocol::simple,
                                  nodes_of_eight(2),
                                  h100);
  // 8.4 + 14 x max(3.4, 3) + 1 x 14 = 70 us; 15/16 over 8 x 45 GB/s.
  CHECK(expected->value() * 1e6 == Approx(70 + 1'073'741'824 * 15.0 / 16 / 360e3).epsilon(kExact));
  // An all-reduce has 28 and 2 steps, and from 64 bytes on a rank and channel 1.4 times as much.
  const auto reduced = nccl_time(NcclCollective::all_reduce,
                                 Bytes(1 << 30),
                                 NcclAlgorithm::ring,
                                 NcclProtocol::simple,
                                 nodes_of_eight(2),
                                 h100);
  CHECK(
      reduced->value() * 1e6 ==
      Approx(1.4 * (8.4 + 28 * 3.4 + 2 * 14) + 1'073'741'824 * 30.0 / 16 / 360e3).epsilon(kExact));

  // One GPU a node, 16 nodes: PAT 8 + 4 / 3.5 x 14 + 16 x 2.8 = 68.8 us, before LL's 6.6 + 15 x 5.
  NcclCommunicator lone;
  lone.ranks = 16;
  lone.nodes = 16;
  lone.nic = BytesPerSecond(50e9);
  const NcclChoice small = nccl_choice(NcclCollective::all_gather, Bytes(1024), lone, h100);
  CHECK(small.algorithm == NcclAlgorithm::pat);
  CHECK(small.expected.value() * 1e6 == Approx(68.8 + 1024 / (48e3 * 0.75)).epsilon(kExact));
  CHECK(nccl_choice(NcclCollective::all_gather, Bytes(1024), lone, tuning("2.21", "h100-sxm"))
            .algorithm == NcclAlgorithm::ring);
}

TEST_CASE("what NCCL chooses by size, ranks and release", "[config]") {
  const NcclTuning h100 = tuning("2.30", "h100-sxm");
  const auto choice = [&](NcclCollective collective, std::int64_t bytes, std::int64_t ranks) {
    return nccl_choice(collective, Bytes(bytes), one_node(ranks), h100);
  };
  const NcclChoice tiny = choice(NcclCollective::all_reduce, 4096, 8);
  CHECK(tiny.algorithm == NcclAlgorithm::ring);
  CHECK(tiny.protocol == NcclProtocol::ll);
  // The switches reduce where all eight take part; four or two are better off with a ring.
  CHECK(choice(NcclCollective::all_reduce, 1 << 30, 8).algorithm == NcclAlgorithm::nvls);
  CHECK(choice(NcclCollective::all_reduce, 1 << 30, 4).algorithm == NcclAlgorithm::ring);
  CHECK(choice(NcclCollective::all_reduce, 1 << 30, 2).algorithm == NcclAlgorithm::ring);
  const NcclChoice gather = choice(NcclCollective::all_gather, 1 << 30, 8);
  CHECK(gather.algorithm == NcclAlgorithm::ring);
  CHECK(gather.protocol == NcclProtocol::simple);
  // Many nodes: trees, whose latency grows with the logarithm.
  CHECK(
      nccl_choice(NcclCollective::all_reduce, Bytes(1 << 20), nodes_of_eight(64), h100).algorithm !=
      NcclAlgorithm::ring);
  CHECK(nccl_choice(
            NcclCollective::all_reduce, Bytes(1 << 30), one_node(8), tuning("2.30", "a100-sxm-80"))
            .algorithm == NcclAlgorithm::ring);
  CHECK_THROWS_AS(choice(NcclCollective::all_reduce, 1, 1), std::logic_error);
}

/// Out-of-place times in microseconds at 32 MiB, 64 MiB, ..., 16 GiB on 8 x H100 with NCCL 2.29.2.
/// Source: fit_forms, section 1: xxrjun/nccl-tests-cluster, commit 455de4f8dee2, nccl_N1_G8, node
/// 002
TEST_CASE("NCCL's estimates on 8 x H100 against measurements from 32 MiB", "[config]") {
  const std::vector<double> all_gather = {
      123.44, 205.21, 382.20, 721.26, 1389.46, 2719.60, 5355.86, 10562.9, 20928.4, 41542.0};
  const std::vector<double> reduce_scatter = {
      111.83, 197.37, 380.31, 719.67, 1399.96, 2741.51, 5380.08, 10561.5, 20799.7, 41211.4};
  const NcclTuning h100 = tuning("2.29.2", "h100-sxm");
  const auto mean_error = [&](NcclCollective collective, const std::vector<double>& measured) {
    double sum = 0;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const Bytes amount(std::int64_t{32} << (20 + i));
      const NcclChoice choice = nccl_choice(collective, amount, one_node(8), h100);
      CHECK(choice.algorithm == NcclAlgorithm::ring);
      const double error = std::abs(choice.expected.value() * 1e6 / measured[i] - 1);
      CHECK(error < 0.08);
      sum += error;
    }
    return sum / static_cast<double>(measured.size());
  };
  CHECK(mean_error(NcclCollective::all_gather, all_gather) < 0.035);
  CHECK(mean_error(NcclCollective::reduce_scatter, reduce_scatter) < 0.03);
}

TEST_CASE("a file of constants that is not whole is refused where it fails", "[config]") {
  std::string text;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == "topologies/nccl/2.30.7.yaml") {
      text = std::string(file.text);
    }
  }
  REQUIRE_FALSE(text.empty());
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const auto at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    try {
      static_cast<void>(read_nccl_tuning(
          read_yaml(std::make_shared<const SourceText>("t.yaml", changed)), "h100-sxm"));
      return std::string("accepted");
    } catch (const Error& error) {
      return to_text(error.where()) + " " + error.message();
    }
  };
  CHECK_THAT(refusal("[6.6 us, 14 us, 8.4 us]", "[6.6 us, 14 us]"),
             ContainsSubstring("t.yaml:7:") && ContainsSubstring("expected 3 values, found 2"));
  CHECK_THAT(refusal("ll_factor: 0.5", "ll_factor: 0"), ContainsSubstring("not above zero"));
  CHECK_THAT(refusal("ll_factor: 0.5", "ll_facter: 0.5"), ContainsSubstring("ll_facter"));
  CHECK_THAT(refusal("form: efficiency", "form: fast"), ContainsSubstring("'fast'"));
  CHECK_THAT(refusal("nvlinks: 18", "nvlinks: 0"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal("  volta:", "  pascal:"), ContainsSubstring("pascal"));
}

}  // namespace
}  // namespace trireme::config
