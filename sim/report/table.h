// A table of text cells, drawn for a terminal or as markdown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::report {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // of one cell per column

  void add(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
};

/// Aligned columns, two spaces apart, a rule under the titles; bold titles with `color`.
[[nodiscard]] std::string to_terminal(const Table& table, bool color);

[[nodiscard]] std::string to_markdown(const Table& table);

}  // namespace trireme::report
