// A list of things that exist (models, clusters, plans, profiles) with typed cells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/units/units.h"

namespace trireme::report {

/// A cell keeps its value: people read "79.2 GiB", JSON and CSV carry 85040350822.
using Cell = std::variant<std::monostate,
                          std::string,
                          std::int64_t,
                          double,
                          bool,
                          Bytes,
                          Elements,
                          BytesPerSecond,
                          FlopsPerSecond>;

struct ListingColumn {
  std::string_view key;    // stable name in JSON and CSV
  std::string_view title;  // for people
};

struct Listing {
  std::string_view command;
  std::vector<ListingColumn> columns;
  std::vector<std::vector<Cell>> rows;  // of one cell per column
};

[[nodiscard]] std::string to_terminal(const Listing& listing, bool color);

/// Rates per second and bytes in base units; an empty cell stays empty.
[[nodiscard]] std::string to_csv(const Listing& listing);

/// {"schema_version": 1, "command": ..., "rows": [{key: value, ...}]}
[[nodiscard]] std::string to_json(const Listing& listing);

}  // namespace trireme::report
