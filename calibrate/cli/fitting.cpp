#include "calibrate/cli/fitting.h"

#include <fmt/format.h>

#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

MeasurementSet read_folders(const std::vector<std::string>& folders) {
  MeasurementSet all;
  for (const std::string& folder : folders) {
    MeasurementSet set = read_measurements(folder, note);
    // Keys are unique in a folder: between folders the folder makes them so.
    const std::string prefix = folders.size() > 1 ? folder + ": " : "";
    for (Environment& environment : set.environments) {
      environment.key = prefix + environment.key;
      all.environments.push_back(environment);
    }
    for (Measurement& row : set.measurements) {
      row.environment = prefix + row.environment;
      all.measurements.push_back(row);
    }
    for (MemoryMeasurement& row : set.memory) {
      row.environment = prefix + row.environment;
      all.memory.push_back(row);
    }
  }
  return all;
}

std::map<std::string, std::string> kernel_places(const Invocation& call) {
  std::map<std::string, std::string> places;
  if (call.values.count("kernel") != 0) {
    for (const std::string& text : call.values["kernel"].as<std::vector<std::string>>()) {
      const std::size_t equals = text.rfind('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
        refuse(fmt::format("--kernel: {} is not MEASURED=PROFILE", in_quotes(text)),
               "such as --kernel eigen=flash2");
      }
      places[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  return places;
}

BytesPerSecond nic_rate_of(const Invocation& call) {
  const std::string text = call.text("nic-rate");
  if (text.empty()) {
    return BytesPerSecond(0);
  }
  try {
    return parse_bytes_per_second(text);
  } catch (const BadText& bad) {
    refuse(fmt::format("--nic-rate: {}", bad.what()), bad.hint());
  }
}

}  // namespace trireme::calibrate
