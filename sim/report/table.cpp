#include "sim/report/table.h"

#include <algorithm>
#include <string_view>

#include "sim/core/printable.h"

namespace trireme::report {

namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kPlain = "\x1b[0m";

std::vector<std::size_t> widths_of(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = utf8_count(table.columns[i].title);
    for (const auto& row : table.rows) {
      width = std::max(width, utf8_count(row[i]));
    }
    widths.push_back(width);
  }
  return widths;
}

/// One line of cells without trailing blanks.
std::string line_of(const Table& table,
                    const std::vector<std::string>& cells,
                    const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string blanks(widths[i] - utf8_count(cells[i]), ' ');
    line += i == 0 ? "" : "  ";
    line += table.columns[i].align == Align::right ? blanks + cells[i] : cells[i] + blanks;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string escaped(const std::string& cell) {
  std::string text;
  for (const char c : cell) {
    text += c == '|' ? "\\|" : std::string(1, c);
  }
  return text;
}

}  // namespace

std::string to_terminal(const Table& table, bool color) {
  const std::vector<std::size_t> widths = widths_of(table);
  std::vector<std::string> titles;
  std::vector<std::string> rules;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    titles.push_back(table.columns[i].title);
    rules.emplace_back(widths[i], '-');
  }
  std::string text;
  text += color ? kBold : "";
  text += line_of(table, titles, widths);
  text += color ? kPlain : "";
  text += '\n' + line_of(table, rules, widths) + '\n';
  for (const auto& row : table.rows) {
    text += line_of(table, row, widths) + '\n';
  }
  return text;
}

std::string to_markdown(const Table& table) {
  std::string text = "|";
  std::string rule = "|";
  for (const Column& column : table.columns) {
    text += ' ' + escaped(column.title) + " |";
    rule += column.align == Align::right ? "---:|" : "---|";
  }
  text += '\n' + rule + '\n';
  for (const auto& row : table.rows) {
    text += '|';
    for (const std::string& cell : row) {
      text += ' ' + escaped(cell) + " |";
    }
    text += '\n';
  }
  return text;
}

}  // namespace trireme::report
