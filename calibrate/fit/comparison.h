// Measured points beside what a profile predicts for them.
#pragma once

#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

struct ComparedPoint {
  double extent = 0;
  Seconds measured;
  Seconds predicted;
};

struct ComparedCurve {
  std::string name;
  std::vector<ComparedPoint> points;  // in ascending order of extent
};

/// Curves over one kind of extent.
struct Panel {
  std::string title;   // "all_to_all inside a node"
  std::string extent;  // "payload [bytes]"
  std::vector<ComparedCurve> curves;
  std::size_t unknown = 0;  // points that the profile does not know the seconds of
};

/// One panel for each kind of point, in the order of the measurements.
[[nodiscard]] std::vector<Panel> compare_with(const std::vector<Measurement>& rows,
                                              const cost::MachineCosts& machine,
                                              BytesPerSecond nic_rate);

/// Errors by panel and curve, for people.
[[nodiscard]] std::string comparison_text(const std::vector<Panel>& panels);

/// A figure for each panel: measured points as dots and predictions as a line or crosses, over
/// logarithmic axes.
[[nodiscard]] std::string comparison_svg(const std::vector<Panel>& panels);

}  // namespace trireme::calibrate
