#include <cerrno>
#include <cstdio>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "calibrate/cli/invocation.h"
#include "sim/core/files.h"

namespace trireme::calibrate {

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

}  // namespace

void write_result(const Invocation& call, std::string_view text) {
  if (const std::string file = call.text("output"); !file.empty()) {
    write_file_atomically(file, text);
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

void refuse(std::string message, std::string hint) {
  throw Error(ErrorKind::command_line,
              SourceLocation{.file = "trireme-calibrate"},
              std::move(message),
              std::move(hint));
}

}  // namespace trireme::calibrate
