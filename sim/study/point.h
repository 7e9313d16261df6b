// The values of a swept point, as numbers where their text is one.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/config/study_spec.h"
#include "sim/ledger/result.h"

namespace trireme::study {

/// "128K" of a sequence as 131072, "8" as 8, "1.5" as a double, "400 Gbit/s" in bytes per second;
/// what is no number stays text.
[[nodiscard]] ledger::PointValue point_value(const std::string& key, const std::string& text);

/// The swept values of a study, led by its sequence length where that is not swept.
[[nodiscard]] std::vector<ledger::PointValue> point_of(const config::StudySpec& study,
                                                       const config::SweepPoint& swept);

/// The value as a number; empty for a text.
[[nodiscard]] std::optional<double> as_number(const ledger::PointValue& value);

}  // namespace trireme::study
