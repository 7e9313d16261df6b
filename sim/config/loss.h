// Reads how a plan computes its loss.
#pragma once

#include "sim/config/map_reader.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// The map under `loss`: {implementation: chunked, chunks: 8, logits: bf16}.
void read_loss(const MapReader& map, PlanSpec& plan);

/// A number of chunks or tiles, or `auto`.
[[nodiscard]] std::int64_t parse_chunks(std::string_view text);

}  // namespace trireme::config
