// Which degrees every framework's rules allow.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/config/model_spec.h"
#include "sim/ledger/legality.h"

namespace trireme::study {

/// Asks each stack of plan::legality_stacks about every degree that divides the GPUs and, where
/// heads are split, that divides the query heads: others break both rules. `tensor_parallel` stands
/// beside the degree in the stacks that can be combined with it; without `sequence` its rules
/// become conditions. All numbers are at least 1.
[[nodiscard]] ledger::LegalityResult legal_degrees(const config::ModelSpec& model,
                                                   std::int64_t gpus,
                                                   std::int64_t tensor_parallel,
                                                   std::optional<std::int64_t> sequence);

}  // namespace trireme::study
