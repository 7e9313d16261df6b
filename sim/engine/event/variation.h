// How kernels' seconds vary over ranks and from one execution to the next.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// A rank whose kernels take longer than the others' by a factor: all of them, or those of one
/// component, as where work is uneven. Factors on one rank multiply.
struct Straggler {
  std::int64_t rank = 0;
  double factor = 1;
  std::optional<Component> component;
};

/// How kernels' times scatter about their mean.
enum class Scatter : std::uint8_t {
  log_normal,
  exponential  // a shortest time and a tail
};

struct Variation {
  std::vector<Straggler> stragglers;
  /// Relative standard deviation of every kernel's time, independent by rank and task; 0 for none.
  double jitter = 0;
  /// The same of a factor that a rank keeps for the whole step: GPUs are not equally fast.
  double rank_jitter = 0;
  Scatter scatter = Scatter::log_normal;  // of both; exponential ones deviate by 1 at most
  /// Numbers are counters of (seed, rank, task): order and threads cannot change them.
  std::uint64_t seed = 0;
};

/// The factors of a variation on the seconds of kernels.
class KernelFactors {
 public:
  KernelFactors(const Variation& variation, std::int64_t ranks);

  /// Ranks with equal numbers have equal factors. By rank.
  [[nodiscard]] std::vector<std::uint32_t> kinds() const;

  /// Makes `of` answer for the ranks that are simulated, by their place in `first_rank`.
  void select(std::span<const std::int64_t> first_rank);

  [[nodiscard]] double of(std::uint32_t who, Component component, std::uint32_t task) const {
    const double factor = selected_[who][static_cast<std::size_t>(component)];
    return jitter_ == 0
               ? factor
               : factor * scattered(jitter_, static_cast<std::uint64_t>(ranks_[who]), task);
  }

 private:
  using PerComponent = std::array<double, kComponentNames.size()>;

  [[nodiscard]] double scattered(double deviation, std::uint64_t rank, std::uint64_t task) const;

  double jitter_;
  bool rank_jitter_;
  Scatter scatter_;
  std::uint64_t seed_;
  std::vector<PerComponent> by_rank_;
  std::vector<PerComponent> selected_;
  std::vector<std::int64_t> ranks_;  // that are simulated
};

}  // namespace trireme::engine
