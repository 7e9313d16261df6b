#include "sim/config/cluster.h"

#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "sim/config/bounds.h"
#include "sim/config/map_reader.h"
#include "sim/config/profile.h"
#include "sim/config/words.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::config {
namespace {

/// The value under `key`, whose provenance is appended to `sources`.
template <class Parse>
auto with_source(const MapReader& map,
                 std::string_view key,
                 std::string_view path,
                 const Parse& parse,
                 std::vector<Provenance>& sources) {
  const auto sourced = map.sourced(key, parse);
  sources.push_back({std::string(path), sourced.text, sourced.source});
  return sourced.value;
}

double parse_oversubscription(std::string_view text) {
  const double factor = parse_non_negative_number(text);
  if (factor < 1) {
    throw BadText(fmt::format("{} is less than 1", in_quotes(text)),
                  "accepted: 1 for none, 2 when half of the bandwidth is there, ...");
  }
  return factor;
}

/// The links inside a node and its NICs.
void read_node(const MapReader& node, ClusterSpec& cluster) {
  cluster.intra = node.optional("intra", word_of(kIntraWords), "nvswitch");
  const auto byte_rate = above_zero(parse_bytes_per_second);
  cluster.nic_per_gpu =
      with_source(node, "nic_per_gpu", "node.nic_per_gpu", byte_rate, cluster.sources);
  const std::int64_t gpus = cluster.gpus_per_node.value;
  if (node.find("nics_per_node") != nullptr) {
    cluster.nics_per_node = with_source(
        node,
        "nics_per_node",
        "node.nics_per_node",
        [gpus](std::string_view text) {
          const std::int64_t nics = count_between(1, gpus)(text);
          if (gpus % nics != 0) {
            throw BadText(
                fmt::format("{} does not divide the {} GPUs of a node", in_quotes(text), gpus),
                "accepted: as many NICs as GPUs, or half as many, ...");
          }
          return nics;
        },
        cluster.sources);
  } else {
    cluster.nics_per_node = gpus;
    node.echo_default("nics_per_node", std::to_string(gpus));
  }
  const Node* pcie = node.find("pcie_per_gpu");
  if (cluster.intra == IntraLinks::pcie) {
    cluster.pcie_per_gpu =
        with_source(node, "pcie_per_gpu", "node.pcie_per_gpu", byte_rate, cluster.sources);
  } else if (pcie != nullptr) {
    refuse(pcie->where(),
           "pcie_per_gpu: GPUs of this node reach each other over NVLink",
           "remove it, or write intra: pcie");
  }
}

void read_host(const MapReader& host, ClusterSpec& cluster) {
  const auto has = [&](std::string_view key) { return host.find(key) != nullptr; };
  const auto bytes = above_zero(parse_bytes);
  const auto byte_rate = above_zero(parse_bytes_per_second);
  if (has("memory")) {
    cluster.host.memory = with_source(host, "memory", "node.host.memory", bytes, cluster.sources);
  }
  if (has("link_per_gpu")) {
    cluster.host.link_per_gpu =
        with_source(host, "link_per_gpu", "node.host.link_per_gpu", byte_rate, cluster.sources);
  }
  if (has("work_rate")) {
    cluster.host.work_rate =
        with_source(host, "work_rate", "node.host.work_rate", byte_rate, cluster.sources);
  }
}

void read_fabric(const MapReader& fabric, ClusterSpec& cluster) {
  cluster.fabric = fabric.optional("kind", word_of(kFabricWords), "rail_optimised");
  cluster.oversubscription = fabric.optional("oversubscription", parse_oversubscription, "1");
  if (cluster.fabric == FabricKind::flat && cluster.oversubscription > 1) {
    refuse(fabric.node("oversubscription").where(),
           "oversubscription: a flat fabric has no leaf switches that could be oversubscribed",
           "write 1, or kind: leaf_spine or rail_optimised");
  }
  if (fabric.find("nodes_per_leaf") != nullptr) {
    cluster.nodes_per_leaf = with_source(
        fabric, "nodes_per_leaf", "fabric.nodes_per_leaf", count_within("nodes"), cluster.sources);
  } else {
    cluster.nodes_per_leaf = cluster.nodes.value;
    fabric.echo_default("nodes_per_leaf", "all nodes");
  }
  const Node* pxn = fabric.find("pxn");
  if (cluster.intra != IntraLinks::pcie) {
    cluster.pxn = fabric.optional("pxn", parse_bool, "true");
    return;
  }
  cluster.pxn = pxn != nullptr && fabric.required("pxn", parse_bool);
  if (cluster.pxn) {
    refuse(pxn->where(), "pxn: it goes over NVLink, of which these nodes have none", "remove it");
  }
}

}  // namespace

GpuSpec read_gpu(const Node& reference,
                 const Library& library,
                 std::vector<std::string>* defaults) {
  const Resolved resolved = library.resolve(PresetKind::gpu, reference, "inline");
  const MapReader map(resolved.node,
                      "gpu",
                      {"version",
                       "name",
                       "memory_visible",
                       "peak_dense",
                       "memory_bandwidth",
                       "nvlink_one_direction"},
                      defaults);
  map.maybe("version", parse_version);
  GpuSpec gpu;
  gpu.name = map.maybe("name", parse_word).value_or(resolved.name);
  const auto bytes = above_zero(parse_bytes);
  const auto byte_rate = above_zero(parse_bytes_per_second);
  const auto flop_rate = above_zero(parse_flops_per_second);
  gpu.memory_visible = with_source(map, "memory_visible", "memory_visible", bytes, gpu.sources);
  const MapReader peak(map.node("peak_dense"), "gpu.peak_dense", {"bf16", "fp8"}, defaults);
  gpu.peak_dense_bf16 = with_source(peak, "bf16", "peak_dense.bf16", flop_rate, gpu.sources);
  if (peak.find("fp8") != nullptr) {
    gpu.peak_dense_fp8 = with_source(peak, "fp8", "peak_dense.fp8", flop_rate, gpu.sources);
  }
  gpu.memory_bandwidth =
      with_source(map, "memory_bandwidth", "memory_bandwidth", byte_rate, gpu.sources);
  gpu.nvlink_one_direction =
      with_source(map, "nvlink_one_direction", "nvlink_one_direction", byte_rate, gpu.sources);
  return gpu;
}

ClusterSpec read_cluster(const Node& reference,
                         const Library& library,
                         std::vector<std::string>* defaults) {
  const Resolved resolved = library.resolve(PresetKind::cluster, reference, "inline");
  const MapReader map(resolved.node,
                      "cluster",
                      {"version", "name", "nodes", "node", "fabric", "profile"},
                      defaults);
  map.maybe("version", parse_version);
  ClusterSpec cluster;
  cluster.name = map.maybe("name", parse_word).value_or(resolved.name);
  cluster.nodes = map.optional_located("nodes", count_within("nodes"), "1");
  const MapReader node(
      map.node("node"),
      "cluster.node",
      {"gpus", "gpu", "intra", "pcie_per_gpu", "nic_per_gpu", "nics_per_node", "host"},
      defaults);
  cluster.gpus_per_node = node.required_located("gpus", count_within("gpus"));
  cluster.gpu = read_gpu(node.node("gpu"), library, defaults);
  read_node(node, cluster);
  if (const Node* const host = node.find("host")) {
    read_host(MapReader(*host, "cluster.node.host", {"memory", "link_per_gpu", "work_rate"}),
              cluster);
  }
  const MapReader fabric(map.node("fabric"),
                         "cluster.fabric",
                         {"kind", "oversubscription", "nodes_per_leaf", "pxn"},
                         defaults);
  read_fabric(fabric, cluster);
  const Node& profile_reference = map.node("profile");
  const Resolved profile = library.resolve(PresetKind::profile, profile_reference, "inline");
  cluster.profile = read_profile(profile.node, profile.name);
  check_profile_gpu(cluster.profile, cluster.gpu.name, profile_reference.where());
  return cluster;
}

}  // namespace trireme::config
