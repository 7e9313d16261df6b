// The GPUs, links and adapters of one machine, as its own tools print them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units/units.h"

namespace trireme::calibrate {

/// How far an adapter is from a GPU, nearest first, in the words of nvidia-smi: one PCIe bridge,
/// several, the host bridge, another host bridge of the same NUMA node, another NUMA node.
enum class PciPath : std::uint8_t { pix, pxb, phb, node, sys };

[[nodiscard]] std::string_view name(PciPath path);

struct TopologyGpu {
  std::string name;                    // "GPU0"
  std::string bus_id;                  // empty when not stated
  std::string pci_device;              // "0x2330"; empty when not stated
  std::optional<std::int64_t> numa;    // node
  std::optional<std::int64_t> links;   // NVLinks in all; nullopt when not stated
  bool chip_to_chip = false;           // to a processor in the same package
  std::vector<std::size_t> near_nics;  // the nearest, by place in Topology::nics
};

struct TopologyNic {
  std::string name;  // "mlx5_0"
  std::string bus_id;
  std::optional<BytesPerSecond> rate;  // one direction
};

/// How NVLinks join the GPUs: every pair by as many, some pairs or by different numbers, or all by
/// switches.
enum class NvlinkWiring : std::uint8_t { not_stated, none, mesh, partial, switched };

[[nodiscard]] std::string_view name(NvlinkWiring wiring);

struct Topology {
  std::string kind;  // "nvidia-smi topo -m" or "NCCL topology"
  std::vector<TopologyGpu> gpus;
  std::vector<TopologyNic> nics;
  std::vector<std::vector<PciPath>> paths;  // of a GPU to each adapter
  NvlinkWiring wiring = NvlinkWiring::not_stated;
  std::vector<std::string> notes;

  /// The GPUs for which an adapter is one of the nearest.
  [[nodiscard]] std::vector<std::size_t> gpus_near(std::size_t nic) const;

  /// How far the nearest adapters of a GPU are; nullopt without adapters.
  [[nodiscard]] std::optional<PciPath> near_path(std::size_t gpu) const;

  /// What each GPU gets of its nearest adapters, shared evenly among the GPUs that are as near;
  /// nullopt when a rate is not stated or GPUs get different amounts.
  [[nodiscard]] std::optional<BytesPerSecond> rate_per_gpu() const;
};

/// A topology file of NCCL and the matrix of nvidia-smi have a few KiB.
inline constexpr std::int64_t kLargestTopology = std::int64_t{1} << 20;

/// Whether a text has the matrix that `nvidia-smi topo -m` prints.
[[nodiscard]] bool has_topology_matrix(std::string_view text);

/// The first matrix of a text. Throws Error (input) where it is damaged: a missing row or cell, an
/// unknown word, two cells of one pair that differ, a second matrix of another machine.
[[nodiscard]] Topology read_topology_matrix(std::string_view text, const std::string& file);

/// Whether a file begins as XML does.
[[nodiscard]] bool looks_like_xml(std::string_view text);

/// A file of NCCL_TOPO_DUMP_FILE or NCCL_TOPO_FILE. Files that list PCI devices alone tell GPUs and
/// adapters by their class. Throws Error (input) where it is no XML, no topology, nested deeper
/// than 32, or has a device twice or a value that is none.
[[nodiscard]] Topology read_topology_xml(std::string_view text, const std::string& file);

/// What a person says about a machine that its topology does not.
struct MachineStatements {
  std::string gpu;      // a preset or a file
  std::string profile;  // a preset or a file
};

/// A cluster of one such node as YAML, for sim/config. What the topology does not state is a
/// comment where its key would stand, so that the reader of clusters reports it as missing; what
/// sim does not model, such as GPUs without an NVSwitch, has a word that it refuses.
[[nodiscard]] std::string cluster_yaml(const Topology& topology,
                                       const std::string& name,
                                       const std::string& source,
                                       const MachineStatements& statements);

/// Keys of that YAML which are missing.
[[nodiscard]] std::vector<std::string> missing_in_yaml(const Topology& topology,
                                                       const MachineStatements& statements);

/// GPUs, links, adapters and rails for people, a line each.
[[nodiscard]] std::string summary_text(const Topology& topology);

/// Fills near_nics of every GPU from `paths`.
void find_near_nics(Topology& topology);

}  // namespace trireme::calibrate
