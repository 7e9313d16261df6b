// The subcommands of trireme-calibrate: one row each.
#pragma once

#include <span>
#include <string_view>

#include <boost/program_options.hpp>

#include "calibrate/cli/invocation.h"
#include "sim/core/error.h"

namespace trireme::calibrate {

struct Command {
  std::string_view name;
  std::string_view summary;    // one line
  std::string_view arguments;  // such as "FOLDER..."; empty for none
  int least_arguments = 0;
  int most_arguments = 0;     // -1: any number
  std::string_view examples;  // whole lines
  void (*add_options)(boost::program_options::options_description& options);
  ExitCode (*run)(const Invocation& call);
};

/// Every command, in the order in which help lists them.
[[nodiscard]] std::span<const Command> command_table();

/// The row of that name. Throws Error (command line) with the nearest name.
[[nodiscard]] const Command& find_command(std::string_view name);

// One file each: the options that a command takes, and the command.
void add_run_options(boost::program_options::options_description& options);
ExitCode run_run(const Invocation& call);
void add_import_options(boost::program_options::options_description& options);
ExitCode run_import(const Invocation& call);
void add_fit_options(boost::program_options::options_description& options);
ExitCode run_fit(const Invocation& call);
void add_show_options(boost::program_options::options_description& options);
ExitCode run_show(const Invocation& call);

}  // namespace trireme::calibrate
