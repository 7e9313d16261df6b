#include "sim/report/csv.h"

namespace trireme::report {

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + '"';
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    line += line.empty() && &cell == &cells.front() ? "" : ",";
    line += csv_cell(cell);
  }
  return line + '\n';
}

}  // namespace trireme::report
