// How many layers each stage of a pipeline has.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.h"

namespace trireme::plan {

/// As many layers for each of `parts` as for the others; what does not divide goes to the first
/// ones, one each.
[[nodiscard]] std::vector<std::int64_t> split_by_count(std::int64_t layers, std::int64_t parts);

/// Layers such that the part that computes most computes as little as it can, where the last one
/// has the head as well; among equals, as many layers at the end as it can have.
[[nodiscard]] std::vector<std::int64_t> split_by_cost(const ModelShape& model,
                                                      std::int64_t sequence,
                                                      bool causal,
                                                      std::int64_t parts);

struct CumulatedSplit {
  std::vector<std::int64_t> layers;  // of each part; none of those behind the head
  std::int64_t working = 1;          // parts up to the one with the head
  std::int64_t started = 1;          // parts that are given anything at all
};

/// nanotron's split: parts take what comes next, the head last, until they pass their share of the
/// cost of all.
[[nodiscard]] CumulatedSplit split_by_cumulated_cost(const ModelShape& model, std::int64_t parts);

}  // namespace trireme::plan
