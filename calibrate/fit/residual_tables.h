// Tables of what measured collectives take beyond their closed forms.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

struct TimedCollective {
  CollectivePoint point;
  Seconds time;
};

/// The tables of one kind of collective over the closed forms of `machine`, whose own tables are
/// not read. Rows of one payload are averaged. Times that fall with the payload are evened out, and
/// factors bounded, so that more bytes are never predicted to be faster. A group shape with fewer
/// than two payloads has no table.
[[nodiscard]] std::vector<cost::GroupResiduals> residual_tables(
    std::span<const TimedCollective> rows,
    const cost::MachineCosts& machine,
    BytesPerSecond nic_rate);

/// The tables of a kind of collective.
[[nodiscard]] std::vector<cost::GroupResiduals>& tables_of(cost::ResidualTables& tables,
                                                           CollectiveKind kind);

/// A section `residuals:` of a profile; empty when there is no table.
[[nodiscard]] std::string residuals_yaml(const cost::ResidualTables& tables);

}  // namespace trireme::calibrate
