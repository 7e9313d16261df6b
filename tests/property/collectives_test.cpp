// The contracts that every collective of cost::collective_table() keeps, on random payloads and on
// the machine of every profile file.
#include "sim/cost/collectives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "sim/config/profile.h"
#include "sim/config/yaml_reader.h"
#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr std::array<Group, 8> kGroups = {
    {{1, 1}, {2, 2}, {3, 3}, {8, 8}, {4, 1}, {12, 4}, {16, 8}, {64, 8}}};

std::vector<config::ProfileSpec> all_profiles() {
  std::vector<std::filesystem::path> files;
  const auto folder = std::filesystem::path(TRIREME_SOURCE_DIR) / "topologies" / "profiles";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<config::ProfileSpec> profiles;
  for (const auto& file : files) {
    profiles.push_back(config::read_profile(config::read_yaml_file(file), file.stem().string()));
  }
  return profiles;
}

/// One direction of a GPU's NVLinks, from its datasheet.
BytesPerSecond nvlink_line_rate(const std::string& gpu) {
  if (gpu == "a100-sxm-80") {
    return BytesPerSecond(300e9);
  }
  if (gpu == "h100-sxm" || gpu == "h200-sxm") {
    return BytesPerSecond(450e9);
  }
  if (gpu == "b200-sxm") {
    return BytesPerSecond(900e9);
  }
  FAIL("no NVLink line rate is known here for " << gpu);
  return BytesPerSecond(0);
}

TEST_CASE("bytes sent equal bytes received over the group", "[property][cost]") {
  const auto seed = Catch::getSeed();
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> payloads(0, 1 << 20);
  std::uniform_int_distribution<std::int64_t> few(0, 200);
  for (const CollectiveInfo& collective : collective_table()) {
    for (const Group group : kGroups) {
      for (int trial = 0; trial < 40; ++trial) {
        const Elements payload(trial % 2 == 0 ? payloads(random) : few(random));
        CAPTURE(seed, collective.name, group.ranks, group.ranks_per_node, payload.value());
        CollectiveBytes sum;
        bool within = true;
        for (std::int64_t rank = 0; rank < group.ranks; ++rank) {
          const CollectiveBytes one = collective.bytes(payload, ElementType::fp32, group, rank);
          within = within && Bytes(0) <= one.sent_off_node && one.sent_off_node <= one.sent &&
                   Bytes(0) <= one.received_off_node && one.received_off_node <= one.received;
          sum.sent += one.sent;
          sum.received += one.received;
          sum.sent_off_node += one.sent_off_node;
          sum.received_off_node += one.received_off_node;
        }
        CHECK(within);
        CHECK(sum.sent == sum.received);
        CHECK(sum.sent_off_node == sum.received_off_node);
        if (group.ranks == group.ranks_per_node) {
          CHECK(sum.sent_off_node == Bytes(0));
        } else if (group.ranks_per_node == 1) {
          CHECK(sum.sent_off_node == sum.sent);
        }
        if (group.ranks == 1) {
          CHECK(sum.sent == Bytes(0));
        }
      }
    }
  }
}

TEST_CASE("payloads that divide give the closed form on every rank", "[property][cost]") {
  const auto seed = Catch::getSeed();
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> units(1, 1 << 12);
  for (const Group group : kGroups) {
    const std::int64_t n = group.ranks;
    const std::int64_t p = group.ranks_per_node;
    for (int trial = 0; trial < 10; ++trial) {
      // divides by n^2, and what a ring sends divides by p
      const std::int64_t whole = n * n * p * units(random);
      const std::int64_t rank = std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
      CAPTURE(seed, n, p, whole, rank);
      const auto sent = [&](auto bytes_function) {
        return bytes_function(Elements(whole), ElementType::bf16, group, rank);
      };
      CHECK(sent(all_gather_bytes).sent.value() == 2 * whole / n * (n - 1));
      CHECK(sent(reduce_scatter_bytes).sent.value() == 2 * whole / n * (n - 1));
      CHECK(sent(all_reduce_bytes).sent.value() == 2 * 2 * whole / n * (n - 1));
      CHECK(sent(all_to_all_bytes).sent.value() == 2 * whole / (n * n) * (n - 1));
      CHECK(ring_hop_bytes(Elements(whole), ElementType::bf16, group, rank, 1).sent.value() ==
            (n == 1 ? 0 : 2 * whole));
      CHECK(sent(all_to_all_bytes).sent_off_node.value() == 2 * whole / (n * n) * (n - p));
      if (n > p) {
        CHECK(sent(all_gather_bytes).sent_off_node.value() == 2 * whole / n * (n - 1) / p);
      }
      for (const CollectiveInfo& collective : collective_table()) {
        CAPTURE(collective.name);
        const Bytes least =
            collective.least_sent(bytes_of(Elements(whole), ElementType::bf16), group);
        CHECK(sent(collective.bytes).sent >= least);
      }
    }
  }
}

TEST_CASE("no profile lets a collective beat its contracts", "[property][cost]") {
  const auto seed = Catch::getSeed();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponents(0, 34);  // up to 16 GiB
  const BytesPerSecond nic(50e9);
  const auto profiles = all_profiles();
  REQUIRE(profiles.size() >= 4);
  for (const config::ProfileSpec& profile : profiles) {
    const BytesPerSecond line = nvlink_line_rate(profile.gpu.value);
    for (const CollectiveInfo& collective : collective_table()) {
      for (const Group group : kGroups) {
        std::vector<std::int64_t> sizes;
        for (int i = 0; i < 60; ++i) {
          // a multiple of n^2, so that least_sent is exact
          const auto bytes = static_cast<std::int64_t>(std::exp2(exponents(random)));
          sizes.push_back(pad_to(bytes, group.ranks * group.ranks * 2));
        }
        std::sort(sizes.begin(), sizes.end());
        Seconds before(0);
        for (const std::int64_t size : sizes) {
          CAPTURE(seed, profile.name, collective.name, group.ranks, group.ranks_per_node, size);
          const auto time =
              collective.time(Bytes(size), ElementType::bf16, group, nic, profile.costs);
          if (!time) {  // only point-to-point inside a node may be unknown
            CHECK(collective.name == "send_recv");
            CHECK(group.ranks == group.ranks_per_node);
            CHECK_FALSE(profile.costs.collectives.send_recv.has_value());
            continue;
          }
          if (group.ranks == 1) {
            CHECK(*time == Seconds(0));
            continue;
          }
          CHECK(*time >= before);
          CHECK(*time > collective.least_sent(Bytes(size), group) / line);
          const Bytes off_node =
              collective.bytes(Elements(size / 2), ElementType::bf16, group, 0).sent_off_node;
          CHECK(*time >= off_node / nic);
          before = *time;
        }
      }
    }
  }
}

TEST_CASE(
    "a collective sends its bytes no faster than its links' rates, and large ones hardly slower",
    "[property][cost]") {
  const BytesPerSecond nic(50e9);
  for (const config::ProfileSpec& profile : all_profiles()) {
    const BytesPerSecond line = nvlink_line_rate(profile.gpu.value);
    MachineCosts forms = profile.costs;
    forms.residuals = {};  // rates are those of the forms, which single measurements exceed
    for (const CollectiveInfo& collective : collective_table()) {
      for (const Group group : kGroups) {
        if (group.ranks == 1) {
          continue;
        }
        CAPTURE(profile.name, collective.name, group.ranks, group.ranks_per_node);
        const LinkRates rates = collective.link_rates(ElementType::bf16, group, nic, profile.costs);
        const bool in_switches = collective.name == "all_reduce" &&
                                 reduces_in_switches(ElementType::bf16, group, profile.costs);
        CHECK((!rates.inside || *rates.inside <= line));
        CHECK((!rates.nic || *rates.nic <= nic));
        CHECK((rates.nic.has_value() == (group.ranks > group.ranks_per_node)));
        for (const std::int64_t unit :
             {std::int64_t{1}, std::int64_t{1} << 10, std::int64_t{1} << 22}) {
          const std::int64_t elements = group.ranks * group.ranks * group.ranks_per_node * unit;
          const Bytes payload = bytes_of(Elements(elements), ElementType::bf16);
          const auto time = collective.time(payload, ElementType::bf16, group, nic, forms);
          if (!time) {
            continue;
          }
          const CollectiveBytes sent =
              collective.bytes(Elements(elements), ElementType::bf16, group, 0);
          // In the switches the whole buffer and a part of the sum, whatever a ring would send.
          const Bytes in_node = in_switches ? payload + Bytes(payload.value() / group.ranks)
                                            : sent.sent - sent.sent_off_node;
          const Seconds inside = rates.inside ? in_node / *rates.inside : Seconds(0);
          const Seconds outside = rates.nic ? sent.sent_off_node / *rates.nic : Seconds(0);
          CHECK(inside <= 1.0000001 * *time);
          // Hops between nodes in large communicators have a channel, not the NIC.
          CHECK(outside <= 1.0000001 * *time);
          if (payload > Bytes(std::int64_t{1} << 30) && collective.name != "send_recv") {
            CHECK(std::max(inside, outside) >= 0.5 * *time);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cost
