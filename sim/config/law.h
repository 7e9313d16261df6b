// Reading a law of step times: the coefficients of a regression from YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/node.h"
#include "sim/config/profile_spec.h"
#include "sim/cost/step_law.h"

namespace trireme::config {

struct LawSpec {
  std::string name;
  std::string file;
  std::string description;                    // empty when there is none
  std::vector<CoefficientSpec> coefficients;  // in the order of the file
  cost::StepLaw law;
};

/// Reads a law, of which `root` is the whole file. Throws Error (input), located, for an unknown or
/// missing key, a coefficient without a source, and a spread that does not hold its value.
[[nodiscard]] LawSpec read_law(const Node& root, const std::string& name);

}  // namespace trireme::config
