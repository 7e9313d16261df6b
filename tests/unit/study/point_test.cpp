#include "sim/study/point.h"

#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

TEST_CASE("values of a point are numbers where their text is one", "[unit]") {
  CHECK(std::get<std::int64_t>(point_value("workload.sequence", "128K").value) == 131072);
  CHECK(std::get<std::int64_t>(point_value("plans.u.ulysses", "8").value) == 8);
  CHECK(std::get<double>(point_value("cluster.fabric.oversubscription", "1.5").value) == 1.5);
  // 400 Gbit/s are 50e9 bytes a second.
  CHECK(std::get<double>(point_value("cluster.node.nic_per_gpu", "400 Gbit/s").value) == 50e9);
  CHECK(std::get<std::int64_t>(point_value("cluster.gpu.memory_visible", "2 GiB").value) ==
        2147483648);
  CHECK(std::get<std::string>(point_value("model", "llama-2-7b").value) == "llama-2-7b");
  CHECK_FALSE(as_number(point_value("model", "llama-2-7b")).has_value());
}

TEST_CASE("a point is led by the sequence length where that is not swept", "[unit]") {
  const config::StudyFile file = test::study_of(
      "version: 1\nmodel: llama-3.1-8b\ncluster: h100-8x-nvlink\nworkload: {sequence: 4K}\n"
      "plans:\n  - {name: p, use: megatron-sp}\n"
      "sweep: {cluster.nodes: [1, 2]}\n");
  const auto point = point_of(file.base(), file.points().at(1));
  REQUIRE(point.size() == 2);
  CHECK(point[0].key == "workload.sequence");
  CHECK(std::get<std::int64_t>(point[0].value) == 4096);
  CHECK(point[1].key == "cluster.nodes");
  CHECK(std::get<std::int64_t>(point[1].value) == 2);
}

}  // namespace
}  // namespace trireme::study
