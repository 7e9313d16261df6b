#include "sim/study/what_if.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "sim/config/words.h"
#include "sim/engine/event/monte_carlo.h"

namespace trireme::study {

namespace {

/// Keys of a sweep below which only the event engine sees a difference.
constexpr std::string_view kEventKeys[] = {"what_if.slow_ranks", "what_if.jitter"};

/// Runs all seeds and sets that of the run in the middle.
std::optional<ledger::StepDistribution> run_seeds(const engine::Schedule& schedule,
                                                  const engine::Machine& machine,
                                                  std::int64_t runs,
                                                  engine::EventOptions& options) {
  std::vector<std::uint64_t> seeds(static_cast<std::size_t>(runs));
  std::iota(seeds.begin(), seeds.end(), options.variation.seed);
  auto distribution = engine::monte_carlo(schedule, machine, options, seeds);
  if (!distribution) {
    return std::nullopt;
  }
  std::vector<std::size_t> order(seeds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return distribution->steps[a] < distribution->steps[b];
  });
  options.variation.seed = seeds[order[(order.size() - 1) / 2]];
  return distribution;
}

}  // namespace

engine::EventOptions event_options(const config::WhatIfSpec& what_if) {
  engine::EventOptions options;
  for (const config::SlowRankSpec& slow : what_if.slow_ranks) {
    options.variation.stragglers.push_back({slow.rank.value, slow.factor, slow.component});
  }
  if (const auto& jitter = what_if.jitter) {
    options.variation.jitter = jitter->relative;
    options.variation.rank_jitter = jitter->between_ranks;
    options.variation.scatter = jitter->distribution == config::JitterDistribution::log_normal
                                    ? engine::Scatter::log_normal
                                    : engine::Scatter::exponential;
    options.variation.seed = static_cast<std::uint64_t>(jitter->seed);
  }
  options.contention = what_if.contention;
  options.interference = what_if.interference;
  return options;
}

bool needs_event_engine(const config::WhatIfSpec& what_if) {
  return !what_if.slow_ranks.empty() || what_if.jitter.has_value();
}

ledger::Engine default_engine(const config::StudyFile& file) {
  bool needed = needs_event_engine(file.base().what_if);
  for (const config::SweepPoint& point : file.points()) {
    for (const config::SweepValue& value : point) {
      needed = needed ||
               std::any_of(std::begin(kEventKeys), std::end(kEventKeys), [&](std::string_view key) {
                 return value.key.starts_with(key);
               });
    }
  }
  return needed ? ledger::Engine::event : ledger::Engine::analytic;
}

std::vector<std::string> sentences(const config::WhatIfSpec& what_if) {
  std::vector<std::string> all;
  const auto bandwidth = [&](std::string_view link, double factor) {
    if (factor != 1) {
      all.push_back(fmt::format("{} of {:g} times its bandwidth", link, factor));
    }
  };
  bandwidth("NVLink", what_if.nvlink);
  bandwidth("PCIe", what_if.pcie);
  bandwidth("NICs", what_if.nic);
  for (const config::SlowRankSpec& slow : what_if.slow_ranks) {
    if (slow.factor != 1) {
      all.push_back(fmt::format(
          "{} rank {} take {:g} times as long",
          slow.component ? fmt::format("{} kernels of", name(*slow.component)) : "kernels of",
          slow.rank.value,
          slow.factor));
    }
  }
  const auto scatter = [&](std::string_view what, double deviation) {
    if (deviation > 0) {
      all.push_back(
          fmt::format("{} by {:g} of the mean ({} distribution, {} runs from seed {})",
                      what,
                      deviation,
                      config::word_for(config::kJitterWords, what_if.jitter->distribution),
                      what_if.jitter->runs,
                      what_if.jitter->seed));
    }
  };
  if (what_if.jitter) {
    scatter("seconds of each kernel deviate", what_if.jitter->relative);
    scatter("ranks differ in speed", what_if.jitter->between_ranks);
  }
  if (!what_if.overlap) {
    all.emplace_back("nothing overlaps");
  }
  if (!what_if.contention) {
    all.emplace_back("collectives do not share links");
  }
  if (!what_if.interference) {
    all.emplace_back("kernels and collectives do not slow each other");
  }
  return all;
}

std::optional<EventStep> event_step(const engine::Schedule& schedule,
                                    const engine::Machine& machine,
                                    const config::WhatIfSpec& what_if) {
  EventStep step;
  step.options = event_options(what_if);
  if (what_if.jitter) {
    step.distribution = run_seeds(schedule, machine, what_if.jitter->runs, step.options);
    if (!step.distribution) {
      return std::nullopt;
    }
  }
  const auto result = engine::simulate(schedule, machine, step.options);
  if (!result) {
    return std::nullopt;
  }
  step.time = result->time;
  return step;
}

}  // namespace trireme::study
