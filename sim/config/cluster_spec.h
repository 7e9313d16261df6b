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

/// How the GPUs of a node reach each other.
enum class IntraLinks : std::uint8_t { nvswitch, nvlink_mesh, pcie };

/// What offloaded tensors live in, and go over: the processors and the memory of a node.
struct HostSpec {
  std::optional<Bytes> memory;  // of a node; absent: not known, and not checked
  // Where a cluster does not say: what is measured on a server of 8 H100 over PCIe 5.0 (nvbandwidth
  // issue 24), and, derived, DeepSpeed's CPU-Adam: 10^10 parameters of 30 bytes in 2.57 s
  // (ren2021-zero-offload, table 4).
  BytesPerSecond link_per_gpu{52.8e9};  // between a GPU and its host, one direction
  BytesPerSecond work_rate{117e9};      // of a node's processors, through its memory
};

/// How nodes reach each other.
enum class FabricKind : std::uint8_t { flat, leaf_spine, rail_optimised };

struct ClusterSpec {
  std::string name;
  Located<std::int64_t> nodes;
  Located<std::int64_t> gpus_per_node;
  GpuSpec gpu;
  IntraLinks intra = IntraLinks::nvswitch;
  std::optional<BytesPerSecond> pcie_per_gpu;  // one direction; there where `intra` is pcie
  BytesPerSecond nic_per_gpu;                  // one direction, its share where NICs are shared
  std::int64_t nics_per_node = 1;              // divides gpus_per_node
  HostSpec host;
  FabricKind fabric = FabricKind::rail_optimised;
  std::int64_t nodes_per_leaf = 1;  // of a pod; all nodes where the file does not say
  double oversubscription = 1;
  bool pxn = true;  // NCCL relays over NVLink to the GPU on the receiver's rail
  ProfileSpec profile;
  std::vector<Provenance> sources;  // of the cluster's own values, not the GPU's

  [[nodiscard]] std::int64_t gpus() const { return nodes.value * gpus_per_node.value; }
};

}  // namespace trireme::config
