// How fast flows are shared and run: one core.
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "sim/engine/network/run_messages.h"

namespace trireme::engine {
namespace {

/// Ranks on one switch, 50 GB/s and 5 us.
Topology crossbar(std::int64_t ranks) {
  TopologyShape shape;
  shape.gpus_per_node = ranks;
  shape.link_per_gpu = BytesPerSecond(50e9);
  shape.latency_inside = Seconds(5e-6);
  return Topology(shape);
}

std::vector<std::int64_t> first_ranks(std::int64_t count) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void run(benchmark::State& state, const Topology& topology, const std::vector<Message>& messages) {
  const std::vector<std::int64_t> ranks = first_ranks(topology.shape().gpus());
  const RunningCollective collective{messages, ranks, Seconds(0)};
  for (auto _ : state) {
    benchmark::DoNotOptimize(run_messages(topology, std::span(&collective, 1)));
  }
  state.counters["messages"] = static_cast<double>(messages.size());
  state.counters["messages_per_second"] = benchmark::Counter(
      static_cast<double>(messages.size()), benchmark::Counter::kIsIterationInvariantRate);
}

std::vector<Message> all_to_all(const Topology& topology) {
  const std::vector<std::int64_t> ranks = first_ranks(topology.shape().gpus());
  const auto n = topology.shape().gpus();
  return find_algorithm("all_to_all", "direct")
      .expand(Bytes(n * (std::int64_t{16} << 20)), ranks, topology, 1);
}

/// Every rank sends to every other at once: 16 MiB in all from each.
void all_to_all_equal(benchmark::State& state) {
  const Topology topology = crossbar(state.range(0));
  run(state, topology, all_to_all(topology));
}

/// The same with eight sizes, from a quarter of the equal one to two, by how far the receiver is.
void all_to_all_eight_sizes(benchmark::State& state) {
  const Topology topology = crossbar(state.range(0));
  std::vector<Message> messages = all_to_all(topology);
  for (Message& message : messages) {
    const std::int64_t size = 1 + (message.to - message.from + state.range(0)) % 8;
    message.amount = Bytes(message.amount.value() * size / 4);
  }
  run(state, topology, messages);
}

/// With eight sizes drawn for each pair: hardly two messages end together.
void all_to_all_eight_random_sizes(benchmark::State& state) {
  const Topology topology = crossbar(state.range(0));
  std::vector<Message> messages = all_to_all(topology);
  std::mt19937_64 random(1);
  for (Message& message : messages) {
    message.amount =
        Bytes(message.amount.value() * static_cast<std::int64_t>(1 + random() % 8) / 4);
  }
  run(state, topology, messages);
}

/// Steps of messages that do not touch each other.
void ring_all_gather(benchmark::State& state) {
  const Topology topology = crossbar(state.range(0));
  run(state,
      topology,
      find_algorithm("all_gather", "ring")
          .expand(Bytes(state.range(0) << 20), first_ranks(state.range(0)), topology, 1));
}

/// Jobs on links of their own, a thousand times each, as many as the argument says at once.
void separate_jobs(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    FlowNetwork network;
    std::vector<LinkLoad> load;
    for (std::size_t i = 0; i < jobs; ++i) {
      load.push_back({network.add_link(BytesPerSecond(1e9)), Bytes(1'000'000)});
      network.start_job(std::span(load).last(1), Seconds(1 + 1e-3 * static_cast<double>(i)));
    }
    for (std::size_t ended = 0; ended < 1000 * jobs;) {
      for (const FlowId id : network.advance(*network.next_end())) {
        benchmark::DoNotOptimize(id);
        network.start_job(std::span(load).subspan(ended % jobs, 1), Seconds(1));
        ++ended;
      }
    }
  }
  state.counters["jobs_per_second"] = benchmark::Counter(
      1000 * static_cast<double>(jobs), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(all_to_all_equal)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all_eight_sizes)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all_eight_random_sizes)->Arg(32)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(ring_all_gather)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(separate_jobs)->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme::engine
