// How fast a step program is built and read: one core, Llama-3.1-8B under the plans of the study,
// with as many layers as the argument says, then with the recipes of three frameworks. Neither may
// depend on the layers. Then all stages of a pipeline beside tensor, context and data parallelism.
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "sim/config/study_file.h"
#include "sim/engine/analytic.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/evaluate.h"
#include "sim/study/stages.h"

namespace trireme {
namespace {

constexpr const char* kStudy = R"(version: 1
model: llama-3.1-8b
cluster: {use: h100-8x-nvlink, nodes: 1, profile: h100-sxm-public}
workload: {sequence: 128K, micro_batch: 1, global_batch: 2}
defaults: {recompute: full, loss: {implementation: fused}}
plans:
  - {name: megatron, tensor_parallel: {degree: 8, sequence: true}}
  - {name: ulysses, ulysses: 8, zero: {stage: 3}}
  - {name: hybrid, ulysses: 8, mlp: {tensor_parallel: 8}, zero: {stage: 3, only: attention}}
  - {name: megatron-core, tensor_parallel: {degree: 8, sequence: true}, framework: megatron}
  - {name: deepspeed, ulysses: 8, zero: {stage: 3}, framework: deepspeed}
  - name: nanotron
    tensor_parallel: {degree: 8, sequence: true}
    framework: nanotron
    loss: {implementation: vocabulary_parallel}
)";

constexpr const char* kComposed = R"(version: 1
model: llama-3.1-405b
cluster: {use: h100-8x-nvlink, nodes: 128, profile: h100-sxm-public}
workload: {sequence: 256K, micro_batch: 1, global_batch: 256}
defaults: {recompute: full, loss: {implementation: vocabulary_parallel}}
plans:
  - name: composed
    framework: megatron
    tensor_parallel: {degree: 8, sequence: true}
    context_parallel: {degree: 4, communication: a2a+p2p, exchange_degree: 1}
    pipeline: {degree: 16, schedule: 1f1b}
    data_parallel: 2
    zero: {stage: 1}
)";

config::StudySpec parsed(const char* text) {
  const auto source = std::make_shared<const config::SourceText>("program_bench", text);
  return config::StudyFile::parse(source, {}).base();
}

const config::StudySpec& study() {
  static const config::StudySpec kSpec = parsed(kStudy);
  return kSpec;
}

/// The plan at place `range(0)` of the study, with `range(1)` layers.
plan::Plan plan_of(benchmark::State& state) {
  const config::PlanSpec& spec = study().plans.at(static_cast<std::size_t>(state.range(0)));
  plan::Plan plan = plan::resolve(study(), spec).plan;
  plan.model.layers = state.range(1);
  state.SetLabel(spec.name);
  return plan;
}

void build(benchmark::State& state) {
  const plan::Plan plan = plan_of(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan::lower(plan));
  }
  const program::Program program = plan::lower(plan);
  state.counters["operations"] = static_cast<double>(program.ops().size());
  state.counters["tensors"] = static_cast<double>(program.tensors().size());
}

template <class Read>
void read(benchmark::State& state, Read reader) {
  const program::Program program = plan::lower(plan_of(state));
  const engine::Machine machine = study::machine_of(study().cluster);
  for (auto _ : state) {
    reader(program, machine);
  }
}

void bytes_of(const program::Program& program, const engine::Machine& machine) {
  benchmark::DoNotOptimize(engine::read_bytes(program, machine.gpus_per_node));
}

void memory_of(const program::Program& program, const engine::Machine&) {
  benchmark::DoNotOptimize(engine::read_memory(program));
}

void time_of(const program::Program& program, const engine::Machine& machine) {
  benchmark::DoNotOptimize(engine::read_time(program, machine));
}

void all_of(const program::Program& program, const engine::Machine& machine) {
  bytes_of(program, machine);
  memory_of(program, machine);
  time_of(program, machine);
}

/// A row of a table: from a plan as a study states it to all of its numbers.
void evaluate(benchmark::State& state) {
  const config::PlanSpec& spec = study().plans.at(static_cast<std::size_t>(state.range(0)));
  state.SetLabel(spec.name);
  for (auto _ : state) {
    benchmark::DoNotOptimize(study::evaluate(study(), spec));
  }
  state.SetItemsProcessed(state.iterations());
}

/// 16 stages on 1,024 ranks, 128 micro batches: the programs of all stages.
void build_stages(benchmark::State& state) {
  const config::StudySpec spec = parsed(kComposed);
  const plan::Plan plan = plan::resolve(spec, spec.plans.front()).plan;
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan::lower_stages(plan));
  }
}

void read_all_stages(benchmark::State& state) {
  const config::StudySpec spec = parsed(kComposed);
  const auto stages = plan::lower_stages(plan::resolve(spec, spec.plans.front()).plan);
  const engine::Machine machine = study::machine_of(spec.cluster);
  for (auto _ : state) {
    benchmark::DoNotOptimize(study::read_stages(stages, machine.gpus_per_node));
    benchmark::DoNotOptimize(engine::read_time(stages, machine));
  }
}

void plans_and_layers(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"plan", "layers"})->ArgsProduct({{0, 1, 2, 3, 4, 5}, {32, 126}});
}

BENCHMARK(build)->Apply(plans_and_layers)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(read, bytes, bytes_of)->Apply(plans_and_layers)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(read, memory, memory_of)->Apply(plans_and_layers)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(read, time, time_of)->Apply(plans_and_layers)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(read, all, all_of)->Apply(plans_and_layers)->Unit(benchmark::kMicrosecond);

BENCHMARK(evaluate)->ArgName("plan")->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);
BENCHMARK(build_stages)->Unit(benchmark::kMicrosecond);
BENCHMARK(read_all_stages)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace trireme
