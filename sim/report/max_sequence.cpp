#include "sim/report/max_sequence.h"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/csv.h"
#include "sim/report/memory_words.h"
#include "sim/report/numbers.h"
#include "sim/report/table.h"

namespace trireme::report {

using ledger::LongestSequence;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kUnknown = "-";

std::string tokens(const std::optional<Tokens>& length) {
  return length ? with_thousands(static_cast<double>(length->value())) : kUnknown;
}

/// What ends a plan's length.
std::string what_binds(const LongestSequence& row) {
  if (!row.beyond) {
    return "rules";
  }
  return row.host.holds_it() ? largest_items(row.memory) : "the host's memory";
}

std::string sentence(const LongestSequence& row) {
  if (row.step == Tokens(0)) {
    std::string text = fmt::format("{} is legal at no length", row.plan);
    for (const std::string& refusal : row.refusals) {
      text += "; " + refusal;
    }
    return text;
  }
  if (!row.beyond) {
    std::string text = fmt::format("{}: memory would allow more", row.plan);
    for (const std::string& refusal : row.refusals) {
      text += "; " + refusal;
    }
    return text;
  }
  if (!row.host.holds_it()) {
    return fmt::format("{}: {} tokens {}", row.plan, tokens(row.beyond), host_in_words(row.host));
  }
  return fmt::format("{}: {} tokens {}",
                     row.plan,
                     tokens(row.beyond),
                     memory_in_words(row.memory, row.device, row.capacity));
}

Json tokens_or_null(const std::optional<Tokens>& length) {
  return length ? Json(length->value()) : Json(nullptr);
}

Json row_object(const LongestSequence& row) {
  Json object;
  object["plan"] = row.plan;
  object["step_tokens"] = row.step == Tokens(0) ? Json(nullptr) : Json(row.step.value());
  object["longest_that_fits"] = tokens_or_null(row.fits);
  object["longest_that_is_tight"] = tokens_or_null(row.tight);
  object["first_beyond"] = tokens_or_null(row.beyond);
  const auto there = [&](Bytes bytes) { return row.beyond ? Json(bytes.value()) : Json(nullptr); };
  Json& memory = object["memory_beyond"];
  memory["allocated"] = there(row.memory.allocated);
  memory["reserved_low"] = there(row.device.reserved_low);
  memory["reserved_high"] = there(row.device.reserved_high);
  memory["outside"] = there(row.device.outside_allocator());
  memory["host_per_node"] = there(row.host.per_node);
  memory["instant"] = row.beyond ? Json(row.memory.instant) : Json(nullptr);
  for (std::size_t i = 0; i < kMemoryItemNames.size(); ++i) {
    memory["by_item"][std::string(kMemoryItemNames[i])] = there(row.memory.by_item[i]);
  }
  object["capacity_bytes"] = row.capacity.value();
  object["refusals"] = row.refusals;
  return object;
}

}  // namespace

std::string to_terminal(const ledger::LongestSequences& found, bool color) {
  Table table;
  table.columns = {{"plan", Align::left},
                   {"fits up to", Align::right},
                   {"tight up to", Align::right},
                   {"in steps of", Align::right},
                   {"what binds", Align::left},
                   {"next lever", Align::left},
                   {"would fit up to", Align::right}};
  for (const LongestSequence& row : found.rows) {
    const bool has_lever = !row.levers.empty();
    table.add({row.plan,
               tokens(row.fits),
               tokens(row.tight),
               row.step == Tokens(0) ? kUnknown : std::to_string(row.step.value()),
               what_binds(row),
               has_lever ? row.levers.front().change : kUnknown,
               has_lever ? tokens(row.levers.front().fits) : kUnknown});
  }
  std::string text = to_terminal(table, color);
  for (const LongestSequence& row : found.rows) {
    text += sentence(row) + '\n';
  }
  return text;
}

std::string to_json(const ledger::LongestSequences& found) {
  Json document;
  document["schema_version"] = 1;
  document["command"] = "max-seq";
  document["study"] = found.study;
  document["memory"] = found.memory_table;
  document["rows"] = Json::array();
  for (const LongestSequence& row : found.rows) {
    Json object = row_object(row);
    object["levers"] = Json::array();
    for (const ledger::LongerBy& lever : row.levers) {
      object["levers"].push_back(
          {{"change", lever.change}, {"longest_that_fits", tokens_or_null(lever.fits)}});
    }
    document["rows"].push_back(std::move(object));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_csv(const ledger::LongestSequences& found) {
  std::string text;
  for (const LongestSequence& row : found.rows) {
    std::vector<std::string> titles;
    std::vector<std::string> cells;
    const auto add = [&](std::string title, std::string cell) {
      titles.push_back(std::move(title));
      cells.push_back(std::move(cell));
    };
    const auto number = [](const std::optional<Tokens>& length) {
      return length ? std::to_string(length->value()) : std::string();
    };
    add("plan", row.plan);
    add("step_tokens", row.step == Tokens(0) ? "" : std::to_string(row.step.value()));
    add("longest_that_fits", number(row.fits));
    add("longest_that_is_tight", number(row.tight));
    add("what_binds", what_binds(row));
    add("next_lever", row.levers.empty() ? "" : row.levers.front().change);
    add("longest_with_lever", row.levers.empty() ? "" : number(row.levers.front().fits));
    if (text.empty()) {
      text += csv_line(titles);
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace trireme::report
