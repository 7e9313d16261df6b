// A description of this machine's CPUs in the form of a cluster of GPUs, so that `trireme compare`
// can be asked about it.
#pragma once

#include <filesystem>

#include "calibrate/measurement/environment.h"

namespace trireme::calibrate {

/// Writes gpu.yaml and cluster.yaml into a folder of measurements: a rank in the place of a GPU,
/// with what the measurements reached in the place of a data sheet's peaks. Without matrix products
/// and copies among the measurements nothing is written. Throws Error as read_measurements and
/// write_file_atomically do.
void write_cpu_machine(const std::filesystem::path& folder, const Environment& environment);
}  // namespace trireme::calibrate
