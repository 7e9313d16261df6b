// Names of what an import writes, after the file that it was read from.
#pragma once

#include <string>

namespace trireme::calibrate {

/// The name of a file without folder and extension, with letters, digits, '.', '_' and '-' alone:
/// the key of its environment, and the name of its topology.
[[nodiscard]] std::string environment_key_of(const std::string& file);

}  // namespace trireme::calibrate
