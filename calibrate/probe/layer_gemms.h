// The matrix products that a study's plans compute, as points to measure.
#pragma once

#include <vector>

#include "calibrate/measurement/measurement.h"
#include "sim/config/study_spec.h"

namespace trireme::calibrate {

/// Every different product of the linear layers of the study's plans, forward and both gradients,
/// in the extents of one rank, read off the plans' step programs; those with the most operations
/// over a step come first. Illegal plans have none.
[[nodiscard]] std::vector<GemmPoint> layer_gemms(const config::StudySpec& study);

}  // namespace trireme::calibrate
