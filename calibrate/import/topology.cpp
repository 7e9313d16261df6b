#include "calibrate/import/topology.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/core/vocabulary.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

constexpr std::array<std::string_view, 5> kPathNames = {"PIX", "PXB", "PHB", "NODE", "SYS"};
constexpr std::array<std::string_view, 5> kWiringNames = {
    "not stated", "none", "in a mesh", "between some pairs", "by a switch"};

struct GpuPreset {
  std::string_view pci_device;
  std::string_view preset;
};

// The PCI ID database names device 10de:2330 "GH100 [H100 SXM5 80GB]", and so on.
constexpr std::array kPresets = {GpuPreset{"0x20b2", "a100-sxm-80"},
                                 GpuPreset{"0x2330", "h100-sxm"},
                                 GpuPreset{"0x2335", "h200-sxm"},
                                 GpuPreset{"0x2901", "b200-sxm"}};

std::string plural(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

/// The preset of all GPUs; empty when they have none or differ.
std::string gpu_preset(const Topology& topology) {
  const std::string& device = topology.gpus.front().pci_device;
  const bool same = std::all_of(topology.gpus.begin(),
                                topology.gpus.end(),
                                [&](const TopologyGpu& gpu) { return gpu.pci_device == device; });
  for (const GpuPreset& preset : kPresets) {
    if (same && preset.pci_device == device) {
      return std::string(preset.preset);
    }
  }
  return {};
}

std::string gpu_of(const Topology& topology, const MachineStatements& statements) {
  return statements.gpu.empty() ? gpu_preset(topology) : statements.gpu;
}

/// The word of `intra`: the reader of clusters refuses those that sim does not model.
std::string_view intra_word(NvlinkWiring wiring) {
  switch (wiring) {
    case NvlinkWiring::switched:
      return "nvswitch";
    case NvlinkWiring::mesh:
      return "nvlink_mesh";
    case NvlinkWiring::partial:
      return "nvlink_between_some_pairs";
    case NvlinkWiring::none:
      return "pcie";
    case NvlinkWiring::not_stated:
      return "not_stated";
  }
  return {};
}

/// Whether the adapters are fewer than the GPUs and as many GPUs share each: a cluster says so.
bool are_shared_evenly(const Topology& topology) {
  return !topology.nics.empty() && topology.nics.size() < topology.gpus.size() &&
         topology.gpus.size() % topology.nics.size() == 0;
}

std::string quoted(std::string_view text) {
  std::string yaml = "'";
  for (const char character : text) {
    yaml += character == '\'' ? "''" : std::string(1, character);
  }
  return yaml + '\'';
}

std::string nic_text(const TopologyNic& nic) {
  return nic.rate ? fmt::format("{} ({})", nic.name, to_text(*nic.rate)) : nic.name;
}

std::string link_text(const TopologyGpu& gpu, NvlinkWiring wiring) {
  if (!gpu.links) {
    return "NVLinks not stated";
  }
  std::string text = plural(static_cast<std::size_t>(*gpu.links), "NVLink");
  if (*gpu.links > 0 && wiring != NvlinkWiring::not_stated) {
    text += fmt::format(", {}", name(wiring));
  }
  return text + (gpu.chip_to_chip ? ", chip-to-chip to its processor" : "");
}

}  // namespace

std::string_view name(PciPath path) {
  return name_in(kPathNames, path);
}

std::string_view name(NvlinkWiring wiring) {
  return name_in(kWiringNames, wiring);
}

std::vector<std::size_t> Topology::gpus_near(std::size_t nic) const {
  std::vector<std::size_t> found;
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const std::vector<std::size_t>& near = gpus[gpu].near_nics;
    if (std::find(near.begin(), near.end(), nic) != near.end()) {
      found.push_back(gpu);
    }
  }
  return found;
}

std::optional<PciPath> Topology::near_path(std::size_t gpu) const {
  const std::vector<std::size_t>& near = gpus[gpu].near_nics;
  return near.empty() ? std::nullopt : std::optional(paths[gpu][near.front()]);
}

std::optional<BytesPerSecond> Topology::rate_per_gpu() const {
  std::optional<double> share;
  for (const TopologyGpu& gpu : gpus) {
    double sum = 0;
    for (const std::size_t nic : gpu.near_nics) {
      if (!nics[nic].rate) {
        return std::nullopt;
      }
      sum += nics[nic].rate->value() / static_cast<double>(gpus_near(nic).size());
    }
    if (gpu.near_nics.empty() || (share && *share != sum)) {
      return std::nullopt;
    }
    share = sum;
  }
  return share ? std::optional(BytesPerSecond(*share)) : std::nullopt;
}

void find_near_nics(Topology& topology) {
  for (std::size_t gpu = 0; gpu < topology.gpus.size(); ++gpu) {
    const std::vector<PciPath>& paths = topology.paths[gpu];
    std::vector<std::size_t>& near = topology.gpus[gpu].near_nics;
    near.clear();
    if (paths.empty()) {
      continue;
    }
    const PciPath nearest = *std::min_element(paths.begin(), paths.end());
    for (std::size_t nic = 0; nic < paths.size(); ++nic) {
      if (paths[nic] == nearest) {
        near.push_back(nic);
      }
    }
  }
}

std::vector<std::string> missing_in_yaml(const Topology& topology,
                                         const MachineStatements& statements) {
  std::vector<std::string> missing;
  if (gpu_of(topology, statements).empty()) {
    missing.emplace_back("node.gpu");
  }
  if (topology.wiring == NvlinkWiring::not_stated) {
    missing.emplace_back("node.intra");
  }
  if (!topology.rate_per_gpu()) {
    missing.emplace_back("node.nic_per_gpu");
  }
  if (topology.wiring == NvlinkWiring::none) {
    missing.emplace_back("node.pcie_per_gpu");
  }
  if (statements.profile.empty()) {
    missing.emplace_back("profile");
  }
  return missing;
}

std::string cluster_yaml(const Topology& topology,
                         const std::string& name,
                         const std::string& source,
                         const MachineStatements& statements) {
  std::string text = fmt::format("# One node, from {}.\n", topology.kind);
  std::size_t begin = 0;
  const std::string summary = summary_text(topology);
  while (begin < summary.size()) {
    const std::size_t end = summary.find('\n', begin);
    text += fmt::format("#   {}\n", summary.substr(begin, end - begin));
    begin = end + 1;
  }
  text += fmt::format(
      "version: 1\nname: {}\nnodes: 1\nnode:\n  gpus: {}\n", quoted(name), topology.gpus.size());
  const std::string gpu = gpu_of(topology, statements);
  text += gpu.empty() ? "  # gpu: not stated; name a preset or a file\n"
                      : fmt::format("  gpu: {}\n", quoted(gpu));
  text += fmt::format("  intra: {}\n", intra_word(topology.wiring));
  if (const auto rate = topology.rate_per_gpu()) {
    text +=
        fmt::format("  nic_per_gpu: {{value: {}, source: {}}}\n", to_text(*rate), quoted(source));
  } else {
    text += "  # nic_per_gpu: not stated, or not the same for every GPU; such as 400 Gbit/s\n";
  }
  if (are_shared_evenly(topology)) {
    text += fmt::format(
        "  nics_per_node: {{value: {}, source: {}}}\n", topology.nics.size(), quoted(source));
  }
  if (topology.wiring == NvlinkWiring::none) {
    text += "  # pcie_per_gpu: not stated; such as 25 GB/s in one direction\n";
  }
  text += "# How nodes are joined is not stated: the defaults of a cluster.\nfabric: {}\n";
  if (!statements.profile.empty()) {
    text += fmt::format("profile: {}\n", quoted(statements.profile));
  } else {
    text += fmt::format("# profile: not stated; name a preset{} or a file\n",
                        gpu.empty() ? "" : fmt::format(" such as {}-public", gpu));
  }
  return text;
}

std::string summary_text(const Topology& topology) {
  std::string text = fmt::format("{}, {}, NVLinks {}\n",
                                 plural(topology.gpus.size(), "GPU"),
                                 plural(topology.nics.size(), "adapter"),
                                 name(topology.wiring));
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) {
    const TopologyGpu& gpu = topology.gpus[i];
    text += fmt::format("{}{}{}: {}",
                        gpu.name,
                        gpu.bus_id.empty() ? "" : fmt::format(" at {}", gpu.bus_id),
                        gpu.numa ? fmt::format(" in NUMA node {}", *gpu.numa) : "",
                        link_text(gpu, topology.wiring));
    if (const auto path = topology.near_path(i)) {
      text += fmt::format("; nearest by {}:", name(*path));
      for (const std::size_t nic : gpu.near_nics) {
        text += ' ' + nic_text(topology.nics[nic]);
      }
    }
    text += '\n';
  }
  for (std::size_t i = 0; i < topology.nics.size(); ++i) {
    text += fmt::format("{} serves", nic_text(topology.nics[i]));
    const std::vector<std::size_t> served = topology.gpus_near(i);
    for (const std::size_t gpu : served) {
      text += ' ' + topology.gpus[gpu].name;
    }
    text += served.empty() ? " no GPU first\n" : "\n";
  }
  for (const std::string& note : topology.notes) {
    text += note + '\n';
  }
  return text;
}

}  // namespace trireme::calibrate
