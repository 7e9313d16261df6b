// cuDNN's verdict on our attention graphs for a described H200, which needs no GPU.
#include "calibrate/probe/gpu/attention_graph.h"

#include <dlfcn.h>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/gpu/gpu.h"

namespace trireme::calibrate::gpu {
namespace {

// What version 9.19 wants to know of a device, as its driver reports an H200.
constexpr std::string_view kH200 = R"({
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "regsPerBlock": 65536,
  "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
  "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
  "deviceName": "NVIDIA H200", "totalGlobalMem": 150754820096})";

/// Without a driver cuDNN can check a graph if it finds the toolkit's stub of one.
bool driver_or_stub() {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr ||
         dlopen(TRIREME_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL) != nullptr;
}

/// The described device; nothing, and the test case is skipped, where this cuDNN is another.
std::optional<Descriptor> h200() {
  if (cudnnGetVersion() != 91900) {
    test::skip("the verdicts are those of cuDNN 9.19.0, this is " +
               std::to_string(cudnnGetVersion()));
    return std::nullopt;
  }
  if (!driver_or_stub()) {
    test::skip("neither a driver nor the toolkit's stub of one can be loaded");
    return std::nullopt;
  }
  try {
    Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
               CUDNN_TYPE_CHAR,
               static_cast<std::int64_t>(kH200.size()),
               kH200.data());
    device.finalize();
    return device;
  } catch (const CudnnError& error) {
    test::skip(std::string("cuDNN's libraries are not all there: ") + error.what());
    return std::nullopt;
  }
}

AttentionPoint point_of(Pass pass,
                        std::int64_t head_dim,
                        bool causal,
                        std::int64_t kv_heads,
                        std::int64_t queries,
                        std::int64_t keys) {
  return {.kernel = std::string(kCompositeAttention),
          .pass = pass,
          .sequences = 1,
          .query_tokens = Tokens(queries),
          .key_tokens = Tokens(keys),
          .heads = 8,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .causal = causal};
}

// Forward: two products and eight steps of the softmax between them; a mask takes four more.
// Backward: 18; the sums over the heads of a group take one each for K and V.
std::size_t operations_of(const AttentionPoint& point) {
  const std::size_t mask = point.causal ? 4 : 0;
  const std::size_t shift = point.causal && point.query_tokens != point.key_tokens ? 2 : 0;
  const std::size_t groups = point.pass == Pass::backward && point.kv_heads < point.heads ? 2 : 0;
  return (point.pass == Pass::forward ? 10U : 18U) + mask + shift + groups;
}

TEST_CASE("cuDNN has kernels for attention on an H200", "[gpu][calibrate]") {
  const std::optional<Descriptor> device = h200();
  if (!device) {
    return;
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t kv_heads : {8, 2, 1}) {
          for (const std::int64_t keys : {1024, 262144}) {
            const AttentionPoint point = point_of(pass, head_dim, causal, kv_heads, keys, keys);
            CAPTURE(static_cast<int>(pass), head_dim, causal, kv_heads, keys);
            const AttentionGraph graph = build_attention(point);
            CHECK(graph.operations == operations_of(point));
            const Support support = find_configs(graph.graph, &*device);
            INFO(support.reason);
            REQUIRE_FALSE(support.configs.empty());
            CHECK(Bytes(support.configs.front().workspace_bytes) ==
                  cudnn_attention_workspace(point));
          }
        }
      }
    }
  }
}

TEST_CASE("a rank with a part of the queries has kernels too", "[gpu][calibrate]") {
  const std::optional<Descriptor> device = h200();
  if (!device) {
    return;
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const AttentionPoint point = point_of(pass, 128, true, 2, 4096, 32768);
    const AttentionGraph graph = build_attention(point);
    CHECK(graph.operations == operations_of(point));
    const Support support = find_configs(graph.graph, &*device);
    INFO(support.reason);
    REQUIRE_FALSE(support.configs.empty());
    CHECK(Bytes(support.configs.front().workspace_bytes) == cudnn_attention_workspace(point));
  }
}

TEST_CASE("the single operation has kernels without a mask", "[gpu][calibrate]") {
  const std::optional<Descriptor> device = h200();
  if (!device) {
    return;
  }
  AttentionPoint point = point_of(Pass::forward, 128, false, 2, 1024, 1024);
  point.kernel = kUnifiedAttention;
  const AttentionGraph graph = build_attention(point);
  CHECK(graph.operations == 1);
  CHECK_FALSE(find_configs(graph.graph, &*device).configs.empty());
  point.causal = true;
  CHECK_THROWS_AS(build_attention(point), std::logic_error);
}

TEST_CASE("what cuDNN has no kernel for is refused with its reason", "[gpu][calibrate]") {
  const std::optional<Descriptor> device = h200();
  if (!device) {
    return;
  }
  for (const AttentionPoint& point : {point_of(Pass::forward, 100, true, 8, 1024, 1024),
                                      point_of(Pass::backward, 512, true, 8, 1024, 1024)}) {
    const AttentionGraph graph = build_attention(point);
    const Support support = find_configs(graph.graph, &*device);
    CHECK(support.configs.empty());
    CHECK_THAT(support.reason, Catch::Matchers::ContainsSubstring("NOT_SUPPORTED_SHAPE"));
  }
}

TEST_CASE("heads that do not fit into groups are refused when the graph is built",
          "[gpu][calibrate]") {
  AttentionPoint point = point_of(Pass::forward, 128, false, 3, 1024, 1024);  // 8 heads over 3
  CHECK_THROWS_AS(build_attention(point), CudnnError);
}

// Keeps the description true to a real device: clocks and identities differ from board to board.
TEST_CASE("an H200 describes itself by the same keys", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  if (cudnnGetVersion() != 91900) {
    test::skip("the keys are those of cuDNN 9.19.0");
    return;
  }
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const std::int32_t index = 0;
  device.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &index);
  device.finalize();
  std::string text(8192, '\0');
  std::int64_t length = 0;
  REQUIRE(cudnnBackendGetAttribute(device.get(),
                                   CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                   CUDNN_TYPE_CHAR,
                                   static_cast<std::int64_t>(text.size()),
                                   &length,
                                   text.data()) == CUDNN_STATUS_SUCCESS);
  text.resize(std::char_traits<char>::length(text.c_str()));
  const auto real = nlohmann::json::parse(text);
  const auto described = nlohmann::json::parse(kH200);
  INFO(text);
  for (const auto& [key, value] : described.items()) {
    CAPTURE(key);
    CHECK(real.contains(key));
  }
  if (real.at("deviceName") == described.at("deviceName")) {
    for (const char* const key : {"deviceVer",
                                  "multiProcessorCount",
                                  "regsPerBlock",
                                  "maxSharedMemoryPerBlockOptin",
                                  "maxThreadsPerSM",
                                  "l2CacheSize"}) {
      CAPTURE(key);
      CHECK(real.at(key) == described.at(key));
    }
  }
}

// 2^18 queries, 32 heads of 128, 8 key/value heads: 4 * 2^18 * 32 * 128 = 4 GiB for the
// accumulator, 4 * 2^18 * 32 = 32 MiB for the sums; and 4 GiB of gradients of K and V.
TEST_CASE("backward's memory beside its tensors", "[gpu][calibrate]") {
  AttentionPoint point = point_of(Pass::backward, 128, true, 8, 1 << 18, 1 << 18);
  point.heads = 32;
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  CHECK(attention_scratch(point) == Bytes(4 * kGiB + (32 << 20)));
  CHECK(cudnn_attention_workspace(point) == Bytes(4 * kGiB + 256));
  point.kv_heads = 32;
  CHECK(cudnn_attention_workspace(point) == Bytes(256));
  point.pass = Pass::forward;
  CHECK(attention_scratch(point) == Bytes(0));
}

}  // namespace
}  // namespace trireme::calibrate::gpu
