// The seconds that the cost formulas give a measured point.
#pragma once

#include <optional>

#include "calibrate/measurement/measurement.h"
#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

/// Seconds of a point on a machine: by the very functions that a step's prediction uses, so that a
/// fit and a prediction cannot differ. `nic_rate` is the line rate of one GPU's NIC. Empty for what
/// no formula covers (host copies, interference) and for what the machine's costs do not know.
[[nodiscard]] std::optional<Seconds> predict(const Point& point,
                                             const cost::MachineCosts& machine,
                                             BytesPerSecond nic_rate);

/// The coefficients of an attention kernel by its name in a profile; null for any other name.
[[nodiscard]] std::optional<cost::AttentionKernelCosts>* attention_kernel(
    cost::AttentionCosts& costs, const std::string& kernel);

}  // namespace trireme::calibrate
