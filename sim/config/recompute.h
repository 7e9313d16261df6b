// Reads what of a plan's forward pass runs again before it goes backward.
#pragma once

#include "sim/config/map_reader.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// The key `recompute` of a plan's options: a word, or a map.
///   recompute: full
///   recompute: {granularity: selective, modules: [core_attn, layernorm]}
///   recompute: {granularity: full, every: 2}
///   recompute: {granularity: full, method: block, num_layers: 8}
[[nodiscard]] RecomputeSpec read_recompute(const MapReader& options);

/// The words that read back as `recompute`.
[[nodiscard]] std::string in_words(const RecomputeSpec& recompute);

}  // namespace trireme::config
