#include "sim/config/nccl_tuning.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/core.h>

#include "sim/config/embedded_files.h"
#include "sim/config/map_reader.h"
#include "sim/config/yaml_reader.h"
#include "sim/units/text.h"

namespace trireme::config {

namespace {

using cost::ByNodes;
using cost::ByProtocol;

constexpr std::string_view kFolder = "topologies/nccl/";
constexpr std::string_view kEnding = ".yaml";

constexpr Choice<cost::NcclNvlsForm> kNvlsForms[] = {
    {"least", cost::NcclNvlsForm::least},
    {"least_by_collective", cost::NcclNvlsForm::least_by_collective},
    {"efficiency", cost::NcclNvlsForm::efficiency}};

const auto kRate = above_zero(parse_bytes_per_second);

double parse_factor(std::string_view text) {
  const double factor = parse_non_negative_number(text);
  if (factor <= 0) {
    throw BadText(in_quotes(text) + " is not above zero", "accepted: a factor above zero");
  }
  return factor;
}

/// A list of exactly N values.
template <std::size_t N, class Parse>
auto read_values(const MapReader& map, std::string_view key, const Parse& parse) {
  using Value = decltype(parse(std::string_view()));
  const Node& node = map.node(key);
  const std::span<const Node> items = map.items(key);
  if (items.size() != N) {
    refuse(node.where(), fmt::format("{}: expected {} values, found {}", key, N, items.size()));
  }
  std::array<Value, N> values;
  std::transform(items.begin(), items.end(), values.begin(), [&](const Node& item) {
    return parse_node(item, key, parse);
  });
  return values;
}

/// A list of one value or more.
template <class Parse>
auto read_list(const MapReader& map, std::string_view key, const Parse& parse) {
  std::vector<decltype(parse(std::string_view()))> values;
  const Node& node = map.node(key);
  for (const Node& item : map.items(key)) {
    values.push_back(parse_node(item, key, parse));
  }
  if (values.empty()) {
    refuse(node.where(), fmt::format("{}: expected a list of values", key));
  }
  return values;
}

cost::NcclLatencies read_latencies(const MapReader& map) {
  return {.base = read_values<cost::kNcclProtocols>(map, "base_latency", parse_seconds),
          .nvlink = read_values<cost::kNcclProtocols>(map, "nvlink_latency", parse_seconds),
          .pcie = read_values<cost::kNcclProtocols>(map, "pcie_latency", parse_seconds),
          .network = read_values<cost::kNcclProtocols>(map, "network_latency", parse_seconds)};
}

cost::NcclRing read_ring(const MapReader& map) {
  cost::NcclRing ring;
  ring.latency = read_latencies(map);
  ring.ll_factor = map.required("ll_factor", parse_factor);
  ring.ll128_factor = map.required("ll128_factor", parse_factor);
  ring.ll128_factor_one_gpu_per_node = map.required("ll128_factor_one_gpu_per_node", parse_factor);
  ring.tree_latency_with_one_gpu_per_node =
      map.required("tree_latency_with_one_gpu_per_node", parse_bool);
  ring.network_overhead = read_values<cost::kNcclProtocols>(map, "network_overhead", parse_seconds);
  ring.plateau_from = map.required("plateau_from", above_zero(parse_bytes));
  const MapReader plateau(
      map.node("plateau_factor"), "ring.plateau_factor", {"before_ampere", "from_ampere"});
  ring.plateau_factor_before_ampere = plateau.required("before_ampere", parse_factor);
  ring.plateau_factor_from_ampere = plateau.required("from_ampere", parse_factor);
  return ring;
}

cost::NcclTree read_tree(const MapReader& map) {
  cost::NcclTree tree;
  tree.latency = read_latencies(map);
  tree.factor = map.required("factor", parse_factor);
  tree.ll_factor = map.required("ll_factor", parse_factor);
  tree.ll128_factor_one_node = map.required("ll128_factor_one_node", parse_factor);
  tree.ll128_factor = map.required("ll128_factor", parse_factor);
  const MapReader correction(map.node("correction"), "tree.correction", {"ll", "ll128", "simple"});
  tree.correction = {read_list(correction, "ll", parse_factor),
                     read_list(correction, "ll128", parse_factor),
                     read_list(correction, "simple", parse_factor)};
  return tree;
}

ByNodes<BytesPerSecond> read_by_nodes(const MapReader& map, std::string_view key) {
  return read_values<3>(map, key, kRate);
}

cost::NcclArchitecture read_architecture(const MapReader& map, std::string_view name) {
  cost::NcclArchitecture architecture;
  architecture.before_ampere = name == "volta";
  architecture.after_ampere = name == "hopper" || name == "blackwell";
  architecture.nvlinks = map.required("nvlinks", count_between(1, 1024));
  architecture.nvlink = map.required("nvlink", kRate);
  architecture.speeds_in_node = read_list(map, "speeds_in_node", kRate);
  architecture.speeds_between_nodes = read_list(map, "speeds_between_nodes", kRate);
  architecture.ll_most = read_by_nodes(map, "ll_most");
  architecture.ring_ll128_channel = read_by_nodes(map, "ring_ll128_channel");
  architecture.tree_channel = read_by_nodes(map, "tree_channel");
  architecture.tree_ll128_channel = read_by_nodes(map, "tree_ll128_channel");
  if (map.find("nvls_tree_channel") != nullptr) {
    architecture.nvls_tree_channel = read_values<3>(
        map, "nvls_tree_channel", parse_bytes_per_second);  // 0 on one node, where it is not taken
  }
  architecture.nvls_efficiency = map.maybe("nvls_efficiency", parse_factor);
  return architecture;
}

const std::vector<std::string> kArchitectureKeys = {"gpus",
                                                    "nvlinks",
                                                    "nvlink",
                                                    "speeds_in_node",
                                                    "speeds_between_nodes",
                                                    "ll_most",
                                                    "ring_ll128_channel",
                                                    "tree_channel",
                                                    "tree_ll128_channel",
                                                    "nvls_tree_channel",
                                                    "nvls_efficiency"};

/// The numbers that a version begins with: {2, 27, 7} of "2.27.7-1".
std::vector<int> numbers_of(std::string_view version) {
  std::vector<int> numbers;
  const char* at = version.data();
  const char* const end = at + version.size();
  while (at != end) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) {
      break;
    }
    numbers.push_back(number);
    if (next == end || *next != '.') {
      break;
    }
    at = next + 1;
  }
  return numbers;
}

}  // namespace

std::optional<NcclTuningSpec> read_nccl_tuning(const Node& root, std::string_view gpu) {
  const MapReader map(root,
                      "",
                      {"version",
                       "release",
                       "source",
                       "ring",
                       "tree",
                       "slowest_tried",
                       "doubling",
                       "nvls",
                       "pat",
                       "architectures"});
  map.required("version", parse_version);
  NcclTuningSpec spec;
  spec.release = map.required("release", parse_word);
  spec.source = map.required("source", parse_word);
  spec.tuning.ring = read_ring(MapReader(map.node("ring"),
                                         "ring",
                                         {"base_latency",
                                          "nvlink_latency",
                                          "pcie_latency",
                                          "network_latency",
                                          "ll_factor",
                                          "ll128_factor",
                                          "ll128_factor_one_gpu_per_node",
                                          "tree_latency_with_one_gpu_per_node",
                                          "network_overhead",
                                          "plateau_from",
                                          "plateau_factor"}));
  spec.tuning.tree = read_tree(MapReader(map.node("tree"),
                                         "tree",
                                         {"base_latency",
                                          "nvlink_latency",
                                          "pcie_latency",
                                          "network_latency",
                                          "factor",
                                          "ll_factor",
                                          "ll128_factor_one_node",
                                          "ll128_factor",
                                          "correction"}));
  spec.tuning.slowest_tried = map.required("slowest_tried", parse_factor);
  const MapReader doubling(
      map.node("doubling"), "doubling", {"from", "after_ampere_from", "after_ampere_channels"});
  spec.tuning.doubling = {
      .from = doubling.required("from", kRate),
      .after_ampere_from = doubling.required("after_ampere_from", kRate),
      .after_ampere_channels = doubling.required("after_ampere_channels", parse_count)};
  const MapReader nvls(
      map.node("nvls"),
      "nvls",
      {"form", "all_reduce_factor", "latency", "tree_latency", "tree_network_latency"});
  spec.tuning.nvls = {.form = nvls.required(
                          "form", one_of(std::span<const Choice<cost::NcclNvlsForm>>(kNvlsForms))),
                      .all_reduce_factor = nvls.maybe("all_reduce_factor", parse_factor),
                      .latency = nvls.required("latency", parse_seconds),
                      .tree_latency = nvls.required("tree_latency", parse_seconds),
                      .tree_network_latency = nvls.required("tree_network_latency", parse_seconds)};
  if (map.find("pat") != nullptr) {
    const MapReader pat(
        map.node("pat"), "pat", {"base_latency", "factor", "log_divisor", "per_rank"});
    spec.tuning.pat = {.base_latency = pat.required("base_latency", parse_seconds),
                       .factor = pat.required("factor", parse_factor),
                       .log_divisor = pat.required("log_divisor", parse_factor),
                       .per_rank = pat.required("per_rank", parse_seconds)};
  }

  const std::string_view family = gpu.substr(0, gpu.find('-'));
  const MapReader architectures(
      map.node("architectures"), "architectures", {"volta", "ampere", "hopper", "blackwell"});
  const MapReader volta(architectures.node("volta"), "architectures.volta", kArchitectureKeys);
  spec.tuning.ll_most_over_nodes = read_by_nodes(volta, "ll_most");
  bool known = false;
  for (const std::string_view name : {"volta", "ampere", "hopper", "blackwell"}) {
    const Node* node = architectures.find(name);
    if (node == nullptr) {
      continue;
    }
    const MapReader reader(*node, fmt::format("architectures.{}", name), kArchitectureKeys);
    const std::vector<std::string> gpus = read_list(reader, "gpus", parse_word);
    cost::NcclArchitecture architecture = read_architecture(reader, name);
    if (std::find(gpus.begin(), gpus.end(), family) != gpus.end()) {
      spec.tuning.architecture = std::move(architecture);
      known = true;
    }
  }
  return known ? std::optional(std::move(spec)) : std::nullopt;
}

std::vector<std::string> nccl_releases() {
  std::vector<std::string> releases;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path.starts_with(kFolder)) {
      std::string_view release = file.path.substr(kFolder.size());
      release.remove_suffix(kEnding.size());
      releases.emplace_back(release);
    }
  }
  std::sort(releases.begin(), releases.end(), [](const std::string& a, const std::string& b) {
    return numbers_of(a) < numbers_of(b);
  });
  return releases;
}

namespace {

std::optional<NcclTuningSpec> read_built_in(std::string_view version, std::string_view gpu) {
  const std::vector<std::string> releases = nccl_releases();
  const std::vector<int> asked = numbers_of(version);
  std::string chosen = asked.empty() ? releases.back() : releases.front();
  for (const std::string& release : releases) {
    std::vector<int> known = numbers_of(release);
    known.resize(std::min(known.size(), std::max<std::size_t>(asked.size(), 1)));
    if (!asked.empty() && known <= asked) {
      chosen = release;
    }
  }
  const std::string path = fmt::format("{}{}{}", kFolder, chosen, kEnding);
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) {
      return read_nccl_tuning(
          read_yaml(std::make_shared<const SourceText>(path, std::string(file.text))), gpu);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NcclTuningSpec> nccl_tuning(std::string_view version, std::string_view gpu) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::optional<NcclTuningSpec>> read;
  const std::scoped_lock lock(mutex);
  const std::pair<std::string, std::string> asked{version, gpu};
  auto known = read.find(asked);
  if (known == read.end()) {  // built-in files do not change, and every plan asks
    known = read.emplace(asked, read_built_in(version, gpu)).first;
  }
  return known->second;
}

}  // namespace trireme::config
