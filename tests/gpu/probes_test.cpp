// Every probe that one GPU allows: results against references, and times above zero.
#include <map>
#include <memory>
#include <string>

#include "calibrate/measurement/measurement_file.h"
#include "calibrate/probe/gpu/attention_probe.h"
#include "calibrate/probe/gpu/collective_probe.h"
#include "calibrate/probe/gpu/gemm_probe.h"
#include "calibrate/probe/gpu/host_copy_probe.h"
#include "calibrate/probe/gpu/interference_probe.h"
#include "calibrate/probe/gpu/launch_probe.h"
#include "calibrate/probe/gpu/memory_bound_probe.h"
#include "tests/catch.h"
#include "tests/gpu/gpu.h"

namespace trireme::calibrate::gpu {
namespace {

/// Keeps what a probe says about memory.
class NotedStages final : public MemoryStages {
 public:
  void note(std::string_view stage, Bytes used) override { stages[std::string(stage)] = used; }

  std::map<std::string, Bytes> stages;
};

void verify_and_time(Probe& probe, const Point& point) {
  INFO(in_words(point));
  const std::unique_ptr<Trial> trial = probe.prepare(point);
  CHECK_NOTHROW(trial->verify());
  CHECK(trial->run(3) > Seconds(0));
}

TEST_CASE("attention on a GPU is right", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  std::vector<AttentionPoint> points;
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const bool causal : {true, false}) {
      for (const std::int64_t kv_heads : {4, 1}) {
        for (const std::int64_t queries : {512, 128}) {
          for (const Pass pass : {Pass::forward, Pass::backward}) {
            points.push_back({.kernel = std::string(kCompositeAttention),
                              .pass = pass,
                              .sequences = 2,
                              .query_tokens = Tokens(queries),
                              .key_tokens = Tokens(512),
                              .heads = 4,
                              .kv_heads = kv_heads,
                              .head_dim = head_dim,
                              .causal = causal});
          }
        }
      }
    }
  }
  AttentionProbe probe(device, "attention", points);
  NotedStages stages;
  probe.start(stages);
  CHECK(stages.stages.at("cudnn") > Bytes(0));
  for (const Point& point : probe.points()) {
    verify_and_time(probe, point);
  }
}

TEST_CASE("the workspace of a compiled plan is the one that was reported", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  if (cudnnGetVersion() != 91900 || device.properties().major != 9) {
    test::skip("the formula is that of cuDNN 9.19.0 on H100 and H200");
    return;
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const AttentionPoint point{.kernel = std::string(kCompositeAttention),
                               .pass = pass,
                               .sequences = 1,
                               .query_tokens = Tokens(2048),
                               .key_tokens = Tokens(2048),
                               .heads = 8,
                               .kv_heads = 2,
                               .head_dim = 128,
                               .causal = true};
    CHECK(AttentionKernel(point).workspace() == cudnn_attention_workspace(point));
  }
}

TEST_CASE("matrix products on a GPU are right", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  std::vector<GemmPoint> points;
  for (const GemmPass pass :
       {GemmPass::forward, GemmPass::data_gradient, GemmPass::weight_gradient}) {
    points.push_back({.m = 384, .n = 1024, .k = 640, .pass = pass});
  }
  points.push_back({.m = 384,
                    .n = 1024,
                    .k = 640,
                    .pass = GemmPass::weight_gradient,
                    .fp32_accumulation = true});
  GemmProbe probe(device, "gemm", points);
  NotedStages stages;
  probe.start(stages);
  CHECK(stages.stages.at("cublaslt") >= Bytes(32 << 20));  // its workspace alone
  for (const Point& point : probe.points()) {
    verify_and_time(probe, point);
  }
}

TEST_CASE("memory-bound kernels are right", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  MemoryBoundProbe probe(device);
  for (const Point& point : probe.points()) {
    if (std::get<MemoryBoundPoint>(point).moved < Bytes(200 << 20)) {
      verify_and_time(probe, point);
    }
  }
}

TEST_CASE("launches and host copies are timed", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  LaunchProbe launch(device);
  NotedStages stages;
  launch.start(stages);
  CHECK(stages.stages.at("context") > Bytes(0));
  for (const Point& point : launch.points()) {
    verify_and_time(launch, point);
  }
  HostCopyProbe copies(device);
  for (const Point& point : copies.points()) {
    if (std::get<HostCopyPoint>(point).amount <= Bytes(16 << 20)) {
      verify_and_time(copies, point);
    }
  }
}

TEST_CASE("a copy beside a product slows both, or neither", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  SingleRank link;
  CallWatch watch(link, std::chrono::seconds(60));
  CommunicatorSet communicators(watch, 1);
  InterferenceProbe probe(device, communicators);
  NotedStages stages;
  probe.start(stages);
  for (const Point& point : probe.points()) {
    verify_and_time(probe, point);
  }
}

TEST_CASE("one GPU has no collectives to time", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  SingleRank link;
  CallWatch watch(link, std::chrono::seconds(60));
  CommunicatorSet communicators(watch, 1);
  CollectiveProbe probe(device, communicators);
  REQUIRE(probe.points().size() == 5);
  for (const Point& point : probe.points()) {
    CHECK_THROWS_AS(probe.prepare(point), PointRefused);
  }
}

TEST_CASE("time on a device grows with what is issued", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  const Buffer from(Bytes(64 << 20));
  const Buffer to(Bytes(64 << 20));
  const auto copies = [&](int number) {
    return device.time(10, [&](std::int64_t) {
      for (int i = 0; i < number; ++i) {
        REQUIRE(
            cudaMemcpyAsync(
                to.get(), from.get(), 64 << 20, cudaMemcpyDeviceToDevice, device.stream().get()) ==
            cudaSuccess);
      }
    });
  };
  static_cast<void>(copies(1));
  CHECK(ratio(copies(8), copies(1)) == Approx(8).epsilon(0.3));
}

}  // namespace
}  // namespace trireme::calibrate::gpu
