#include "sim/study/nccl.h"

#include "sim/config/cluster.h"
#include "tests/catch.h"

namespace trireme::study {
namespace {

config::ClusterSpec preset(const char* name) {
  return config::read_cluster(config::make_text(name, config::Position{}),
                              config::Library(config::DataSource{}));
}

TEST_CASE("NCCL's choice on a cluster names the release and how it sends", "[unit]") {
  const config::ClusterSpec h100 = preset("h100-8x-nvlink");
  const cost::Group node{.ranks = 8, .ranks_per_node = 8};
  const Bytes large(std::int64_t{1} << 30);
  const auto gather = nccl_pick(h100, CollectiveKind::all_gather, large, node);
  REQUIRE(gather);
  CHECK_FALSE(gather->release.empty());
  CHECK(gather->choice.algorithm == cost::NcclAlgorithm::ring);
  CHECK(gather->expansion == "rings");
  // 8.4 + 7 x 3.4 us, and 7/8 of 1 GiB over 360 GB/s.
  CHECK(gather->choice.expected.value() ==
        Approx(32.2e-6 + 1'073'741'824 * 7.0 / 8 / 360e9).epsilon(1e-9));
  CHECK(nccl_pick(h100, CollectiveKind::all_reduce, large, node)->expansion == "nvls");
  CHECK(nccl_pick(preset("a100-8x-nvlink"), CollectiveKind::all_reduce, large, node)->expansion ==
        "rings");
}

TEST_CASE("NCCL has no choice in an exchange, nor of one rank", "[unit]") {
  const config::ClusterSpec h100 = preset("h100-8x-nvlink");
  const cost::Group node{.ranks = 8, .ranks_per_node = 8};
  CHECK_FALSE(nccl_pick(h100, CollectiveKind::all_to_all, Bytes(1024), node));
  CHECK_FALSE(nccl_pick(h100, CollectiveKind::send_recv, Bytes(1024), node));
  CHECK_FALSE(nccl_pick(h100, CollectiveKind::all_gather, Bytes(1024), cost::Group{}));
  config::ClusterSpec other = h100;
  other.gpu.name = "mi300x";
  CHECK_FALSE(nccl_pick(other, CollectiveKind::all_gather, Bytes(1024), node));
}

}  // namespace
}  // namespace trireme::study
