// From the arguments of the program to the exit code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/cli/commands.h"
#include "sim/core/error.h"

namespace trireme::cli {

/// Parses the arguments (without the program's name), runs the command and reports every error on
/// stderr. Never throws.
[[nodiscard]] ExitCode run(const std::vector<std::string>& arguments);

/// What `trireme --help` prints.
[[nodiscard]] std::string help_text();

/// What `trireme help COMMAND` prints.
[[nodiscard]] std::string help_text(const Command& command);

}  // namespace trireme::cli
