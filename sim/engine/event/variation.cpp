#include "sim/engine/event/variation.h"

#include <cmath>
#include <map>

#include "sim/core/counter_random.h"

namespace trireme::engine {

namespace {

/// A task's number that no task has: the draw of a whole rank.
constexpr std::uint64_t kWholeRank = ~std::uint64_t{0};

}  // namespace

KernelFactors::KernelFactors(const Variation& variation, std::int64_t ranks)
    : jitter_(variation.jitter),
      rank_jitter_(variation.rank_jitter > 0),
      scatter_(variation.scatter),
      seed_(variation.seed) {
  ensure(variation.jitter >= 0 && variation.rank_jitter >= 0, "variation: a negative deviation");
  PerComponent ones{};
  ones.fill(1);
  by_rank_.assign(static_cast<std::size_t>(ranks), ones);
  for (const Straggler& straggler : variation.stragglers) {
    ensure(straggler.rank >= 0 && straggler.rank < ranks && straggler.factor > 0,
           "variation: a straggler that is no rank, or has no time");
    PerComponent& factors = by_rank_[static_cast<std::size_t>(straggler.rank)];
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if (!straggler.component || static_cast<std::size_t>(*straggler.component) == i) {
        factors[i] *= straggler.factor;
      }
    }
  }
  if (rank_jitter_) {
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      const double factor = scattered(variation.rank_jitter, rank, kWholeRank);
      for (double& of_component : by_rank_[rank]) {
        of_component *= factor;
      }
    }
  }
}

std::vector<std::uint32_t> KernelFactors::kinds() const {
  std::vector<std::uint32_t> kinds;
  kinds.reserve(by_rank_.size());
  std::map<PerComponent, std::uint32_t> known;
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    if (jitter_ > 0) {
      kinds.push_back(static_cast<std::uint32_t>(rank));
      continue;
    }
    const auto next = static_cast<std::uint32_t>(known.size());
    kinds.push_back(known.try_emplace(by_rank_[rank], next).first->second);
  }
  return kinds;
}

void KernelFactors::select(std::span<const std::int64_t> first_rank) {
  ranks_.assign(first_rank.begin(), first_rank.end());
  selected_.clear();
  for (const std::int64_t rank : first_rank) {
    selected_.push_back(by_rank_[static_cast<std::size_t>(rank)]);
  }
}

/// A factor of mean 1.
///
/// EQ kernel-jitter: f = exp(g z - g^2 / 2), g^2 = ln(1 + j^2)
///   j  deviation: the factor's standard deviation                       [1]
///   z  standard normal number of (seed, rank, task)                     [1]
///   g  standard deviation of the factor's logarithm                     [1]
///   f  result: log-normal                                               [1]
/// Source: derived: mean and variance of the log-normal distribution
/// Valid:  kernels that vary independently of each other
/// Tests:  tests/unit/engine/variation_test.cpp, tests/property/event_test.cpp
///
/// EQ kernel-jitter-tail: f = 1 - j - j ln(u)
///   j  deviation: the factor's standard deviation, at most 1            [1]
///   u  number in (0, 1] of (seed, rank, task), uniform                  [1]
///   f  result: a shortest time of 1 - j and an exponential tail         [1]
/// Source: derived: -ln(u) has mean 1 and standard deviation 1
/// Valid:  kernels that vary independently of each other
/// Tests:  tests/unit/engine/variation_test.cpp
double KernelFactors::scattered(double deviation, std::uint64_t rank, std::uint64_t task) const {
  const std::uint64_t bits = mixed_bits(seed_ ^ mixed_bits(rank ^ mixed_bits(task)));
  if (scatter_ == Scatter::exponential) {
    ensure(deviation <= 1, "variation: an exponential tail deviates by 1 at most");
    return 1 - deviation - deviation * std::log(unit_interval(bits));
  }
  const double variance = std::log1p(deviation * deviation);
  return std::exp(std::sqrt(variance) * standard_normal(bits) - variance / 2);
}

}  // namespace trireme::engine
