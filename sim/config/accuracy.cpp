#include "sim/config/accuracy.h"

#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "sim/config/bounds.h"
#include "sim/config/embedded_files.h"
#include "sim/config/map_reader.h"
#include "sim/config/yaml_reader.h"
#include "sim/units/text.h"

namespace trireme::config {

namespace {

constexpr std::string_view kBuiltIn = "topologies/accuracy/public.yaml";

}  // namespace

AccuracySpec read_accuracy(const Node& root) {
  const MapReader map(root, "accuracy", {"version", "longest_measured", "bands"});
  map.required("version", parse_version);
  AccuracySpec spec;
  spec.longest_measured = map.required("longest_measured", parse_tokens);
  for (const Node& item : map.items("bands")) {
    const MapReader row(item, "bands", {"kind", "runs", "low", "high", "median_error"});
    AccuracyRow band;
    band.kind = row.required("kind", parse_word);
    band.runs = row.required("runs", count_between(1, 1'000'000));
    band.low = row.required("low", parse_non_negative_number);
    band.high = row.required("high", parse_non_negative_number);
    band.median_error = row.required("median_error", parse_non_negative_number);
    if (band.low > band.high) {
      refuse(item.where(), "bands: low is above high");
    }
    spec.rows.push_back(std::move(band));
  }
  return spec;
}

const AccuracySpec& accuracy() {
  static const AccuracySpec kBuiltInTable = [] {
    const auto files = embedded_files();
    const auto file = std::find_if(
        files.begin(), files.end(), [](const EmbeddedFile& f) { return f.path == kBuiltIn; });
    ensure(file != files.end(), "accuracy: the table is not built in");
    return read_accuracy(read_yaml(
        std::make_shared<const SourceText>(std::string(kBuiltIn), std::string(file->text))));
  }();
  return kBuiltInTable;
}

}  // namespace trireme::config
