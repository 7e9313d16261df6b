// Whatever the bytes, importing gives measurements and topologies that hold together, or an Error
// of kind input.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/import_file.h"
#include "sim/core/error.h"

namespace {

using trireme::calibrate::CollectivePoint;
using trireme::calibrate::ImportedFile;

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check_measurements(const ImportedFile& file) {
  for (const auto& measurement : file.log.measurements) {
    const auto& point = std::get<CollectivePoint>(measurement.point);
    check(point.payload.value() > 0 && point.ranks > 1 && point.ranks_per_node > 0 &&
          point.ranks % point.ranks_per_node == 0 && measurement.timing.median.value() > 0);
    check(std::any_of(
        file.log.environments.begin(), file.log.environments.end(), [&](const auto& environment) {
          return environment.key == measurement.environment;
        }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  try {
    std::vector<ImportedFile> files{trireme::calibrate::import_text(text, "fuzz.log", {})};
    check_measurements(files.front());
    trireme::calibrate::make_keys_unique(files);
    check(!trireme::calibrate::summary_text(files).empty());
    check(!trireme::calibrate::summary_json(files, {}, "").empty());
    if (files.front().topology) {
      check(!trireme::calibrate::cluster_yaml(*files.front().topology, "x", "y", {}).empty());
    }
  } catch (const trireme::Error& error) {
    check(error.kind() == trireme::ErrorKind::input);
  }
  return 0;
}
