// One call of trireme-calibrate: what every command is given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options.hpp>

#include "sim/core/error.h"

namespace trireme::calibrate {

struct Invocation {
  std::vector<std::string> arguments;            // what stands behind the command
  boost::program_options::variables_map values;  // of the command's options

  /// The text of an option; empty when it was not given.
  [[nodiscard]] std::string text(const std::string& option) const {
    return values.count(option) == 0 ? std::string() : values[option].as<std::string>();
  }

  /// Whether a switch was given.
  [[nodiscard]] bool flag(const std::string& option) const {
    return values.count(option) != 0 && values[option].as<bool>();
  }
};

/// Writes a result whole: to the file of -o by renaming, or to stdout. Throws Error (command line)
/// with the system's reason when that fails, a closed pipe included.
void write_result(const Invocation& call, std::string_view text);

/// Words on stderr, as they are. Those that cannot be written there are lost: they must not cost
/// the result.
void say(std::string_view text);

/// "note: ..." on stderr.
void note(std::string_view text);

/// Throws Error (command line) with the next thing to type.
[[noreturn]] void refuse(std::string message, std::string hint = {});

}  // namespace trireme::calibrate
