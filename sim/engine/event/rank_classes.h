// Which ranks behave alike, so that one of them stands for all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.h"

namespace trireme::engine {

struct RankClasses {
  std::vector<std::uint32_t> class_of_rank;
  std::vector<std::int64_t> first_rank;  // of each class, ascending
};

/// The rank `step` places further on the ring of a group's ranks, in the order of their positions.
[[nodiscard]] std::int64_t ring_neighbour(const program::Mesh& mesh,
                                          program::AxisMask group,
                                          std::int64_t rank,
                                          std::int64_t step);

/// The coarsest partition in which ranks of one class have the same `own` property and run the same
/// stage's program and, for each group that a collective of a program runs over, group members of
/// the same classes; where ring neighbours meet, also neighbours of the same classes, and in every
/// other stage peers of the same class.
[[nodiscard]] RankClasses fold_ranks(std::span<const program::Program> stages,
                                     std::span<const std::uint32_t> own);

}  // namespace trireme::engine
