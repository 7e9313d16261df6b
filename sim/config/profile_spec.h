// A profile as its YAML file states it: the coefficients of one machine and where they come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/error.h"
#include "sim/cost/machine_costs.h"

namespace trireme::config {

/// One coefficient as written, with its provenance.
struct CoefficientSpec {
  std::string key;         // path in the file, such as "collectives.all_to_all.a0"
  std::string value;       // text with its unit
  std::string spread_low;  // empty when the spread is not known
  std::string spread_high;
  std::optional<std::int64_t> samples;
  std::string source;  // key in docs/bibliography.md
  std::string date;    // of the measurement; empty when not known
  SourceLocation where;
};

struct ProfileSpec {
  std::string name;
  std::string file;
  Located<std::string> gpu;  // name of the GPU that was measured
  // What the measurements ran on, as free text; empty when not known.
  std::string nccl;
  std::string driver;
  std::string date;
  std::string description;
  std::vector<CoefficientSpec> coefficients;  // in the order of the file
  cost::MachineCosts costs;
};

}  // namespace trireme::config
