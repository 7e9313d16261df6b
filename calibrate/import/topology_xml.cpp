#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "calibrate/import/text_place.h"
#include "calibrate/import/topology.h"
#include "sim/core/error.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

constexpr int kDeepest = 32;
constexpr std::size_t kMostDevices = 1024;

std::string_view attribute(const pugi::xml_node& node, const char* name) {
  return node.attribute(name).value();
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                    : std::nullopt;
}

/// Where a device hangs: its processor, then the bridges down to it.
struct Branch {
  int processor = 0;
  std::vector<int> bridges;
};

PciPath path_between(const Branch& a, const Branch& b) {
  if (a.processor != b.processor) {
    return PciPath::sys;
  }
  const auto [end_a, end_b] =
      std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  if (end_a == a.bridges.begin()) {
    return PciPath::phb;
  }
  const auto below = (a.bridges.end() - end_a) + (b.bridges.end() - end_b);
  return below == 0 ? PciPath::pix : PciPath::pxb;
}

class XmlReader {
 public:
  XmlReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Topology read() {
    pugi::xml_document document;
    const pugi::xml_parse_result result =
        document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result) {
      fail_at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0)),
              fmt::format("this is no XML from here on: {}", result.description()),
              "was the file cut?");
    }
    const pugi::xml_node root = document.document_element();
    check_root(root);
    devices_only_ = root.find_node([](const pugi::xml_node& node) {
                          return std::string_view(node.name()) == "gpu";
                        })
                        .empty();
    topology_.kind = "NCCL topology";
    int processors = 0;
    for (const pugi::xml_node& cpu : root.children("cpu")) {
      Branch branch;
      branch.processor = processors++;
      numa_ = whole_number(attribute(cpu, "numaid"));
      if (!numa_) {
        fail(cpu, "the processor has no numaid");
      }
      read_children(cpu, branch, 1);
    }
    if (topology_.gpus.empty()) {
      fail(root, "no GPU is in it", "NCCL writes one with NCCL_TOPO_DUMP_FILE");
    }
    return finish();
  }

 private:
  [[noreturn]] void fail_at(std::size_t byte, std::string message, std::string hint = {}) const {
    throw Error(
        ErrorKind::input, place_of_byte(file_, text_, byte), std::move(message), std::move(hint));
  }

  [[noreturn]] void fail(const pugi::xml_node& node,
                         std::string message,
                         std::string hint = {}) const {
    fail_at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0)),
            std::move(message),
            std::move(hint));
  }

  void check_root(const pugi::xml_node& root) const {
    const std::string_view name = root.name();
    if (name == "graphs") {
      fail(root,
           "this is a file of NCCL's graphs, not of its topology",
           "NCCL writes the topology with NCCL_TOPO_DUMP_FILE");
    }
    if (name != "system") {
      fail(root,
           fmt::format("<{}> is not the <system> of an NCCL topology", printable(name)),
           "NCCL writes the topology with NCCL_TOPO_DUMP_FILE");
    }
    if (attribute(root, "version") != "1") {
      fail(root, "version 1 of NCCL's topology is known, and no other");
    }
  }

  void read_children(const pugi::xml_node& parent, const Branch& branch, int depth) {
    if (depth > kDeepest) {
      fail(parent, fmt::format("nested deeper than {}", kDeepest));
    }
    for (const pugi::xml_node& child : parent.children("pci")) {
      read_device(child, branch, depth);
    }
    // Adapters that are no PCI device: bridges, tunnels and pairs of containers.
    for (const pugi::xml_node& virtual_nic : parent.children("nic")) {
      if (std::string_view(parent.name()) == "cpu") {
        virtual_nics_ +=
            std::distance(virtual_nic.children("net").begin(), virtual_nic.children("net").end());
      }
    }
  }

  void read_device(const pugi::xml_node& device, const Branch& branch, int depth) {
    const std::string bus_id = printable(attribute(device, "busid"));
    if (bus_id.empty()) {
      fail(device, "the device has no busid");
    }
    if (!buses_.insert(bus_id).second) {
      fail(device, fmt::format("the device {} stands twice", in_quotes(bus_id)));
    }
    const std::string_view device_class = attribute(device, "class");
    const pugi::xml_node gpu = device.child("gpu");
    const pugi::xml_node nic = device.child("nic");
    if (gpu || (devices_only_ && device_class.starts_with("0x0302"))) {
      add_gpu(device, gpu, bus_id, branch);
    } else if (nic) {
      for (const pugi::xml_node& net : nic.children("net")) {
        add_nic(net, bus_id, branch);
      }
    } else if (devices_only_ &&
               (device_class.starts_with("0x0200") || device_class.starts_with("0x0207"))) {
      add_nic({}, bus_id, branch);
    } else {
      Branch below = branch;
      below.bridges.push_back(++bridges_);
      read_children(device, below, depth + 1);
    }
  }

  void add_gpu(const pugi::xml_node& device,
               const pugi::xml_node& gpu,
               const std::string& bus_id,
               const Branch& branch) {
    TopologyGpu read;
    std::int64_t number = static_cast<std::int64_t>(topology_.gpus.size());
    if (gpu) {
      const auto stated = whole_number(attribute(gpu, "dev"));
      if (!stated || *stated < 0) {
        fail(gpu, "the GPU has no dev");
      }
      number = *stated;
      read.links = count_links(gpu, bus_id);
      read.chip_to_chip = !gpu.child("c2c").empty();
    }
    if (!numbers_.insert(number).second) {
      fail(gpu, fmt::format("the GPU with dev {} stands twice", number));
    }
    if (topology_.gpus.size() == kMostDevices) {
      fail(device, fmt::format("more than {} GPUs", kMostDevices));
    }
    read.name = fmt::format("GPU{}", number);
    read.bus_id = bus_id;
    read.pci_device = printable(attribute(device, "device"));
    read.numa = *numa_ >= 0 ? numa_ : std::nullopt;
    gpu_numbers_.push_back(number);
    gpu_branches_.push_back(branch);
    topology_.gpus.push_back(std::move(read));
  }

  std::int64_t count_links(const pugi::xml_node& gpu, const std::string& bus_id) {
    constexpr std::int64_t kMost = 1000;
    std::int64_t sum = 0;
    for (const pugi::xml_node& link : gpu.children("nvlink")) {
      const auto count = whole_number(attribute(link, "count"));
      if (!count || *count < 1 || *count > kMost) {
        fail(link, "the NVLink has no count");
      }
      sum += *count;
      const bool to_switch = attribute(link, "tclass").starts_with("0x0680");
      (to_switch ? to_switches_ : to_gpus_) = true;
      if (!to_switch) {
        direct_links_[{bus_id, printable(attribute(link, "target"))}] += *count;
      }
    }
    return sum;
  }

  void add_nic(const pugi::xml_node& net, const std::string& bus_id, const Branch& branch) {
    if (topology_.nics.size() == kMostDevices) {
      fail(net, fmt::format("more than {} adapters", kMostDevices));
    }
    TopologyNic read;
    read.bus_id = bus_id;
    read.name = printable(attribute(net, "name"));
    if (read.name.empty()) {
      read.name = bus_id;
    }
    // Mbit/s; NCCL writes -1 or 0 for a port that does not say.
    constexpr std::int64_t kMostMegabits = 100'000'000;
    const std::string_view speed = attribute(net, "speed");
    const auto megabits = whole_number(speed);
    if (!speed.empty() && (!megabits || *megabits > kMostMegabits)) {
      fail(net, fmt::format("{} is no speed in Mbit/s", in_quotes(speed)));
    }
    if (megabits && *megabits > 0) {
      read.rate = BytesPerSecond(static_cast<double>(*megabits) * 1e6 / 8);
    }
    nic_branches_.push_back(branch);
    topology_.nics.push_back(std::move(read));
  }

  Topology finish() {
    sort_gpus();
    for (const Branch& gpu : gpu_branches_) {
      std::vector<PciPath> paths;
      for (const Branch& nic : nic_branches_) {
        paths.push_back(path_between(gpu, nic));
      }
      topology_.paths.push_back(std::move(paths));
    }
    find_near_nics(topology_);
    if (devices_only_) {
      topology_.notes.emplace_back("the file lists PCI devices alone: no NVLinks, no speeds");
    } else if (to_switches_ && !to_gpus_) {
      topology_.wiring = NvlinkWiring::switched;
    } else if (to_gpus_ && !to_switches_) {
      topology_.wiring = is_mesh() ? NvlinkWiring::mesh : NvlinkWiring::partial;
    } else if (!to_gpus_) {
      topology_.wiring = NvlinkWiring::none;
    }
    if (virtual_nics_ > 0) {
      topology_.notes.push_back(
          fmt::format("{} network devices without a PCI device are left out", virtual_nics_));
    }
    return std::move(topology_);
  }

  /// Whether every GPU has as many links to each other one.
  [[nodiscard]] bool is_mesh() const {
    std::set<std::int64_t> counts;
    for (const TopologyGpu& a : topology_.gpus) {
      for (const TopologyGpu& b : topology_.gpus) {
        if (a.bus_id != b.bus_id) {
          const auto found = direct_links_.find({a.bus_id, b.bus_id});
          counts.insert(found == direct_links_.end() ? 0 : found->second);
        }
      }
    }
    return counts.size() == 1;
  }

  /// In the order of their numbers, as a process sees them.
  void sort_gpus() {
    std::map<std::int64_t, std::size_t> order;
    for (std::size_t i = 0; i < gpu_numbers_.size(); ++i) {
      order.emplace(gpu_numbers_[i], i);
    }
    std::vector<TopologyGpu> gpus;
    std::vector<Branch> branches;
    for (const auto& [number, place] : order) {
      gpus.push_back(topology_.gpus[place]);
      branches.push_back(gpu_branches_[place]);
    }
    topology_.gpus = std::move(gpus);
    gpu_branches_ = std::move(branches);
  }

  std::string_view text_;
  const std::string& file_;
  Topology topology_;
  bool devices_only_ = false;  // no <gpu> anywhere
  bool to_switches_ = false;
  bool to_gpus_ = false;
  std::map<std::pair<std::string, std::string>, std::int64_t> direct_links_;  // by bus
  std::optional<std::int64_t> numa_;  // of the processor at hand
  int bridges_ = 0;
  std::int64_t virtual_nics_ = 0;
  std::set<std::string> buses_;
  std::set<std::int64_t> numbers_;
  std::vector<std::int64_t> gpu_numbers_;  // in the order of the file, as the branches
  std::vector<Branch> gpu_branches_;
  std::vector<Branch> nic_branches_;
};

}  // namespace

bool looks_like_xml(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '<';
}

Topology read_topology_xml(std::string_view text, const std::string& file) {
  return XmlReader(text, file).read();
}

}  // namespace trireme::calibrate
