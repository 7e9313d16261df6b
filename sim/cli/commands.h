// The subcommands: one row each.
#pragma once

#include <span>
#include <string_view>

#include <boost/program_options.hpp>

#include "sim/cli/invocation.h"
#include "sim/core/error.h"

namespace trireme::cli {

/// What a command writes: a result as table, JSON or CSV, one file of its own format, files into a
/// folder, plain text, or whatever another program makes of the arguments behind it.
enum class Writes : std::uint8_t { result, file, folder, text, by_another_program };

struct Command {
  std::string_view name;
  std::string_view summary;   // one line
  std::string_view argument;  // such as "STUDY.yaml"; empty for none, in brackets when optional
  Writes writes = Writes::result;
  std::string_view examples;                                                  // whole lines
  void (*add_options)(boost::program_options::options_description& options);  // null: none
  ExitCode (*run)(const Invocation& call);
};

/// Every command, in the order in which help lists them.
[[nodiscard]] std::span<const Command> command_table();

/// The row of that name. Throws Error (command line) with the nearest name.
[[nodiscard]] const Command& find_command(std::string_view name);

// One file each.
ExitCode run_compare(const Invocation& call);
ExitCode run_trace(const Invocation& call);
ExitCode run_sweep(const Invocation& call);
ExitCode run_explain(const Invocation& call);
ExitCode run_verify(const Invocation& call);
ExitCode run_validate(const Invocation& call);
ExitCode run_max_seq(const Invocation& call);
ExitCode run_memory(const Invocation& call);
ExitCode run_report(const Invocation& call);
ExitCode run_legal(const Invocation& call);
ExitCode run_models(const Invocation& call);
ExitCode run_clusters(const Invocation& call);
ExitCode run_plans(const Invocation& call);
ExitCode run_profiles(const Invocation& call);
ExitCode run_calibrate(const Invocation& call);
ExitCode run_help(const Invocation& call);

/// What `trireme` does without a command.
ExitCode run_first_minute(const Invocation& call);

}  // namespace trireme::cli
