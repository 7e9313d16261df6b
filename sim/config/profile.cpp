#include "sim/config/profile.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "sim/config/coefficient_reader.h"
#include "sim/config/map_reader.h"
#include "sim/units/text.h"

namespace trireme::config {

namespace {

double number_of(double value) {
  return value;
}

double number_of(std::int64_t value) {
  return static_cast<double>(value);
}

template <class Tag, class Rep>
double number_of(Quantity<Tag, Rep> value) {
  return static_cast<double>(value.value());
}

/// `parse`, but zero is refused: the value divides.
template <class Parse>
auto positive(Parse parse) {
  return [parse](std::string_view text) {
    const auto value = parse(text);
    if (number_of(value) <= 0) {
      throw BadText(in_quotes(text) + " is not above zero", "accepted: an amount above zero");
    }
    return value;
  };
}

double parse_efficiency(std::string_view text) {
  const double value = parse_non_negative_number(text);
  if (value <= 0 || value > 1) {
    throw BadText(in_quotes(text) + " is not an efficiency",
                  "accepted: a fraction above 0 and up to 1");
  }
  return value;
}

/// A rate, or `none` where no cost that grows with bytes was seen.
BytesPerSecond parse_rate_or_none(std::string_view text) {
  return text == "none" ? BytesPerSecond(std::numeric_limits<double>::infinity())
                        : positive(parse_bytes_per_second)(text);
}

const auto kRate = positive(parse_bytes_per_second);
const auto kFlopRate = positive(parse_flops_per_second);
const auto kCount = positive(parse_count);

/// Of the group shapes in a table of residuals: beyond any machine of today.
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;

/// The map under `key` of `map`, whose `form` must be the one that the formula needs.
MapReader form_map(const MapReader& map,
                   std::string_view key,
                   std::string_view form,
                   std::vector<std::string> coefficients) {
  coefficients.insert(coefficients.begin(), "form");
  MapReader inner(map.node(key), map.path_of(key), std::move(coefficients));
  const std::array<Choice<bool>, 1> forms = {{{form, true}}};
  inner.required("form", one_of(std::span<const Choice<bool>>(forms)));
  return inner;
}

std::pair<std::int64_t, std::int64_t> read_ranks(const MapReader& map) {
  const auto bounds = map.items("ranks");
  if (bounds.size() != 2) {
    refuse(map.node("ranks").where(),
           fmt::format("ranks: expected two values, found {}", bounds.size()),
           "write it as [fewest, most]");
  }
  const auto fewest = parse_node(bounds[0], "ranks", kCount);
  const auto most = parse_node(bounds[1], "ranks", kCount);
  if (fewest < 2 || fewest > most) {
    refuse(bounds[0].where(),
           "ranks: a range of at least 2 ranks is needed, the smaller number first",
           "write it as [fewest, most]");
  }
  return {fewest, most};
}

std::optional<cost::GemmCosts> read_gemm(const MapReader& root,
                                         const CoefficientReader& coefficient) {
  if (root.find("gemm") == nullptr) {
    return std::nullopt;
  }
  const MapReader map = form_map(root, "gemm", "G1", {"t0", "P", "k0", "bw", "fp32_accumulation"});
  cost::GemmCosts costs;
  costs.start = coefficient(map, "t0", parse_seconds);
  costs.rate = coefficient(map, "P", kFlopRate);
  costs.inner_overhead = coefficient(map, "k0", parse_non_negative_number);
  costs.bandwidth = coefficient(map, "bw", parse_rate_or_none);
  costs.fp32_accumulation =
      coefficient.maybe(map, "fp32_accumulation", positive(parse_non_negative_number))
          .value_or(costs.fp32_accumulation);
  return costs;
}

std::optional<cost::AttentionPassCosts> read_attention_pass(const MapReader& row,
                                                            std::string_view key,
                                                            const CoefficientReader& coefficient) {
  const Node* pass = row.find(key);
  if (pass == nullptr) {
    return std::nullopt;
  }
  const MapReader map(*pass, row.path_of(key), {"E", "tau"});
  cost::AttentionPassCosts costs;
  costs.rate = coefficient(map, "E", kFlopRate);
  costs.tile_overhead = coefficient(map, "tau", parse_non_negative_number);
  return costs;
}

std::optional<cost::AttentionKernelCosts> read_attention_kernel(
    const MapReader& attention, std::string_view key, const CoefficientReader& coefficient) {
  if (attention.find(key) == nullptr) {
    return std::nullopt;
  }
  const MapReader map = form_map(attention, key, "A1", {"t0", "sustained_after", "head_dims"});
  cost::AttentionKernelCosts kernel;
  kernel.start = coefficient(map, "t0", parse_seconds);
  kernel.sustained_after =
      coefficient.maybe(map, "sustained_after", parse_seconds).value_or(kernel.sustained_after);
  const auto rows = map.items("head_dims");
  if (rows.empty() || rows.size() > kernel.head_dims.size()) {
    refuse(map.node("head_dims").where(),
           fmt::format(
               "head_dims: expected 1 to {} rows, found {}", kernel.head_dims.size(), rows.size()));
  }
  std::int64_t smaller = 0;
  for (const Node& node : rows) {
    const std::string path = fmt::format("{}.head_dims[{}]", map.path(), kernel.head_dim_count);
    const MapReader row(node, path, {"head_dim", "sustained", "forward", "backward"});
    cost::AttentionHeadDimCosts& costs = kernel.head_dims.at(kernel.head_dim_count);
    costs.head_dim = row.required("head_dim", kCount);
    if (costs.head_dim <= smaller) {
      refuse(row.node("head_dim").where(), "head_dim: the rows must be in ascending order");
    }
    smaller = costs.head_dim;
    costs.sustained =
        coefficient.maybe(row, "sustained", parse_efficiency).value_or(costs.sustained);
    costs.forward = read_attention_pass(row, "forward", coefficient);
    costs.backward = read_attention_pass(row, "backward", coefficient);
    ++kernel.head_dim_count;
  }
  return kernel;
}

cost::AttentionCosts read_attention(const MapReader& root, const CoefficientReader& coefficient) {
  if (root.find("attention") == nullptr) {
    return {};
  }
  const MapReader map(root.node("attention"), "attention", {"flash2", "flash3", "cudnn"});
  return {.flash2 = read_attention_kernel(map, "flash2", coefficient),
          .flash3 = read_attention_kernel(map, "flash3", coefficient),
          .cudnn = read_attention_kernel(map, "cudnn", coefficient)};
}

/// The keys of the efficiencies, in the order of PointwiseClass.
constexpr std::array<std::string_view, cost::kPointwiseClasses> kPointwiseKeys = {
    "norm_forward", "norm_backward", "pointwise", "copy", "adam", "cross_entropy"};

cost::PointwiseCosts read_pointwise(const MapReader& root, const CoefficientReader& coefficient) {
  if (root.find("pointwise") == nullptr) {
    return {};
  }
  std::vector<std::string> keys = {"memory_bandwidth"};
  keys.insert(keys.end(), kPointwiseKeys.begin(), kPointwiseKeys.end());
  const MapReader map = form_map(root, "pointwise", "P1", std::move(keys));
  cost::PointwiseCosts costs;
  costs.memory_peak = coefficient(map, "memory_bandwidth", kRate);
  for (std::size_t i = 0; i < kPointwiseKeys.size(); ++i) {
    costs.efficiency.at(i) = coefficient.maybe(map, kPointwiseKeys.at(i), parse_efficiency);
  }
  return costs;
}

std::optional<cost::NodeCollectiveCosts> read_node_collective(
    const MapReader& collectives, std::string_view key, const CoefficientReader& coefficient) {
  if (collectives.find(key) == nullptr) {
    return std::nullopt;
  }
  const MapReader map =
      form_map(collectives, key, "C1", {"ranks", "a0", "a1", "beta", "c", "gamma"});
  read_ranks(map);
  cost::NodeCollectiveCosts costs;
  costs.start = coefficient(map, "a0", parse_seconds);
  costs.per_rank = coefficient(map, "a1", parse_seconds);
  costs.link_rate = coefficient(map, "beta", parse_rate_or_none);
  costs.ramp_per_root_megabyte = coefficient(map, "c", parse_seconds);
  costs.local_rate = coefficient(map, "gamma", parse_rate_or_none);
  return costs;
}

std::optional<cost::SwitchReduceCosts> read_switch_reduce(const MapReader& collectives,
                                                          const CoefficientReader& coefficient) {
  if (collectives.find("all_reduce_nvls") == nullptr) {
    return std::nullopt;
  }
  const MapReader map =
      form_map(collectives, "all_reduce_nvls", "C1n", {"ranks", "a", "beta", "c"});
  cost::SwitchReduceCosts costs;
  std::tie(costs.least_ranks, costs.most_ranks) = read_ranks(map);
  costs.start = coefficient(map, "a", parse_seconds);
  costs.rate = coefficient(map, "beta", parse_rate_or_none);
  costs.ramp_per_root_megabyte = coefficient(map, "c", parse_seconds);
  return costs;
}

std::optional<cost::SendRecvCosts> read_send_recv(const MapReader& collectives,
                                                  const CoefficientReader& coefficient) {
  if (collectives.find("send_recv") == nullptr) {
    return std::nullopt;
  }
  const MapReader map =
      form_map(collectives, "send_recv", "C2", {"a", "r", "channels", "channel_bytes", "beta"});
  cost::SendRecvCosts costs;
  costs.start = coefficient(map, "a", parse_seconds);
  costs.channel_rate = coefficient(map, "r", kRate);
  costs.channels = coefficient(map, "channels", kCount);
  costs.channel_bytes = coefficient(map, "channel_bytes", positive(parse_bytes));
  costs.link_rate = coefficient(map, "beta", kRate);
  return costs;
}

cost::CollectiveCosts read_collectives(const MapReader& root,
                                       const CoefficientReader& coefficient) {
  if (root.find("collectives") == nullptr) {
    return {};
  }
  const MapReader map(
      root.node("collectives"),
      "collectives",
      {"all_to_all", "all_gather", "reduce_scatter", "all_reduce", "all_reduce_nvls", "send_recv"});
  return {.all_to_all = read_node_collective(map, "all_to_all", coefficient),
          .all_gather = read_node_collective(map, "all_gather", coefficient),
          .reduce_scatter = read_node_collective(map, "reduce_scatter", coefficient),
          .all_reduce = read_node_collective(map, "all_reduce", coefficient),
          .all_reduce_nvls = read_switch_reduce(map, coefficient),
          .send_recv = read_send_recv(map, coefficient)};
}

std::optional<cost::MultiNodeAllToAllCosts> read_multi_node_all_to_all(
    const MapReader& multi_node, const CoefficientReader& coefficient) {
  if (multi_node.find("all_to_all") == nullptr) {
    return std::nullopt;
  }
  const MapReader map = form_map(multi_node, "all_to_all", "M1", {"a0", "a_r", "nic_efficiency"});
  cost::MultiNodeAllToAllCosts costs;
  costs.start = coefficient(map, "a0", parse_seconds);
  costs.per_remote_rank = coefficient(map, "a_r", parse_seconds);
  costs.nic_efficiency = coefficient(map, "nic_efficiency", parse_efficiency);
  return costs;
}

std::optional<cost::MultiNodeRingCosts> read_multi_node_ring(const MapReader& multi_node,
                                                             const CoefficientReader& coefficient) {
  if (multi_node.find("ring") == nullptr) {
    return std::nullopt;
  }
  const MapReader map = form_map(
      multi_node,
      "ring",
      "M2",
      {"a_s_all_gather", "a_s_reduce_scatter", "a_s_all_reduce", "nic_efficiency", "beta_nvl"});
  cost::MultiNodeRingCosts costs;
  costs.all_gather_step = coefficient.maybe(map, "a_s_all_gather", parse_seconds);
  costs.reduce_scatter_step = coefficient.maybe(map, "a_s_reduce_scatter", parse_seconds);
  costs.all_reduce_step = coefficient.maybe(map, "a_s_all_reduce", parse_seconds);
  costs.nic_efficiency = coefficient(map, "nic_efficiency", parse_efficiency);
  costs.nvlink_rate = coefficient(map, "beta_nvl", kRate);
  return costs;
}

std::optional<cost::MultiNodeSendRecvCosts> read_multi_node_send_recv(
    const MapReader& multi_node, const CoefficientReader& coefficient) {
  if (multi_node.find("send_recv") == nullptr) {
    return std::nullopt;
  }
  const MapReader map(multi_node.node("send_recv"),
                      multi_node.path_of("send_recv"),
                      {"nic_efficiency", "crowded_ranks", "crowded_rate"});
  cost::MultiNodeSendRecvCosts costs;
  costs.nic_efficiency = coefficient(map, "nic_efficiency", parse_efficiency);
  if (map.find("crowded_ranks") != nullptr || map.find("crowded_rate") != nullptr) {
    cost::CrowdedSendRecvCosts crowded;
    crowded.ranks = coefficient(map, "crowded_ranks", kCount);
    crowded.rate = coefficient(map, "crowded_rate", kRate);
    costs.crowded = crowded;
  }
  return costs;
}

cost::MultiNodeCosts read_multi_node(const MapReader& root, const CoefficientReader& coefficient) {
  if (root.find("multi_node") == nullptr) {
    return {};
  }
  const MapReader map(root.node("multi_node"), "multi_node", {"all_to_all", "ring", "send_recv"});
  return {.all_to_all = read_multi_node_all_to_all(map, coefficient),
          .ring = read_multi_node_ring(map, coefficient),
          .send_recv = read_multi_node_send_recv(map, coefficient)};
}

/// The measured payloads of one group shape and the factors on the closed form there, as two lists
/// of one length.
cost::GroupResiduals read_group_residuals(const Node& node, const std::string& path) {
  const MapReader map(node, path, {"ranks", "ranks_per_node", "payloads", "factors"});
  cost::GroupResiduals group;
  group.group.ranks = map.required("ranks", count_between(2, kMostRanks));
  group.group.ranks_per_node = map.required("ranks_per_node", count_between(1, group.group.ranks));
  if (group.group.ranks % group.group.ranks_per_node != 0) {
    refuse(map.node("ranks_per_node").where(),
           "ranks_per_node: the ranks are not a multiple of it",
           "name how many of the ranks share a node");
  }
  const auto payloads = map.items("payloads");
  const auto factors = map.items("factors");
  if (payloads.empty() || payloads.size() != factors.size()) {
    refuse(map.where(),
           fmt::format("residuals: {} payloads and {} factors", payloads.size(), factors.size()),
           "write one factor for each payload");
  }
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const cost::Residual row{
        parse_node(payloads[i], "payloads", positive(parse_bytes)),
        parse_node(factors[i], "factors", positive(parse_non_negative_number))};
    if (!group.table.empty() && row.payload <= group.table.back().payload) {
      refuse(payloads[i].where(), "payloads: they must be in ascending order");
    }
    group.table.push_back(row);
  }
  if (group.table.back().factor != 1) {
    refuse(factors.back().where(),
           "factors: the last one must be 1, as nothing is extrapolated",
           "end the table with a payload beyond the largest measured one and the factor 1");
  }
  return group;
}

std::vector<cost::GroupResiduals> read_residuals_of(const MapReader& residuals,
                                                    std::string_view key) {
  std::vector<cost::GroupResiduals> groups;
  for (const Node& node : residuals.items(key)) {
    groups.push_back(
        read_group_residuals(node, fmt::format("{}[{}]", residuals.path_of(key), groups.size())));
  }
  return groups;
}

cost::ResidualTables read_residuals(const MapReader& root) {
  if (root.find("residuals") == nullptr) {
    return {};
  }
  const MapReader map(root.node("residuals"),
                      "residuals",
                      {"all_to_all", "all_gather", "reduce_scatter", "all_reduce", "send_recv"});
  return {.all_to_all = read_residuals_of(map, "all_to_all"),
          .all_gather = read_residuals_of(map, "all_gather"),
          .reduce_scatter = read_residuals_of(map, "reduce_scatter"),
          .all_reduce = read_residuals_of(map, "all_reduce"),
          .send_recv = read_residuals_of(map, "send_recv")};
}

/// A fraction that something loses: below 1, so that something is left.
double parse_loss(std::string_view text) {
  const double value = parse_non_negative_number(text);
  if (value >= 1) {
    throw BadText(in_quotes(text) + " is not a part that is lost",
                  "accepted: a fraction from 0 to below 1");
  }
  return value;
}

std::optional<cost::InterferenceCosts> read_interference(const MapReader& root,
                                                         const CoefficientReader& coefficient) {
  if (root.find("interference") == nullptr) {
    return std::nullopt;
  }
  const MapReader map = form_map(root, "interference", "I1", {"channels", "memory", "collective"});
  cost::InterferenceCosts costs;
  costs.channels = coefficient(map, "channels", parse_count);
  costs.memory = coefficient(map, "memory", parse_loss);
  costs.collective = coefficient(map, "collective", parse_loss);
  if (root.find("streaming_multiprocessors") == nullptr) {
    refuse(map.where(),
           "interference: the profile does not state streaming_multiprocessors",
           "add streaming_multiprocessors: {value: 132, source: datasheet}");
  }
  return costs;
}

}  // namespace

ProfileSpec read_profile(const Node& root, const std::string& name) {
  const MapReader file(root,
                       "",
                       {"version",
                        "device",
                        "description",
                        "streaming_multiprocessors",
                        "kernel_launch",
                        "gemm",
                        "attention",
                        "pointwise",
                        "collectives",
                        "multi_node",
                        "interference",
                        "residuals"});
  file.required("version", count_between(1, 1));
  ProfileSpec profile;
  profile.name = name;
  profile.file = file.where().file;
  const MapReader device(file.node("device"), "device", {"gpu", "nccl", "driver", "date"});
  profile.gpu = device.required_located("gpu", parse_word);
  profile.nccl = device.maybe("nccl", parse_word).value_or("");
  profile.driver = device.maybe("driver", parse_word).value_or("");
  profile.date = device.maybe("date", parse_word).value_or("");
  profile.description = file.maybe("description", parse_word).value_or("");

  const CoefficientReader coefficient(profile.coefficients);
  cost::MachineCosts& costs = profile.costs;
  costs.streaming_multiprocessors = coefficient.maybe(file, "streaming_multiprocessors", kCount);
  costs.kernel_launch = coefficient.maybe(file, "kernel_launch", parse_seconds);
  costs.gemm = read_gemm(file, coefficient);
  costs.attention = read_attention(file, coefficient);
  costs.pointwise = read_pointwise(file, coefficient);
  costs.collectives = read_collectives(file, coefficient);
  costs.multi_node = read_multi_node(file, coefficient);
  costs.interference = read_interference(file, coefficient);
  costs.residuals = read_residuals(file);
  return profile;
}

void check_profile_gpu(const ProfileSpec& profile,
                       const std::string& cluster_gpu,
                       const SourceLocation& profile_key) {
  if (profile.gpu.value == cluster_gpu) {
    return;
  }
  throw Error(ErrorKind::input,
              profile_key,
              fmt::format("profile {} was measured on {}, the cluster's GPU is {}",
                          in_quotes(profile.name),
                          in_quotes(profile.gpu.value),
                          in_quotes(cluster_gpu)),
              fmt::format("name a profile of {}", in_quotes(cluster_gpu)),
              {{profile.gpu.where, "the profile's GPU stands here"}});
}

}  // namespace trireme::config
