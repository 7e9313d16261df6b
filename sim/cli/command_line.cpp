#include "sim/cli/command_line.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <sstream>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "sim/cli/output.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/core/version.h"

namespace trireme::cli {

namespace po = boost::program_options;

namespace {

constexpr unsigned kLineLength = 100;
constexpr std::string_view kDefaultProfile = "h100-sxm-public";

po::options_description options_of(const Command* command) {
  po::options_description options("options", kLineLength);
  if (command != nullptr && command->add_options != nullptr) {
    command->add_options(options);
  }
  const Writes writes = command == nullptr ? Writes::result : command->writes;
  auto add = options.add_options();
  if (writes == Writes::result) {
    add("json", po::bool_switch(), "print one JSON document (schema_version 1)");
    add("csv", po::bool_switch(), "print comma-separated values");
    add("output,o",
        po::value<std::string>()->value_name("FILE"),
        "write the result to a file, whole or not at all");
    add("color", po::value<std::string>()->value_name("WHEN"), "auto, always or never");
  } else if (writes == Writes::file) {
    add("output,o",
        po::value<std::string>()->value_name("FILE"),
        "write the file, whole or not at all, instead of printing it");
  } else if (writes == Writes::folder) {
    add("output,o", po::value<std::string>()->value_name("DIR"), "write the files into a folder");
  }
  if (writes != Writes::text) {
    add("data",
        po::value<std::string>()->value_name("DIR"),
        "look up models/ and topologies/ here before the built-in ones");
  }
  add("help,h", po::bool_switch(), "print this help");
  if (command == nullptr) {
    add("version", po::bool_switch(), "print version, commit and default profile");
  }
  return options;
}

std::string text_of(const po::options_description& options) {
  std::ostringstream text;
  text << options;
  return text.str();
}

/// Whether an argument is an option, of any command, whose value is the next argument.
bool is_followed_by_value(const std::string& argument) {
  const auto takes = [&](const Command* command) {
    const po::options_description options = options_of(command);
    return std::any_of(options.options().begin(), options.options().end(), [&](const auto& option) {
      const bool named =
          argument == "--" + option->long_name() ||
          (argument.size() == 2 && argument == option->canonical_display_name(
                                                   po::command_line_style::allow_dash_for_short));
      return named && option->semantic()->min_tokens() > 0;
    });
  };
  const std::span<const Command> commands = command_table();
  return takes(nullptr) ||
         std::any_of(commands.begin(), commands.end(), [&](const Command& c) { return takes(&c); });
}

/// The place of the command among the arguments: the first that is no option nor an option's value.
std::optional<std::size_t> command_at(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty() || argument.front() != '-') {
      return i;
    }
    if (is_followed_by_value(argument)) {
      ++i;
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_unknown_option(const std::string& written,
                                        const po::options_description& options) {
  std::vector<std::string> known;
  for (const auto& option : options.options()) {
    known.push_back("--" + option->long_name());
  }
  refuse(fmt::format("no option is named {}", in_quotes(written)), hint_near(written, known));
}

po::variables_map parse(const std::vector<std::string>& arguments, const Command* command) {
  const po::options_description shown = options_of(command);
  po::options_description all;
  all.add(shown).add_options()("argument", po::value<std::string>());
  po::positional_options_description places;
  if (command != nullptr && !command->argument.empty()) {
    places.add("argument", 1);
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
    refuse_unknown_option(unknown.get_option_name(), shown);
  } catch (const po::too_many_positional_options_error&) {
    refuse("too many arguments",
           command == nullptr
               ? "try 'trireme --help'"
               : fmt::format("usage: trireme {} {}", command->name, command->argument));
  } catch (const po::error& error) {
    refuse(error.what());
  }
  return values;
}

bool is_set(const po::variables_map& values, const char* option) {
  return values.count(option) != 0 && values[option].as<bool>();
}

bool wants_color(const std::string& when, bool to_file) {
  if (when == "always") {
    return true;
  }
  if (when == "never") {
    return false;
  }
  if (!when.empty() && when != "auto") {
    const std::vector<std::string> known = {"auto", "always", "never"};
    refuse(fmt::format("--color: {} is not known", in_quotes(when)), hint_near(when, known));
  }
  const char* const no_color = std::getenv("NO_COLOR");
  const bool asked_not_to = no_color != nullptr && *no_color != '\0';
  return !to_file && !asked_not_to && ::isatty(STDOUT_FILENO) != 0;
}

/// An option without a text is what a script makes of a variable that is not set.
void refuse_empty_values(const po::variables_map& values) {
  for (const auto& [name, value] : values) {
    const auto* const text = boost::any_cast<std::string>(&value.value());
    if (text != nullptr && text->empty() && name != "argument") {
      refuse(fmt::format("--{}: an empty text", name), "give it a value or leave it out");
    }
  }
}

Invocation invocation_of(po::variables_map values, const Command* command) {
  refuse_empty_values(values);
  Invocation call;
  call.values = std::move(values);
  const bool json = is_set(call.values, "json");
  const bool csv = is_set(call.values, "csv");
  if (json && csv) {
    refuse("--json and --csv exclude each other");
  }
  call.format = json ? Format::json : csv ? Format::csv : Format::table;
  if (const std::string output = call.text("output"); !output.empty()) {
    call.output = output;
  }
  call.color = wants_color(call.text("color"), call.output.has_value());
  if (const std::string data = call.text("data"); !data.empty()) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(data, ignored)) {
      refuse(fmt::format("--data: {} is no folder", in_quotes(data, 200)));
    }
    call.data.directory = data;
  }
  call.argument = call.text("argument");
  const bool needs_argument =
      command != nullptr && !command->argument.empty() && command->argument.front() != '[';
  if (needs_argument && call.argument.empty()) {
    refuse(fmt::format("{} needs a {}", command->name, command->argument),
           fmt::format("usage: trireme {} {}", command->name, command->argument));
  }
  return call;
}

ExitCode run_parsed(const std::vector<std::string>& arguments) {
  std::vector<std::string> rest = arguments;
  const Command* command = nullptr;
  if (const auto at = command_at(arguments)) {
    command = &find_command(arguments[*at]);
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(*at));
    if (command->writes == Writes::by_another_program) {
      Invocation call;
      call.rest = std::move(rest);
      return command->run(call);
    }
  }
  po::variables_map values = parse(rest, command);
  if (is_set(values, "help")) {
    write_result({}, command == nullptr ? help_text() : help_text(*command));
    return ExitCode::done;
  }
  if (is_set(values, "version")) {
    write_result({},
                 fmt::format("trireme {} (commit {}), default profile {}\n",
                             version_number(),
                             version_commit(),
                             kDefaultProfile));
    return ExitCode::done;
  }
  const Invocation call = invocation_of(std::move(values), command);
  return command == nullptr ? run_first_minute(call) : command->run(call);
}

}  // namespace

ExitCode run(const std::vector<std::string>& arguments) {
  try {
    return run_parsed(arguments);
  } catch (const Error& error) {
    say(fmt::format("{}\n", error.what()));
    return error.exit_code();
  } catch (const std::exception& bug) {
    say(fmt::format("trireme: bug: {}\n", bug.what()));
    return ExitCode::bug;
  }
}

std::string help_text() {
  std::string text =
      "trireme: what a parallel training plan sends per rank, its peak memory, and its step time,\n"
      "before a GPU is booked.\n"
      "\n"
      "usage: trireme [COMMAND] [options]\n"
      "\n"
      "commands\n";
  for (const Command& command : command_table()) {
    text += fmt::format("  {:<10}{:<14}{}\n", command.name, command.argument, command.summary);
  }
  text += '\n' + text_of(options_of(nullptr));
  text +=
      "\n"
      "examples\n"
      "  trireme\n"
      "  trireme compare reports/ulysses-vs-megatron/study.yaml\n"
      "  trireme explain reports/ulysses-vs-megatron/study.yaml --plan hybrid\n"
      "\n"
      "exit codes: 0 done, 1 bug, 2 command line, 3 input file, 4 infeasible,\n"
      "  5 validation bound missed, 6 device or a lost rank\n";
  return text;
}

std::string help_text(const Command& command) {
  return fmt::format("{}\n\nusage: trireme {} {}{}[options]\n\n{}\nexamples\n{}",
                     command.summary,
                     command.name,
                     command.argument,
                     command.argument.empty() ? "" : " ",
                     text_of(options_of(&command)),
                     command.examples);
}

ExitCode run_help(const Invocation& call) {
  const Command* const command = call.argument.empty() ? nullptr : &find_command(call.argument);
  if (command != nullptr && command->writes == Writes::by_another_program) {
    Invocation help;
    help.rest = {"--help"};
    return command->run(help);
  }
  write_result(call, command == nullptr ? help_text() : help_text(*command));
  return ExitCode::done;
}

}  // namespace trireme::cli
