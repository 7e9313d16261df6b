// Attention kernels by the names that profiles and measurements have for them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

/// The kernels that a profile has coefficients of.
[[nodiscard]] const std::vector<std::string>& profile_kernels();

/// Gives each kernel that was measured the place of another: "eigen" that of "flash2". Throws Error
/// (input) for a kernel that no row was measured with, or a place that a profile does not have.
void rename_kernels(const std::map<std::string, std::string>& places,
                    std::vector<Measurement>& rows);

}  // namespace trireme::calibrate
