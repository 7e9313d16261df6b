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

constexpr Choice<std::string_view> kIntraWords[] = {{"nvswitch", "nvswitch"}};
constexpr Choice<std::string_view> kFabricWords[] = {{"rail_optimised", "rail_optimised"}};

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
      map.node("node"), "cluster.node", {"gpus", "gpu", "intra", "nic_per_gpu"}, defaults);
  cluster.gpus_per_node = node.required_located("gpus", count_within("gpus"));
  cluster.gpu = read_gpu(node.node("gpu"), library, defaults);
  cluster.intra = node.optional("intra", word_of(kIntraWords), "nvswitch");
  cluster.nic_per_gpu = with_source(
      node, "nic_per_gpu", "node.nic_per_gpu", above_zero(parse_bytes_per_second), cluster.sources);
  const MapReader fabric(
      map.node("fabric"), "cluster.fabric", {"kind", "oversubscription"}, defaults);
  cluster.fabric = fabric.optional("kind", word_of(kFabricWords), "rail_optimised");
  cluster.oversubscription = fabric.optional("oversubscription", parse_oversubscription, "1");
  const Node& profile_reference = map.node("profile");
  const Resolved profile = library.resolve(PresetKind::profile, profile_reference, "inline");
  cluster.profile = read_profile(profile.node, profile.name);
  check_profile_gpu(cluster.profile, cluster.gpu.name, profile_reference.where());
  return cluster;
}

}  // namespace trireme::config
