// The keys of a plan that say how its ranks are laid out: `pipeline` and `placement`.
#pragma once

#include <string>
#include <vector>

#include "sim/config/map_reader.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// `pipeline: 4` or `pipeline: {degree: 4, schedule: 1f1b, ...}`; one stage when the key is
/// missing.
[[nodiscard]] PipelineSpec read_pipeline(const MapReader& plan);

/// `placement: [tensor, data, pipeline]`, innermost first; empty when the key is missing.
[[nodiscard]] std::vector<Located<RankGroup>> read_placement(const MapReader& plan);

}  // namespace trireme::config
