// Comma-separated values as RFC 4180 has them, with plain line feeds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::report {

/// One cell, in quotes where it holds a comma, a quote or a line break.
[[nodiscard]] std::string csv_cell(std::string_view text);

/// One line with its line feed.
[[nodiscard]] std::string csv_line(const std::vector<std::string>& cells);

}  // namespace trireme::report
