#include "sim/config/overheads.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "sim/config/coefficient_reader.h"
#include "sim/config/embedded_files.h"
#include "sim/config/map_reader.h"
#include "sim/config/words.h"
#include "sim/config/yaml_reader.h"
#include "sim/units/text.h"

namespace trireme::config {

namespace {

constexpr std::string_view kBuiltIn = "topologies/overheads/public.yaml";

/// A factor that makes kernels slower, not faster.
double parse_slowdown(std::string_view text) {
  const double value = parse_non_negative_number(text);
  constexpr double kMost = 10;
  if (value < 1 || value > kMost) {
    throw BadText(fmt::format("'{}' is not a slowdown", text), "accepted: a factor from 1 to 10");
  }
  return value;
}

}  // namespace

std::vector<OverheadsSpec> read_overheads(const Node& root) {
  const MapReader map(root, "overheads", {"version", "frameworks"});
  map.required("version", parse_version);
  std::vector<OverheadsSpec> rows;
  for (const Node& item : map.items("frameworks")) {
    const MapReader row(item, "frameworks", {"framework", "in_situ", "host_per_operation"});
    OverheadsSpec spec;
    spec.framework = row.required("framework", word_of(kFrameworkWords));
    if (std::any_of(rows.begin(), rows.end(), [&](const OverheadsSpec& other) {
          return other.framework == spec.framework;
        })) {
      refuse(item.where(), "frameworks: a second row of this framework");
    }
    const CoefficientReader coefficient(spec.coefficients);
    spec.overheads.in_situ = coefficient(row, "in_situ", parse_slowdown);
    spec.overheads.host_per_operation = coefficient(row, "host_per_operation", parse_seconds);
    rows.push_back(std::move(spec));
  }
  return rows;
}

cost::FrameworkOverheads framework_overheads(Framework framework) {
  static const std::vector<OverheadsSpec> kRows = [] {
    const auto files = embedded_files();
    const auto file = std::find_if(
        files.begin(), files.end(), [](const EmbeddedFile& f) { return f.path == kBuiltIn; });
    ensure(file != files.end(), "framework_overheads: the table is not built in");
    return read_overheads(read_yaml(
        std::make_shared<const SourceText>(std::string(kBuiltIn), std::string(file->text))));
  }();
  const auto row = std::find_if(
      kRows.begin(), kRows.end(), [&](const OverheadsSpec& r) { return r.framework == framework; });
  return row == kRows.end() ? cost::FrameworkOverheads{} : row->overheads;
}

}  // namespace trireme::config
