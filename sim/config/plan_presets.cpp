#include "sim/config/plan_presets.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "sim/config/yaml_reader.h"

namespace trireme::config {
namespace {

constexpr std::string_view kDegree = "DEGREE";
/// Two factors of the degree: its half and 2, or itself and 1 where it is odd.
constexpr std::string_view kInner = "INNER";
constexpr std::string_view kOuter = "OUTER";

void replace_all(std::string& text, std::string_view word, std::int64_t value) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    text.replace(at, word.size(), std::to_string(value));
  }
}

constexpr std::array<PlanPreset, 12> kPresets = {{
    {"megatron-sp",
     "Megatron tensor parallelism with sequence parallelism",
     "{tensor_parallel: {degree: DEGREE, sequence: true}}",
     true},
    {"megatron-tp",
     "Megatron tensor parallelism, sequences replicated",
     "{tensor_parallel: {degree: DEGREE, sequence: false}}",
     true},
    {"megatron-pipeline",
     "Megatron tensor and sequence parallelism inside stages of a pipeline, 1f1b",
     "{tensor_parallel: {degree: DEGREE, sequence: true}, pipeline: {degree: 2, schedule: 1f1b}, "
     "framework: megatron}",
     true},
    {"ulysses",
     "DeepSpeed-Ulysses, weights replicated and gradients all-reduced",
     "{ulysses: {degree: DEGREE}, zero: {stage: 0}}",
     true},
    {"ulysses-zero3",
     "DeepSpeed-Ulysses with all weights sharded by ZeRO-3",
     "{ulysses: {degree: DEGREE}, zero: {stage: 3}}",
     true},
    {"alst",
     "Ulysses with ZeRO-3, layers recomputed, MLP tiled and loss chunked; nothing on the host",
     "{ulysses: {degree: DEGREE}, zero: {stage: 3}, framework: deepspeed, recompute: full, "
     "mlp: {tiles: auto}, loss: {implementation: chunked}}",
     true},
    {"hybrid",
     "Ulysses attention with its weights alone sharded by ZeRO-3, Megatron MLP",
     "{ulysses: {degree: DEGREE}, mlp: {tensor_parallel: DEGREE}, zero: {stage: 3, only: "
     "attention}}",
     true},
    {"sequence-gather",
     "naive baseline: every rank gathers the whole sequence before attention",
     "{sequence_gather: DEGREE, zero: {stage: 0}}",
     true},
    {"ring",
     "ring attention in zigzag order, all weights sharded by ZeRO-3",
     "{ring: {degree: DEGREE}, zero: {stage: 3}}",
     true},
    {"usp",
     "Ulysses inside a ring of two, all weights sharded by ZeRO-3",
     "{ulysses: {degree: INNER}, ring: {degree: OUTER}, zero: {stage: 3}}",
     true},
    {"zero3", "data parallelism with all weights sharded by ZeRO-3", "{zero: {stage: 3}}", false},
    {"data-parallel", "plain data parallelism, gradients all-reduced", "{zero: {stage: 0}}", false},
}};

}  // namespace

std::span<const PlanPreset> plan_presets() {
  return kPresets;
}

Node plan_preset_keys(const PlanPreset& preset, std::int64_t degree) {
  std::string text(preset.yaml);
  const std::int64_t outer = degree % 2 == 0 ? 2 : 1;
  replace_all(text, kDegree, degree);
  replace_all(text, kInner, degree / outer);
  replace_all(text, kOuter, outer);
  return read_yaml(std::make_shared<const SourceText>(fmt::format("plan preset {}", preset.name),
                                                      std::move(text)));
}

}  // namespace trireme::config
