// From the arguments of the program to the exit code.
#pragma once

#include <string>
#include <vector>

#include "calibrate/cli/commands.h"
#include "sim/core/error.h"

namespace trireme::calibrate {

/// Parses the arguments (without the program's name), runs the command and reports every error on
/// stderr. Never throws.
[[nodiscard]] ExitCode run(const std::vector<std::string>& arguments);

/// What `trireme-calibrate --help` prints.
[[nodiscard]] std::string help_text();

/// What `trireme-calibrate COMMAND --help` prints.
[[nodiscard]] std::string help_text(const Command& command);

}  // namespace trireme::calibrate
