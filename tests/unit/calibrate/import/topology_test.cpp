#include "calibrate/import/topology.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "sim/config/cluster.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/error.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

namespace fs = std::filesystem;

const fs::path kFiles =
    fs::path(TRIREME_SOURCE_DIR) / "tests" / "unit" / "calibrate" / "import" / "topologies";
const fs::path kReference = fs::path(TRIREME_SOURCE_DIR) / ".." / "shared" / "reference" / "topo";

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

Topology read(const fs::path& path) {
  const std::string text = text_of(path);
  return looks_like_xml(text) ? read_topology_xml(text, path.filename().string())
                              : read_topology_matrix(text, path.filename().string());
}

std::string error_of(const std::string& text, bool xml = false) {
  try {
    static_cast<void>(xml ? read_topology_xml(text, "t") : read_topology_matrix(text, "t"));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return fmt::format("{}: {}", to_text(error.where()), error.message());
  }
  return "none";
}

/// "mlx5_0 mlx5_1" nearest to a GPU.
std::string near(const Topology& topology, std::size_t gpu) {
  std::string names;
  for (const std::size_t nic : topology.gpus.at(gpu).near_nics) {
    names += (names.empty() ? "" : " ") + topology.nics.at(nic).name;
  }
  return names;
}

TEST_CASE("8 H100 and 8 adapters by nvidia-smi", "[import]") {
  const Topology topology = read(kFiles / "h100_8gpu_8nic.txt");
  REQUIRE(topology.gpus.size() == 8);
  REQUIRE(topology.nics.size() == 8);
  CHECK(topology.wiring == NvlinkWiring::switched);
  for (std::size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(topology.gpus[i].name == fmt::format("GPU{}", i));
    CHECK(topology.gpus[i].links == 18);
    CHECK(topology.gpus[i].numa == (i < 4 ? 0 : 1));
    CHECK(near(topology, i) == fmt::format("mlx5_{}", i));
    CHECK(topology.near_path(i) == PciPath::pix);
    CHECK(topology.gpus_near(i) == std::vector<std::size_t>{i});
  }
  CHECK(topology.paths[0][3] == PciPath::node);
  CHECK(topology.paths[0][4] == PciPath::sys);
  CHECK_FALSE(topology.rate_per_gpu());  // a matrix states no rates
}

TEST_CASE("adapters in the reverse order belong to the GPUs that they are near", "[import]") {
  const Topology topology = read(kFiles / "reversed_nics.txt");
  for (std::size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(near(topology, i) == fmt::format("mlx5_{}", 7 - i));
  }
}

TEST_CASE("8 A100 of NCCL's XML: two GPUs share the adapters of their bridge", "[import]") {
  const Topology topology = read(kFiles / "a100_8gpu.xml");
  REQUIRE(topology.gpus.size() == 8);
  REQUIRE(topology.nics.size() == 8);
  CHECK(topology.wiring == NvlinkWiring::switched);
  CHECK(topology.gpus[5].links == 12);  // 6 switches x 2
  CHECK(topology.gpus[5].bus_id == "0000:32:00.0");
  CHECK(topology.gpus[5].numa == 1);
  CHECK(near(topology, 4) == "mlx5_4 mlx5_5");
  CHECK(near(topology, 5) == "mlx5_4 mlx5_5");
  CHECK(topology.near_path(5) == PciPath::pix);
  CHECK(topology.paths[5][6] == PciPath::phb);
  CHECK(topology.paths[5][0] == PciPath::sys);
  CHECK(topology.gpus_near(4) == std::vector<std::size_t>{4, 5});
  // 200 Gbit/s each, two adapters for two GPUs.
  CHECK(topology.rate_per_gpu() == BytesPerSecond(25e9));
}

TEST_CASE("GPUs on PCIe alone have no NVLinks", "[import]") {
  const Topology topology = read(kFiles / "pcie_4gpu.txt");
  REQUIRE(topology.gpus.size() == 4);
  REQUIRE(topology.nics.size() == 1);
  CHECK(topology.wiring == NvlinkWiring::none);
  CHECK(topology.gpus[0].links == 0);
  CHECK(topology.near_path(0) == PciPath::sys);
  CHECK(topology.near_path(2) == PciPath::node);
  CHECK(topology.near_path(3) == PciPath::phb);
  CHECK(topology.gpus[3].numa == 1);
}

TEST_CASE("4 GH200: a mesh of NVLinks, and a link to each processor", "[import]") {
  const Topology topology = read(kFiles / "gh200_4gpu.xml");
  REQUIRE(topology.gpus.size() == 4);
  REQUIRE(topology.nics.size() == 4);
  CHECK(topology.wiring == NvlinkWiring::mesh);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(topology.gpus[i].links == 18);  // 3 others x 6
    CHECK(topology.gpus[i].chip_to_chip);
    CHECK(near(topology, i) == fmt::format("cxi{}", i));
    CHECK(topology.near_path(i) == PciPath::phb);
  }
  CHECK(topology.rate_per_gpu() == BytesPerSecond(25e9));
  REQUIRE(topology.notes.size() == 1);
  CHECK(topology.notes[0] == "4 network devices without a PCI device are left out");
}

TEST_CASE("damaged topologies are errors with their place", "[import]") {
  CHECK(error_of(text_of(kFiles / "h100_cut.txt")) ==
        "t:6:45: the row 'GPU4' ends before the column 'NIC0'");
  CHECK(error_of(text_of(kFiles / "a100_damaged.xml"), true) == "t:6:12: the NVLink has no count");

  const std::string whole = text_of(kFiles / "a100_8gpu.xml");
  for (std::size_t cut = 0; cut + 2 < whole.size(); cut += 7) {
    CAPTURE(cut);
    CHECK(error_of(whole.substr(0, cut), true) != "none");
  }
  CHECK(error_of("<graphs version=\"1\"/>", true) ==
        "t:1:2: this is a file of NCCL's graphs, not of its topology");
  CHECK(error_of("<system version=\"2\"/>", true) ==
        "t:1:2: version 1 of NCCL's topology is known, and no other");
  CHECK(error_of("<system version=\"1\"/>", true) == "t:1:2: no GPU is in it");
  CHECK(error_of("<html/>", true) == "t:1:2: <html> is not the <system> of an NCCL topology");
  std::string deep = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 1000; ++i) {
    deep += fmt::format("<pci busid=\"{}\">", i);
  }
  for (int i = 0; i < 1000; ++i) {
    deep += "</pci>";
  }
  CHECK(error_of(deep + "</cpu></system>", true).ends_with("nested deeper than 32"));
  CHECK(
      error_of("<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"a\"/><pci busid=\"a\"/></cpu>"
               "</system>",
               true)
          .ends_with("the device 'a' stands twice"));
  CHECK(error_of("<system version=\"1\"><cpu/></system>", true) ==
        "t:1:22: the processor has no numaid");
}

TEST_CASE("damaged matrices are errors with their place", "[import]") {
  const auto matrix = [](const std::string& first, const std::string& second) {
    return error_of("\tGPU0\tGPU1\tCPU Affinity\n" + first + "\n" + second + "\n");
  };
  CHECK(matrix("GPU0\t X \tNV4", "GPU1\tNV4\t X ") == "none");
  CHECK(matrix("GPU0\t X \tNV4", "GPU1\tNV2\t X ") ==
        "t:3:1: 'GPU0' and 'GPU1' are connected differently in their two rows");
  CHECK(matrix("GPU0\t X \tNV4", "") == "t:1:1: the row 'GPU1' is missing");
  CHECK(matrix("GPU0\tNV4\tNV4", "GPU1\tNV4\t X ") ==
        "t:2:6: 'GPU0' to 'GPU0': 'NV4' is no connection");
  CHECK(matrix("GPU0\t X \tNVX", "GPU1\tNV4\t X ") ==
        "t:2:10: 'GPU0' to 'GPU1': 'NVX' is no connection");
  CHECK(matrix("GPU0\t X \tNV4", "GPU0\t X \tNV4") == "t:3:1: the row 'GPU0' stands twice");
  CHECK(error_of("hello\n") == "t: no matrix of nvidia-smi topo -m was found");
  const std::string whole = text_of(kFiles / "reversed_nics.txt");
  const std::size_t rows = whole.find("\nLegend");
  for (std::size_t cut = 0; cut + 4 < rows; cut += 3) {
    CAPTURE(cut);
    const std::string verdict = error_of(whole.substr(0, cut));
    // Adapters have rows too, so that a matrix without its last row is not whole.
    CHECK(verdict != "none");
  }
  CHECK(error_of(whole + whole).ends_with("a second matrix"));
}

TEST_CASE("the topologies of real machines at hand", "[import]") {
  if (!fs::exists(kReference)) {
    test::skip("the topologies are not at hand");
    return;
  }

  struct Machine {
    std::string file;
    std::size_t gpus = 0;
    std::optional<std::int64_t> links;
    std::size_t nics = 0;
    std::string near_first;  // the nearest adapters of the first GPU
    std::string near_last;
    std::optional<PciPath> path;  // of the last
  };

  const std::vector<Machine> machines = {
      {"topo_2gpu_nv2_stas.txt", 2, 2, 0, "", "", {}},
      {"topo_a800x8_4nic.txt", 8, 8, 4, "mlx5_0 mlx5_1", "mlx5_2 mlx5_3", PciPath::pix},
      {"topo_b200x8_cutlass.txt", 8, 18, 0, "", "", {}},
      {"topo_h100x8_stas.txt", 8, 18, 0, "", "", {}},
      {"topo_v100x2_4nic.txt",
       2,
       0,
       4,
       "rocep4s0f0 rocep4s0f1",
       "rocep137s0f0 rocep137s0f1",
       PciPath::phb},
      {"xml_a6000x4_dump.xml", 4, 0, 2, "eno1np0 eno2np1", "eno1np0 eno2np1", PciPath::sys},
      {"xml_aws_p4d.xml", 8, {}, 4, "0000:10:1b.0", "0000:a0:1b.0", PciPath::pix},
      {"xml_aws_p4de.xml", 8, {}, 4, "0000:10:1b.0", "0000:a0:1b.0", PciPath::pix},
      {"xml_azure_ndv4.xml",
       8,
       {},
       8,
       "0103:00:00.0 0104:00:00.0",
       "0105:00:00.0 0106:00:00.0",
       PciPath::pix},
      {"xml_h800_dump.xml", 8, 8, 8, "mlx5_0", "mlx5_9", PciPath::pix},
      {"xml_l20x16_dump.xml", 16, 0, 8, "mlx5_1", "mlx5_8", PciPath::pix},
      {"xml_oci_a100_b4_flat.xml",
       8,
       {},
       8,
       "0000:0c:00.0 0000:16:00.0",
       "0000:c3:00.0 0000:d1:00.0",
       PciPath::pix},
      {"xml_oci_h100_k8s_dump.xml", 8, 18, 16, "mlx5_18 mlx5_19", "mlx5_24 mlx5_25", PciPath::pxb},
      {"xml_rtx4090x2_dump.xml", 2, 0, 2, "mlx5_0 mlx5_1", "mlx5_0 mlx5_1", PciPath::sys},
      {"xml_rtx4090x4_dump.xml", 4, 0, 1, "enp34s0f0", "enp34s0f0", PciPath::sys},
  };
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kReference)) {
    files += entry.path().extension() == ".txt" || entry.path().extension() == ".xml" ? 1 : 0;
  }
  CHECK(files == machines.size() + 1);  // and a file of NCCL's graphs
  for (const Machine& machine : machines) {
    CAPTURE(machine.file);
    const Topology topology = read(kReference / machine.file);
    CHECK(topology.gpus.size() == machine.gpus);
    CHECK(topology.nics.size() == machine.nics);
    for (const TopologyGpu& gpu : topology.gpus) {
      CHECK(gpu.links == machine.links);
    }
    CHECK(near(topology, 0) == machine.near_first);
    CHECK(near(topology, machine.gpus - 1) == machine.near_last);
    CHECK(topology.near_path(machine.gpus - 1) == machine.path);
  }
  CHECK(error_of(text_of(kReference / "xml_azure_ncv4_graph.xml"), true) ==
        "t:1:2: this is a file of NCCL's graphs, not of its topology");
}

config::ClusterSpec cluster_of(const std::string& yaml) {
  const auto source = std::make_shared<const config::SourceText>("t.yaml", yaml);
  return config::read_cluster(config::read_yaml(source), config::Library(config::DataSource{}));
}

TEST_CASE("a topology is a cluster once it is known what it cannot state", "[import]") {
  const Topology a100 = read(kFiles / "a100_8gpu.xml");
  CHECK(missing_in_yaml(a100, {}) == std::vector<std::string>{"profile"});
  const std::string incomplete = cluster_yaml(a100, "ours", "a100_8gpu.xml", {});
  try {
    static_cast<void>(cluster_of(incomplete));
    FAIL("a cluster without a profile");
  } catch (const Error& error) {
    CHECK(error.message().find("missing key 'profile'") != std::string::npos);
  }
  const config::ClusterSpec cluster = cluster_of(
      cluster_yaml(a100, "ours", "it's a100.xml", {.gpu = {}, .profile = "a100-sxm-public"}));
  CHECK(cluster.name == "ours");
  CHECK(cluster.gpus_per_node.value == 8);
  CHECK(cluster.gpu.name == "a100-sxm-80");
  CHECK(cluster.nic_per_gpu == BytesPerSecond(25e9));
  CHECK(cluster.sources.front().source == "it's a100.xml");

  const Topology h100 = read(kFiles / "h100_8gpu_8nic.txt");
  CHECK(missing_in_yaml(h100, {.gpu = "h100-sxm", .profile = "h100-sxm-public"}) ==
        std::vector<std::string>{"node.nic_per_gpu"});
}

TEST_CASE("links that are not stated are no NVSwitch", "[import]") {
  Topology topology = read(kFiles / "a100_8gpu.xml");
  topology.wiring = GENERATE(NvlinkWiring::not_stated, NvlinkWiring::partial);
  const MachineStatements machine{.gpu = {}, .profile = "a100-sxm-public"};
  CHECK_THROWS_AS(cluster_of(cluster_yaml(topology, "x", "y", machine)), Error);
}

}  // namespace
}  // namespace trireme::calibrate
