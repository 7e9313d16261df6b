#include "calibrate/cli/command_line.h"

#include <exception>
#include <sstream>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "calibrate/cli/built_with.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/core/version.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

namespace {

constexpr unsigned kLineLength = 100;

po::options_description options_of(const Command& command) {
  po::options_description options("options", kLineLength);
  command.add_options(options);
  options.add_options()("help,h", po::bool_switch(), "print this help");
  return options;
}

std::string usage(const Command& command) {
  return fmt::format("usage: trireme-calibrate {}{}{}",
                     command.name,
                     command.arguments.empty() ? "" : " ",
                     command.arguments);
}

po::variables_map parse(const std::vector<std::string>& arguments, const Command& command) {
  const po::options_description shown = options_of(command);
  po::options_description all;
  all.add(shown).add_options()("argument", po::value<std::vector<std::string>>());
  po::positional_options_description places;
  if (command.most_arguments != 0) {
    places.add("argument", command.most_arguments);
  }
  constexpr int kStyle =
      po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(
        po::command_line_parser(arguments).options(all).positional(places).style(kStyle).run(),
        values);
    po::notify(values);
  } catch (const po::unknown_option& unknown) {
    std::vector<std::string> known;
    for (const auto& option : shown.options()) {
      known.push_back("--" + option->long_name());
    }
    const std::string& written = unknown.get_option_name();
    refuse(fmt::format("no option is named {}", in_quotes(written)), hint_near(written, known));
  } catch (const po::too_many_positional_options_error&) {
    refuse("too many arguments", usage(command));
  } catch (const po::error& error) {
    refuse(error.what());
  }
  return values;
}

/// An option without a text is what a script makes of a variable that is not set.
void refuse_empty_values(const po::variables_map& values) {
  for (const auto& [name, value] : values) {
    const auto* const text = boost::any_cast<std::string>(&value.value());
    if (text != nullptr && text->empty()) {
      refuse(fmt::format("--{}: an empty text", name), "give it a value or leave it out");
    }
  }
}

ExitCode run_command(const Command& command, const std::vector<std::string>& arguments) {
  Invocation call;
  call.values = parse(arguments, command);
  if (call.flag("help")) {
    write_result({}, help_text(command));
    return ExitCode::done;
  }
  refuse_empty_values(call.values);
  if (call.values.count("argument") != 0) {
    call.arguments = call.values["argument"].as<std::vector<std::string>>();
  }
  if (static_cast<int>(call.arguments.size()) < command.least_arguments) {
    refuse(fmt::format("{} needs a {}", command.name, command.arguments), usage(command));
  }
  return command.run(call);
}

ExitCode run_arguments(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() == "--help" || arguments.front() == "-h" ||
      (arguments.front() == "help" && arguments.size() == 1)) {
    write_result({}, help_text());
    return ExitCode::done;
  }
  if (arguments.front() == "--version") {
    write_result({},
                 fmt::format("trireme-calibrate {} (commit {})\n{}",
                             version_number(),
                             version_commit(),
                             built_with()));
    return ExitCode::done;
  }
  if (arguments.front() == "help") {
    write_result({}, help_text(find_command(arguments[1])));
    return ExitCode::done;
  }
  if (arguments.front().starts_with("-")) {
    refuse(fmt::format("no option is named {}", in_quotes(arguments.front())),
           "try 'trireme-calibrate --help'");
  }
  const Command& command = find_command(arguments.front());
  return run_command(command, {arguments.begin() + 1, arguments.end()});
}

}  // namespace

ExitCode run(const std::vector<std::string>& arguments) {
  try {
    return run_arguments(arguments);
  } catch (const Error& error) {
    say(fmt::format("{}\n", error.what()));
    return error.exit_code();
  } catch (const std::exception& bug) {
    say(fmt::format("trireme-calibrate: bug: {}\n", bug.what()));
    return ExitCode::bug;
  }
}

std::string help_text() {
  std::string text =
      "trireme-calibrate: how fast a machine is, as a profile that trireme takes.\n"
      "\n"
      "usage: trireme-calibrate COMMAND [options], or trireme calibrate COMMAND [options]\n"
      "\n"
      "commands\n";
  for (const Command& command : command_table()) {
    text += fmt::format("  {:<8}{:<26}{}\n", command.name, command.arguments, command.summary);
  }
  text +=
      "\n"
      "options\n"
      "  --version   print version, commit and the libraries that this was built with\n"
      "  --help      print this help; after a command, the command's\n"
      "\n"
      "examples\n"
      "  mpirun -n 8 trireme-calibrate run -o measured\n"
      "  trireme-calibrate fit measured -o profile.yaml\n"
      "\n"
      "exit codes: 0 done, 1 bug, 2 command line, 3 input file, 6 device or a lost rank,\n"
      "  130 interrupted\n";
  return text;
}

std::string help_text(const Command& command) {
  std::ostringstream options;
  options << options_of(command);
  return fmt::format("{}\n\n{} [options]\n\n{}\nexamples\n{}",
                     command.summary,
                     usage(command),
                     options.str(),
                     command.examples);
}

}  // namespace trireme::calibrate
