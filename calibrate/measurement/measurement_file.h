// Measurements on disk: a folder with a CSV file for each kind of point.
//
// The files are collectives.csv, attention.csv, gemm.csv, memory_bound.csv, launch.csv,
// host_copy.csv, interference.csv, memory.csv and environments.csv. Each has a header; a column
// with a unit says it in its name (payload_bytes, median_seconds). A text with a comma or a quote
// stands in double quotes, in which a quote stands twice.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/environment.h"
#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

/// What a folder holds.
struct MeasurementSet {
  std::vector<Measurement> measurements;  // by file in the order above, then by line
  std::vector<MemoryMeasurement> memory;
  std::vector<Environment> environments;
};

/// Takes one sentence about something that was left out.
using Warn = std::function<void(const std::string& sentence)>;

/// Reads every file that the folder has. A last line without its end, as a killed run leaves it, is
/// dropped with a warning. Throws Error (input) with file, line and column for anything else that
/// is no measurement: an unknown header, a missing or damaged field, quartiles that do not enclose
/// the median, an environment that environments.csv does not have, a folder without any file.
[[nodiscard]] MeasurementSet read_measurements(const std::filesystem::path& folder,
                                               const Warn& warn);

/// Appends rows as they are measured, each in one write, so that a killed run leaves whole rows and
/// at most one cut line. One writer at a time has a folder.
class MeasurementWriter {
 public:
  /// Makes the folder if it is not there and cuts off half lines that a killed run left. Throws
  /// Error (command line) when it cannot be written or another writer has it.
  explicit MeasurementWriter(std::filesystem::path folder);
  ~MeasurementWriter();
  MeasurementWriter(const MeasurementWriter&) = delete;
  MeasurementWriter& operator=(const MeasurementWriter&) = delete;

  /// Throws Error (command line) with the system's reason, such as a full disk.
  void append(const Measurement& measurement);
  void append(const MemoryMeasurement& measurement);
  void append(const Environment& environment);

 private:
  class Files;
  std::unique_ptr<Files> files_;
};

/// "collectives.csv" and so on, of the file that a point belongs to.
[[nodiscard]] std::string_view file_of(const Point& point);

/// "gemm: m 64, n 64, k 32, pass forward, ...": one line about a point, for people and as a key.
[[nodiscard]] std::string in_words(const Point& point);

}  // namespace trireme::calibrate
