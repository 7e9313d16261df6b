// Reading GPUs and clusters.
#pragma once

#include <string>
#include <vector>

#include "sim/config/cluster_spec.h"
#include "sim/config/library.h"
#include "sim/config/map_reader.h"
#include "sim/config/node.h"

namespace trireme::config {

/// The words of `node.intra` and `fabric.kind`.
inline constexpr Choice<IntraLinks> kIntraWords[] = {{"nvswitch", IntraLinks::nvswitch},
                                                     {"nvlink_mesh", IntraLinks::nvlink_mesh},
                                                     {"pcie", IntraLinks::pcie}};
inline constexpr Choice<FabricKind> kFabricWords[] = {
    {"flat", FabricKind::flat},
    {"leaf_spine", FabricKind::leaf_spine},
    {"rail_optimised", FabricKind::rail_optimised}};

/// Reads `gpu: NAME | FILE | {use: ..., overrides} | {inline}`. Defaults used are appended to
/// `defaults` unless that is null. Throws Error (input), located.
[[nodiscard]] GpuSpec read_gpu(const Node& reference,
                               const Library& library,
                               std::vector<std::string>* defaults = nullptr);

/// Reads `cluster: NAME | FILE | {use: h100-8x-nvlink, nodes: 2, profile: NAME, ...} | {inline}`
/// with its GPU and its profile. Throws Error (input), located; a profile that was measured on
/// another GPU is an error too.
[[nodiscard]] ClusterSpec read_cluster(const Node& reference,
                                       const Library& library,
                                       std::vector<std::string>* defaults = nullptr);

}  // namespace trireme::config
