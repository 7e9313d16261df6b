#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/core/printable.h"

namespace trireme::cli {

namespace {

/// The program beside this one; else wherever the system looks for programs.
std::string calibrate_program() {
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const std::filesystem::path beside = self.parent_path() / "trireme-calibrate";
  return !unknown && std::filesystem::exists(beside, unknown) ? beside.string()
                                                              : "trireme-calibrate";
}

}  // namespace

// Becomes the other program, so that signals and exit codes are its own.
ExitCode run_calibrate(const Invocation& call) {
  std::string program = calibrate_program();
  std::vector<std::string> arguments = call.rest;
  std::vector<char*> pointers = {program.data()};
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  ::execvp(program.c_str(), pointers.data());
  refuse(fmt::format("{} cannot be started: {}",
                     in_quotes(program, 200),
                     std::generic_category().message(errno)),
         "it is built and installed beside trireme");
}

}  // namespace trireme::cli
