// How fast the event engine is on one core, and what it holds.
//
// ring: the hops of a ring all-gather, every one of which waits for both neighbours of its rank;
// every rank is simulated, and the host has issued them. An event is the end of one rank's hop.
// step: Llama-3.1-70B at 128K tokens, one micro batch, on 1,024 H100 (Ulysses 8 x data parallel
// 128, ZeRO-3); step_that_overlaps hides its gathers and reductions.
#include <memory>
#include <string>
#include <sys/resource.h>

#include <benchmark/benchmark.h>

#include "sim/config/study_file.h"
#include "sim/engine/event/event.h"
#include "sim/engine/event/schedule.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/program/builder.h"
#include "sim/study/evaluate.h"

namespace trireme {
namespace {

constexpr const char* kStudy = R"(version: 1
model: llama-3.1-70b
cluster: {use: h100-8x-nvlink, nodes: 128, profile: h100-sxm-public}
workload: {sequence: 128K, micro_batch: 1, global_batch: 128}
defaults: {recompute: full, loss: {implementation: fused}}
plans:
  - {name: ulysses, ulysses: 8, data_parallel: 128, zero: {stage: 3}}
  - name: overlapped
    ulysses: 8
    data_parallel: 128
    zero: {stage: 3}
    overlap: {parameters: true, gradients: true}
)";

const config::StudySpec& study() {
  static const config::StudySpec kSpec = [] {
    const auto source = std::make_shared<const config::SourceText>("event_bench", kStudy);
    return config::StudyFile::parse(source, {}).base();
  }();
  return kSpec;
}

/// The largest resident set of the process so far.
double peak_resident_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr double kKibibyte = 1024;
  return static_cast<double>(usage.ru_maxrss) * kKibibyte / 1e6;
}

/// `ranks` ranks that pass blocks around a ring, `hops` times.
program::Program ring_program(std::int64_t ranks, std::int64_t hops) {
  program::Mesh mesh;
  const program::AxisMask group = program::axis_bit(mesh.add_axis("ring", ranks));
  program::Builder builder(mesh, {1, 1, hops});
  builder.begin_segment("all-gather");
  program::TensorSpec spec;
  spec.shape = {{1, "B"}, {ranks, "S"}, {4096, "h"}};
  spec.layout = program::Layout().with(group, program::Placement::shard(program::kSequenceDim));
  spec.resident = true;
  spec.name = "block";
  const program::TensorId from = builder.declare(spec);
  spec.name = "received";
  const program::TensorId to = builder.declare(spec);
  builder.repeat(program::Index::chunk, 0, 1, hops, [&] {
    builder.begin_segment("hop");
    builder.emit_hop("hop", group, from, to);
  });
  return std::move(builder).close();
}

void simulate(benchmark::State& state,
              const program::Program& program,
              const engine::Machine& machine,
              const engine::EventOptions& options) {
  const engine::Schedule schedule(program);
  std::uint64_t events = 0;
  std::uint64_t of_one = 0;
  double step = 0;
  for (auto _ : state) {
    const auto result = engine::simulate(schedule, machine, options);
    if (!result) {
      state.SkipWithError("the profile does not know a kernel");
      return;
    }
    of_one = result->events;
    events += of_one;
    step = result->time.step.value();
  }
  state.counters["events"] = static_cast<double>(of_one);
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["step_s"] = step;
  state.counters["peak_rss_MB"] = peak_resident_megabytes();
}

void ring(benchmark::State& state) {
  engine::EventOptions options;
  options.unfolded = true;
  engine::Machine machine = study::machine_of(study().cluster);
  machine.costs.kernel_launch = Seconds(0);
  simulate(state, ring_program(state.range(0), state.range(1)), machine, options);
}

void step(benchmark::State& state) {
  engine::EventOptions options;
  options.unfolded = state.range(0) != 0;
  simulate(state,
           plan::lower(plan::resolve(study(), study().plans.front()).plan),
           study::machine_of(study().cluster),
           options);
}

/// Gathers and reductions beside the exchanges, on the same links.
void step_that_overlaps(benchmark::State& state) {
  engine::EventOptions options;
  options.unfolded = state.range(0) != 0;
  simulate(state,
           plan::lower(plan::resolve(study(), study().plans.back()).plan),
           study::machine_of(study().cluster),
           options);
}

/// Every kernel's time its own: no two ranks' events coincide.
void step_with_jitter(benchmark::State& state) {
  engine::EventOptions options;
  options.variation.jitter = 0.05;
  const config::PlanSpec& plan = state.range(0) != 0 ? study().plans.back() : study().plans.front();
  simulate(state,
           plan::lower(plan::resolve(study(), plan).plan),
           study::machine_of(study().cluster),
           options);
}

BENCHMARK(ring)
    ->ArgNames({"ranks", "hops"})
    ->Args({8, 7})
    ->Args({64, 63})
    ->Args({1024, 1023})
    ->Args({1024, 10230})  // events over more than 3 decades: the rate stays
    ->Unit(benchmark::kMillisecond);
BENCHMARK(step)->ArgName("unfolded")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(step_that_overlaps)->ArgName("unfolded")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(step_with_jitter)->ArgName("overlap")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme
