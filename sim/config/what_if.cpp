#include "sim/config/what_if.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "sim/config/bounds.h"
#include "sim/config/map_reader.h"
#include "sim/config/words.h"
#include "sim/cost/link_factors.h"

namespace trireme::config {
namespace {

/// A parser of numbers from `lowest` to `highest`.
auto number_between(double lowest, double highest) {
  return [=](std::string_view text) {
    const double value = parse_number(text);
    if (value < lowest || value > highest) {
      throw BadText(in_quotes(text) + " is out of range",
                    fmt::format("accepted: a number from {:g} to {:g}", lowest, highest));
    }
    return value;
  };
}

/// Beyond any machine, and far from what rounding could turn into nothing.
constexpr double kLeastBandwidth = 0.001;
constexpr double kMostBandwidth = 1000;
constexpr double kMostSlowdown = 1000;
/// A deviation beyond the mean says more about outliers than about kernels.
constexpr double kMostJitter = 1;
constexpr std::string_view kDefaultRuns = "100";

constexpr Choice<bool> kOnOffWords[] = {{"on", true}, {"off", false}};

/// The factor of a kind of link, which the cluster must have.
double read_bandwidth(const MapReader& map,
                      std::string_view key,
                      bool is_there,
                      std::string_view why_not,
                      std::string_view instead) {
  const auto factor = map.maybe_located(key, number_between(kLeastBandwidth, kMostBandwidth));
  if (factor && !is_there) {
    refuse(factor->where, fmt::format("{}: {}", key, why_not), std::string(instead));
  }
  return factor ? factor->value : 1;
}

void read_bandwidths(const MapReader& what_if, const ClusterSpec& cluster, WhatIfSpec& spec) {
  const Node* const written = what_if.find("bandwidth");
  if (written == nullptr) {
    return;
  }
  const MapReader map(*written, what_if.path_of("bandwidth"), {"nvlink", "pcie", "nic"});
  const bool pcie = cluster.intra == IntraLinks::pcie;
  spec.nvlink = read_bandwidth(map,
                               "nvlink",
                               !pcie,
                               "PCIe joins the GPUs of this cluster's nodes, not NVLink",
                               "give the factor to pcie");
  spec.pcie = read_bandwidth(map,
                             "pcie",
                             pcie,
                             "NVLink joins the GPUs of this cluster's nodes, not PCIe",
                             "give the factor to nvlink");
  spec.nic = read_bandwidth(map,
                            "nic",
                            cluster.nodes.value > 1,
                            "the cluster is one node: nothing is sent over its NICs",
                            "leave the key out, or ask for more nodes");
}

SlowRankSpec read_slow_rank(const Node& item, const std::string& path, const ClusterSpec& cluster) {
  const MapReader map(item, path, {"rank", "factor", "component"});
  SlowRankSpec slow;
  slow.rank =
      map.required_located("rank", count_between(0, static_cast<std::int64_t>(kMostGpus) - 1));
  if (slow.rank.value >= cluster.gpus()) {
    throw Error(
        ErrorKind::input,
        slow.rank.where,
        fmt::format("rank: {} is not among the cluster's {} GPUs", slow.rank.value, cluster.gpus()),
        fmt::format("accepted: 0 to {}", cluster.gpus() - 1),
        {{cluster.gpus_per_node.where,
          fmt::format("nodes have {} GPUs, and there are {}",
                      cluster.gpus_per_node.value,
                      cluster.nodes.value)}});
  }
  slow.factor = map.required("factor", number_between(1, kMostSlowdown));
  slow.component = map.maybe("component", [](std::string_view text) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kComponentNames.size(); ++i) {
      if (kComponentNames[i] == text) {
        return static_cast<Component>(i);
      }
      names.emplace_back(kComponentNames[i]);
    }
    throw BadText(in_quotes(text) + " is not known here", hint_near(text, names));
  });
  return slow;
}

/// A rank stands once for each component and once for all of them: factors that pile up pass what a
/// number holds.
std::vector<SlowRankSpec> read_slow_ranks(const MapReader& what_if, const ClusterSpec& cluster) {
  std::vector<SlowRankSpec> all;
  std::map<std::pair<std::int64_t, std::optional<Component>>, SourceLocation> first;
  for (const Node& item : what_if.items("slow_ranks")) {
    SlowRankSpec slow = read_slow_rank(item, what_if.path_of("slow_ranks"), cluster);
    const auto [earlier, is_new] =
        first.try_emplace({slow.rank.value, slow.component}, slow.rank.where);
    if (!is_new) {
      throw Error(ErrorKind::input,
                  slow.rank.where,
                  fmt::format("rank: {} is slow a second time", slow.rank.value),
                  "give it one factor, or one for each component",
                  {{earlier->second, "the first one stands here"}});
    }
    all.push_back(std::move(slow));
  }
  return all;
}

JitterSpec read_jitter(const MapReader& map) {
  JitterSpec jitter;
  jitter.distribution = map.optional("distribution", word_of(kJitterWords), "log_normal");
  jitter.relative = map.optional("relative", number_between(0, kMostJitter), "0");
  jitter.between_ranks = map.optional("between_ranks", number_between(0, kMostJitter), "0");
  jitter.seed = map.optional("seed", parse_count, "0");
  jitter.runs = map.optional("runs", count_within("runs"), kDefaultRuns);
  if (jitter.relative == 0 && jitter.between_ranks == 0) {
    jitter.runs = 1;  // they would all be alike
  }
  return jitter;
}

}  // namespace

WhatIfSpec read_what_if(const Node& written,
                        const ClusterSpec& cluster,
                        std::vector<std::string>* defaults) {
  const MapReader map(
      written,
      "what_if",
      {"bandwidth", "slow_ranks", "jitter", "overlap", "contention", "interference"},
      defaults);
  WhatIfSpec spec;
  read_bandwidths(map, cluster, spec);
  spec.slow_ranks = read_slow_ranks(map, cluster);
  if (const Node* const jitter = map.find("jitter")) {
    spec.jitter =
        read_jitter(MapReader(*jitter,
                              map.path_of("jitter"),
                              {"distribution", "relative", "between_ranks", "seed", "runs"},
                              defaults));
  }
  const auto is_on = [&](std::string_view key) {
    return map.maybe(key, word_of(kOnOffWords)).value_or(true);
  };
  spec.overlap = is_on("overlap");
  spec.contention = is_on("contention");
  spec.interference = is_on("interference");
  return spec;
}

void apply_what_if(StudySpec& study) {
  const WhatIfSpec& what_if = study.what_if;
  ClusterSpec& cluster = study.cluster;
  cluster.profile.costs = cost::with_links(
      cluster.profile.costs, {.inside = what_if.nvlink * what_if.pcie, .nic = what_if.nic});
  cluster.gpu.nvlink_one_direction = what_if.nvlink * cluster.gpu.nvlink_one_direction;
  if (cluster.pcie_per_gpu) {
    cluster.pcie_per_gpu = what_if.pcie * *cluster.pcie_per_gpu;
  }
  cluster.nic_per_gpu = what_if.nic * cluster.nic_per_gpu;
  if (!what_if.overlap) {
    for (PlanSpec& plan : study.plans) {
      plan.overlap.nothing = true;
    }
  }
}

}  // namespace trireme::config
