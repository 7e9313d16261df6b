// What frameworks add to the seconds of kernels: topologies/overheads/public.yaml.
#pragma once

#include <vector>

#include "sim/config/node.h"
#include "sim/config/profile_spec.h"
#include "sim/cost/framework_overheads.h"

namespace trireme::config {

enum class Framework : std::uint8_t;

struct OverheadsSpec {
  Framework framework;
  cost::FrameworkOverheads overheads;
  std::vector<CoefficientSpec> coefficients;  // as written, with their provenance
};

/// Reads a table, one row for a framework. Throws Error (input), located.
[[nodiscard]] std::vector<OverheadsSpec> read_overheads(const Node& root);

/// Those of the built-in table; none for a framework without a row, such as generic.
[[nodiscard]] cost::FrameworkOverheads framework_overheads(Framework framework);

}  // namespace trireme::config
