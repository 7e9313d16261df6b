#include "sim/config/plan_presets.h"

#include <array>
#include <memory>

#include <fmt/core.h>

#include "sim/config/yaml_reader.h"

namespace trireme::config {
namespace {

constexpr std::string_view kDegree = "DEGREE";

constexpr std::array<PlanPreset, 10> kPresets = {{
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
    {"zero3", "data parallelism with all weights sharded by ZeRO-3", "{zero: {stage: 3}}", false},
    {"data-parallel", "plain data parallelism, gradients all-reduced", "{zero: {stage: 0}}", false},
}};

}  // namespace

std::span<const PlanPreset> plan_presets() {
  return kPresets;
}

Node plan_preset_keys(const PlanPreset& preset, std::int64_t degree) {
  std::string text(preset.yaml);
  for (std::size_t at = text.find(kDegree); at != std::string::npos; at = text.find(kDegree, at)) {
    text.replace(at, kDegree.size(), std::to_string(degree));
  }
  return read_yaml(std::make_shared<const SourceText>(fmt::format("plan preset {}", preset.name),
                                                      std::move(text)));
}

}  // namespace trireme::config
