// Where results and words go: results to stdout or the file of -o, words to stderr.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/cli/invocation.h"

namespace trireme::cli {

/// Writes a result whole: to the file of -o by renaming, or to stdout. Throws Error (command line)
/// with the system's reason when that fails, a closed pipe included.
void write_result(const Invocation& call, std::string_view text);

/// Writes what the function of the call's format returns: of --json, of --csv, or of a table.
template <class ToJson, class ToCsv, class ToTable>
void write_result_as(const Invocation& call, ToJson to_json, ToCsv to_csv, ToTable to_table) {
  switch (call.format) {
    case Format::json:
      write_result(call, to_json());
      break;
    case Format::csv:
      write_result(call, to_csv());
      break;
    case Format::table:
      write_result(call, to_table());
      break;
  }
}

/// Words on stderr, as they are. Those that cannot be written there, as it is closed or full, are
/// lost: they must not cost the result.
void say(std::string_view text);

/// "note: ..." on stderr.
void note(std::string_view text);

/// "defaults used: ..." on stderr, wrapped; nothing when there are none. What all of `plans` took
/// alike is said once.
void echo_defaults(std::span<const std::string> defaults, std::span<const std::string> plans);

/// Throws Error (command line) with the next thing to type.
[[noreturn]] void refuse(std::string message, std::string hint = {});

}  // namespace trireme::cli
