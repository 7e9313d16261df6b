// How a plan spreads the experts of a model: `expert_parallel`.
#pragma once

#include "sim/config/map_reader.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// `expert_parallel: 8`, or `{degree: 8, tensor_parallel: 1, capacity_factor: 1.25}`; experts on
/// every rank when the key is missing.
[[nodiscard]] ExpertParallelSpec read_expert_parallel(const MapReader& plan);

}  // namespace trireme::config
