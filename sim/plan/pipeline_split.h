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

}  // namespace trireme::plan
