#include "sim/config/cluster.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "sim/config/yaml_reader.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

using Catch::Matchers::ContainsSubstring;

Node read(const std::string& yaml) {
  return read_yaml(std::make_shared<const SourceText>("c.yaml", yaml));
}

TEST_CASE("every cluster preset is read and every value has a source", "[config]") {
  const Library library(DataSource{});
  REQUIRE(library.names(PresetKind::cluster).size() >= 4);
  for (const std::string& name : library.names(PresetKind::cluster)) {
    CAPTURE(name);
    const ClusterSpec cluster = read_cluster(make_text(name, Position{}), library);
    CHECK(cluster.name == name);
    CHECK(cluster.gpus() == 8);
    CHECK(cluster.profile.gpu.value == cluster.gpu.name);
    // NICs, their rate, the host's memory, on some its link, nodes of a pod
    REQUIRE(cluster.sources.size() >= 4);
    CHECK(cluster.host.memory.has_value());
    REQUIRE(cluster.gpu.sources.size() >= 4);
    for (const Provenance& value : cluster.gpu.sources) {
      CAPTURE(value.key);
      CHECK_THAT(value.source, !ContainsSubstring(".yaml"));  // a place means: no source
    }
    CHECK_THAT(cluster.sources[0].source, ContainsSubstring("datasheet"));
  }
}

TEST_CASE("the H100 node has its datasheet's numbers", "[config]") {
  const ClusterSpec cluster =
      read_cluster(make_text("h100-8x-nvlink", Position{}), Library(DataSource{}));
  CHECK(cluster.gpu.memory_visible == Bytes(85'040'352'461));  // 79.2 GiB
  CHECK(cluster.gpu.peak_dense_bf16 == FlopsPerSecond(989e12));
  CHECK(cluster.gpu.peak_dense_fp8 == FlopsPerSecond(1979e12));
  CHECK(cluster.gpu.memory_bandwidth == BytesPerSecond(3.35e12));
  CHECK(cluster.gpu.nvlink_one_direction == BytesPerSecond(450e9));
  CHECK(cluster.nic_per_gpu == BytesPerSecond(50e9));  // 400 Gbit/s
  CHECK(cluster.gpu.sources[0].value == "79.2 GiB");
}

TEST_CASE("a cluster's values can be overridden, and remember where", "[config]") {
  const Node node = read(
      "use: h100-8x-nvlink\nnodes: 4\nnode: {nic_per_gpu: 200 Gbit/s, gpu: {use: h100-sxm, "
      "memory_visible: 90 GiB}}\n");
  const ClusterSpec cluster = read_cluster(node, Library(DataSource{}));
  CHECK(cluster.gpus() == 32);
  CHECK(to_text(cluster.nodes.where) == "c.yaml:2:8");
  CHECK(cluster.nic_per_gpu == BytesPerSecond(25e9));
  CHECK(cluster.sources[0].source == "c.yaml:3");
  CHECK(cluster.gpu.memory_visible == Bytes(90LL << 30));
  CHECK(cluster.gpu.nvlink_one_direction == BytesPerSecond(450e9));
}

/// A cluster of `nodes` nodes of four GPUs with other keys in the maps node and fabric.
ClusterSpec with(const std::string& node, const std::string& fabric) {
  return read_cluster(read("use: h100-8x-nvlink\nnodes: 6\nnode: {gpus: 4, nics_per_node: 4" +
                           node + "}\nfabric: {" + fabric + "}\n"),
                      Library(DataSource{}));
}

std::string refusal_of(const std::string& node, const std::string& fabric) {
  try {
    static_cast<void>(with(node, fabric));
    return "accepted";
  } catch (const Error& error) {
    return to_text(error.where()) + " " + error.message();
  }
}

TEST_CASE("the links of a cluster: NICs, leaf switches, PCIe", "[config]") {
  const ClusterSpec preset =
      read_cluster(make_text("h100-8x-nvlink", Position{}), Library(DataSource{}));
  CHECK(preset.nics_per_node == 8);
  CHECK(preset.nodes_per_leaf == 32);
  CHECK(preset.fabric == FabricKind::rail_optimised);
  CHECK(preset.pxn);

  const ClusterSpec spine =
      with("", "kind: leaf_spine, oversubscription: 2, nodes_per_leaf: 3, pxn: false");
  CHECK(spine.fabric == FabricKind::leaf_spine);
  CHECK(spine.oversubscription == 2);
  CHECK(spine.nodes_per_leaf == 3);
  CHECK_FALSE(spine.pxn);
  CHECK(with(", intra: nvlink_mesh", "kind: flat").intra == IntraLinks::nvlink_mesh);
  const ClusterSpec pcie = with(", intra: pcie, pcie_per_gpu: 64 GB/s", "pxn: false");
  CHECK(pcie.pcie_per_gpu == BytesPerSecond(64e9));

  std::vector<std::string> defaults;
  const ClusterSpec bare = read_cluster(
      read("nodes: 3\nnode: {gpus: 2, gpu: h100-sxm, nic_per_gpu: 1 GB/s}\nfabric: {kind: flat}\n"
           "profile: h100-sxm-public\n"),
      Library(DataSource{}),
      &defaults);
  CHECK(bare.nics_per_node == 2);
  CHECK(bare.nodes_per_leaf == 3);
  CHECK(std::count(defaults.begin(), defaults.end(), "cluster.node.nics_per_node: 2") == 1);
  CHECK(std::count(defaults.begin(), defaults.end(), "cluster.fabric.nodes_per_leaf: all nodes") ==
        1);
}

TEST_CASE("links that cannot be are refused where they stand", "[config]") {
  CHECK(refusal_of(", gpus: 4", "kind: flat") != "accepted");  // the same key twice
  CHECK_THAT(refusal_of("", "kind: flat, oversubscription: 2"),
             ContainsSubstring("c.yaml:4:") && ContainsSubstring("flat fabric"));
  CHECK_THAT(refusal_of(", intra: pcie", "pxn: false"), ContainsSubstring("pcie_per_gpu"));
  CHECK_THAT(refusal_of(", pcie_per_gpu: 1 GB/s", ""),
             ContainsSubstring("c.yaml:3:") && ContainsSubstring("NVLink"));
  CHECK_THAT(refusal_of(", intra: pcie, pcie_per_gpu: 1 GB/s", "pxn: true"),
             ContainsSubstring("pxn"));
  CHECK_THAT(refusal_of("", "nodes_per_leaf: 0"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal_of("", "kind: torus"), ContainsSubstring("'torus'"));
  try {
    static_cast<void>(read_cluster(read("use: h100-8x-nvlink\nnode: {nics_per_node: 3}\n"),
                                   Library(DataSource{})));
    FAIL("3 NICs for 8 GPUs were accepted");
  } catch (const Error& error) {
    CHECK(error.where().line == 2);
    CHECK(error.message() == "nics_per_node: '3' does not divide the 8 GPUs of a node");
  }
}

TEST_CASE("a data directory overrides presets by name", "[config]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("trireme-data-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "topologies" / "gpus");
  std::ofstream(folder / "topologies" / "gpus" / "h100-sxm.yaml")
      << "name: h100-sxm\nmemory_visible: 60 GiB\npeak_dense: {bf16: 1 TFLOP/s}\n"
         "memory_bandwidth: 1 TB/s\nnvlink_one_direction: 1 GB/s\n";
  std::ofstream(folder / "topologies" / "gpus" / "mine.yaml") << "use: h100-sxm\n";
  const Library library(DataSource{folder});
  CHECK(read_gpu(make_text("h100-sxm", Position{}), library).memory_visible == Bytes(60LL << 30));
  CHECK(read_gpu(make_text("mine", Position{}), library).memory_visible == Bytes(60LL << 30));
  CHECK(read_gpu(make_text("h200-sxm", Position{}), library).memory_bandwidth ==
        BytesPerSecond(4.8e12));
  const std::vector<std::string> names = library.names(PresetKind::gpu);
  CHECK(std::count(names.begin(), names.end(), "h100-sxm") == 1);
  CHECK(std::count(names.begin(), names.end(), "mine") == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that is built on itself is refused", "[config]") {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("trireme-loop-" + std::to_string(::getpid()) + ".yaml");
  std::ofstream(file) << "use: ./" << file.filename().string() << "\n";
  try {
    static_cast<void>(read_gpu(make_text(file.string(), Position{}), Library(DataSource{})));
    FAIL("a loop was followed to its end");
  } catch (const Error& error) {
    CHECK(error.message() == "GPU: more than 8 files are built on one another");
    CHECK(error.where().line == 1);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace trireme::config
