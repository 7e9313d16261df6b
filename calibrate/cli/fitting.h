// What fit and show share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/cli/invocation.h"
#include "calibrate/measurement/measurement_file.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

/// The measurements of several folders as one set.
[[nodiscard]] MeasurementSet read_folders(const std::vector<std::string>& folders);

/// --kernel A=B: which kernel of a profile each measured one takes the place of.
[[nodiscard]] std::map<std::string, std::string> kernel_places(const Invocation& call);

/// --nic-rate; 0 when it was not given.
[[nodiscard]] BytesPerSecond nic_rate_of(const Invocation& call);

}  // namespace trireme::calibrate
