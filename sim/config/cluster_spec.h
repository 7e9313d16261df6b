// GPUs and clusters as their YAML files describe them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/profile_spec.h"
#include "sim/config/provenance.h"
#include "sim/core/error.h"
#include "sim/units/units.h"

namespace trireme::config {

struct GpuSpec {
  std::string name;
  Bytes memory_visible;  // what the driver reports, not the product's name
  FlopsPerSecond peak_dense_bf16;
  std::optional<FlopsPerSecond> peak_dense_fp8;
  BytesPerSecond memory_bandwidth;
  BytesPerSecond nvlink_one_direction;  // per GPU, payload line rate
  std::vector<Provenance> sources;      // of each value above
};

struct ClusterSpec {
  std::string name;
  Located<std::int64_t> nodes;
  Located<std::int64_t> gpus_per_node;
  GpuSpec gpu;
  std::string intra;           // nvswitch
  BytesPerSecond nic_per_gpu;  // one direction
  std::string fabric;          // rail_optimised, ...
  double oversubscription = 1;
  ProfileSpec profile;
  std::vector<Provenance> sources;  // of the cluster's own values, not the GPU's

  [[nodiscard]] std::int64_t gpus() const { return nodes.value * gpus_per_node.value; }
};

}  // namespace trireme::config
