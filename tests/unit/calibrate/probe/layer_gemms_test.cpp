#include "calibrate/probe/layer_gemms.h"

#include <algorithm>
#include <memory>

#include "sim/config/study_file.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

std::vector<GemmPoint> gemms_of(const char* plan) {
  const std::string text = std::string(R"(version: 1
name: layers
model: llama-3.1-8b
cluster: h100-8x-nvlink
workload: {sequence: 128K, micro_batch: 1, causal: true}
defaults: {recompute: full, loss: {implementation: fused}, attention: flash2}
plans:
  - {name: one, use: )") + plan +
                           "}\n";
  const auto source = std::make_shared<const config::SourceText>("layers.yaml", text);
  return layer_gemms(config::StudyFile::parse(source, {}).base());
}

bool has(const std::vector<GemmPoint>& points, const GemmPoint& point) {
  return std::find(points.begin(), points.end(), point) != points.end();
}

// Hidden 4096, 32 heads and 8 key/value heads of 128: 6144 outputs of the packed projection, over 8
// ranks 768; all 131,072 tokens on each.
TEST_CASE("products of Megatron's layers are in one rank's extents", "[calibrate]") {
  const std::vector<GemmPoint> points = gemms_of("megatron-sp");
  CHECK(has(points, {.m = 131072, .n = 768, .k = 4096, .pass = GemmPass::forward}));
  CHECK(has(points, {.m = 131072, .n = 4096, .k = 768, .pass = GemmPass::data_gradient}));
  CHECK(std::any_of(points.begin(), points.end(), [](const GemmPoint& point) {
    return point.m == 768 && point.n == 4096 && point.k == 131072 &&
           point.pass == GemmPass::weight_gradient;
  }));
}

// Ulysses: 131,072 / 8 tokens and whole weights; the MLP's width is 14336.
TEST_CASE("products of Ulysses' layers have whole weights", "[calibrate]") {
  const std::vector<GemmPoint> points = gemms_of("ulysses-zero3");
  CHECK(has(points, {.m = 16384, .n = 6144, .k = 4096, .pass = GemmPass::forward}));
  CHECK(has(points, {.m = 16384, .n = 4096, .k = 14336, .pass = GemmPass::forward}));
  for (auto point = points.begin(); point != points.end(); ++point) {
    CHECK(std::find(point + 1, points.end(), *point) == points.end());
  }
}

}  // namespace
}  // namespace trireme::calibrate
