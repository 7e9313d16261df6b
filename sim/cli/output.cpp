#include "sim/cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/core/error.h"
#include "sim/core/files.h"

namespace trireme::cli {

namespace {

void write_to_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      throw Error(
          ErrorKind::command_line,
          SourceLocation{.file = "standard output"},
          fmt::format("the result cannot be written: {}", std::generic_category().message(errno)));
    }
  }
}

/// "plans.*.framework: generic" for what every plan took alike, in the place of the first.
std::vector<std::string> collapsed(std::span<const std::string> defaults,
                                   std::span<const std::string> plans) {
  std::vector<std::string> lines;
  for (const std::string& line : defaults) {
    std::string said = line;
    for (const std::string& plan : plans) {
      const std::string prefix = "plans." + plan + ".";
      if (!line.starts_with(prefix)) {
        continue;
      }
      const std::string rest = line.substr(prefix.size());
      const bool alike = std::all_of(plans.begin(), plans.end(), [&](const std::string& other) {
        return std::find(defaults.begin(), defaults.end(), "plans." + other + "." + rest) !=
               defaults.end();
      });
      if (alike && plans.size() > 1) {
        said = "plans.*." + rest;
      }
    }
    if (std::find(lines.begin(), lines.end(), said) == lines.end()) {
      lines.push_back(said);
    }
  }
  return lines;
}

}  // namespace

void write_result(const Invocation& call, std::string_view text) {
  if (call.output) {
    write_file_atomically(*call.output, text);
  } else {
    write_to_stdout(text);
  }
}

void say(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

void note(std::string_view text) {
  say(fmt::format("note: {}\n", text));
}

void echo_defaults(std::span<const std::string> defaults, std::span<const std::string> plans) {
  constexpr std::size_t kColumns = 100;
  const std::vector<std::string> lines = collapsed(defaults, plans);
  std::string line = "defaults used:";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string piece = ' ' + lines[i] + (i + 1 < lines.size() ? ";" : "");
    if (line.size() + piece.size() > kColumns) {
      say(line + '\n');
      line.assign(1, ' ');
    }
    line += piece;
  }
  if (!lines.empty()) {
    say(line + '\n');
  }
}

void refuse(std::string message, std::string hint) {
  throw Error(ErrorKind::command_line,
              SourceLocation{.file = "trireme"},
              std::move(message),
              std::move(hint));
}

}  // namespace trireme::cli
