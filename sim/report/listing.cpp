#include "sim/report/listing.h"

#include <nlohmann/json.hpp>

#include "sim/core/printable.h"
#include "sim/report/csv.h"
#include "sim/report/numbers.h"
#include "sim/report/table.h"
#include "sim/units/text.h"

namespace trireme::report {

namespace {

using Json = nlohmann::ordered_json;

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::string for_people(const Cell& cell) {
  return std::visit(Overloaded{[](std::monostate) { return std::string("-"); },
                               [](const std::string& text) { return printable(text); },
                               [](std::int64_t count) { return std::to_string(count); },
                               [](double value) { return nine_digit_text(value); },
                               [](bool value) { return std::string(value ? "yes" : "no"); },
                               [](Elements count) { return human(count); },
                               [](Bytes amount) { return human(amount); },
                               [](auto amount) { return to_text(amount); }},
                    cell);
}

Json for_machines(const Cell& cell) {
  return std::visit(Overloaded{[](std::monostate) { return Json(nullptr); },
                               [](const std::string& text) { return Json(text); },
                               [](std::int64_t count) { return Json(count); },
                               [](double value) { return Json(nine_digits(value)); },
                               [](bool value) { return Json(value); },
                               [](Bytes amount) { return Json(amount.value()); },
                               [](Elements count) { return Json(count.value()); },
                               [](auto rate) { return Json(nine_digits(rate.value())); }},
                    cell);
}

bool is_number(const Cell& cell) {
  return !std::holds_alternative<std::monostate>(cell) &&
         !std::holds_alternative<std::string>(cell) && !std::holds_alternative<bool>(cell);
}

}  // namespace

std::string to_terminal(const Listing& listing, bool color) {
  Table table;
  for (std::size_t i = 0; i < listing.columns.size(); ++i) {
    bool numbers = false;
    for (const auto& row : listing.rows) {
      numbers = numbers || is_number(row[i]);
    }
    table.columns.push_back(
        {std::string(listing.columns[i].title), numbers ? Align::right : Align::left});
  }
  for (const auto& row : listing.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) {
      cells.push_back(for_people(cell));
    }
    table.add(std::move(cells));
  }
  return to_terminal(table, color);
}

std::string to_csv(const Listing& listing) {
  std::vector<std::string> keys;
  for (const ListingColumn& column : listing.columns) {
    keys.emplace_back(column.key);
  }
  std::string text = csv_line(keys);
  for (const auto& row : listing.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) {
      const Json value = for_machines(cell);
      cells.push_back(value.is_null()     ? std::string()
                      : value.is_string() ? value.get<std::string>()
                                          : value.dump());
    }
    text += csv_line(cells);
  }
  return text;
}

std::string to_json(const Listing& listing) {
  Json document;
  document["schema_version"] = 1;
  document["command"] = listing.command;
  document["rows"] = Json::array();
  for (const auto& row : listing.rows) {
    Json object;
    for (std::size_t i = 0; i < row.size(); ++i) {
      object[std::string(listing.columns[i].key)] = for_machines(row[i]);
    }
    document["rows"].push_back(std::move(object));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace trireme::report
