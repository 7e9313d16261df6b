// Reading a profile: the coefficients of one machine from YAML.
#pragma once

#include <string>

#include "sim/config/node.h"
#include "sim/config/profile_spec.h"
#include "sim/core/error.h"

namespace trireme::config {

/// Reads a profile, of which `root` is the whole file. What was not measured may be left out: whole
/// forms, and single coefficients where machine_costs.h says so. Throws Error (input), located, for
/// an unknown form or key, a missing or negative coefficient of a form, a rate or an efficiency of
/// zero, an efficiency above one, a spread that does not hold its value, a coefficient without a
/// source, and a table of residuals that does not ascend or does not end with 1.
[[nodiscard]] ProfileSpec read_profile(const Node& root, const std::string& name);

/// Throws Error (input) at `profile_key`, where a cluster names its profile, when the profile was
/// measured on another GPU than the cluster's.
void check_profile_gpu(const ProfileSpec& profile,
                       const std::string& cluster_gpu,
                       const SourceLocation& profile_key);

}  // namespace trireme::config
