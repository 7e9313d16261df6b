// Validation cases judged: what trireme predicts for them, and how far off it is.
#pragma once

#include <optional>
#include <span>

#include "sim/config/library.h"
#include "sim/ledger/validation.h"
#include "sim/validation/case_file.h"

namespace trireme::validation {

/// Whether a prediction is within the tolerance, and how far off it is.
[[nodiscard]] ledger::ValidationRow judge(const ledger::StatedFact& stated,
                                          std::optional<double> predicted);

/// Every case of the files, in their order. Of several sequence lengths the worst counts.
[[nodiscard]] ledger::ValidationResult validate(std::span<const CaseFile> files,
                                                const config::Library& library);

}  // namespace trireme::validation
