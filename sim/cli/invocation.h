// One call of the command line: what every command is given.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "sim/config/library.h"

namespace trireme::cli {

enum class Format : std::uint8_t { table, json, csv };

struct Invocation {
  Format format = Format::table;
  bool color = false;
  std::optional<std::filesystem::path> output;  // of -o; results go to stdout without it
  config::DataSource data;
  std::string argument;                          // what stands behind the command; may be empty
  std::vector<std::string> rest;                 // all of that, for another program
  boost::program_options::variables_map values;  // of the command's own options

  /// The text of one of the command's own options; empty when it was not given.
  [[nodiscard]] std::string text(const std::string& option) const {
    return values.count(option) == 0 ? std::string() : values[option].as<std::string>();
  }
};

}  // namespace trireme::cli
