#include "sim/report/validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/csv.h"
#include "sim/report/numbers.h"
#include "sim/report/table.h"

namespace trireme::report {

using ledger::Dimension;
using ledger::FactVerdict;
using ledger::Relation;
using ledger::Topic;
using ledger::ValidationResult;
using ledger::ValidationRow;
using Json = nlohmann::ordered_json;

namespace {

/// Exact bytes have up to 8 digits, everything else 4.
std::string amount_text(const ledger::StatedFact& stated, double value) {
  constexpr double kMebi = 1024.0 * 1024.0;
  switch (stated.dimension) {
    case Dimension::bytes: {
      const int digits = stated.expected.exact() ? 8 : 4;
      return std::abs(value) < 1024.0 * kMebi
                 ? fmt::format("{:.{}g} MiB", value / kMebi, digits)
                 : fmt::format("{:.{}g} GiB", value / kMebi / 1024.0, digits);
    }
    case Dimension::seconds:
      return std::abs(value) < 1 ? fmt::format("{:.4g} ms", value * 1e3)
                                 : fmt::format("{:.4g} s", value);
    case Dimension::flops_per_second:
      return fmt::format("{:.4g} TFLOP/s", value / 1e12);
    case Dimension::tokens:
      return fmt::format("{:.3g}K", value / 1024.0);
    case Dimension::number:
      return fmt::format("{:.4g}", value);
  }
  throw std::logic_error("amount_text: an unknown dimension");
}

/// What cannot be predicted is the worst.
double badness(const ValidationRow& row) {
  return row.predicted ? std::abs(row.error) : std::numeric_limits<double>::infinity();
}

/// Errors of the judged cases of one topic.
struct TopicErrors {
  Topic topic = Topic::bytes_sent;
  std::size_t cases = 0;
  std::size_t within = 0;
  std::size_t known = 0;
  std::optional<double> median;   // of their sizes; the lower of the two middle ones
  std::optional<double> largest;  // signed
};

std::optional<TopicErrors> errors_of(const ValidationResult& result, Topic topic) {
  TopicErrors errors;
  errors.topic = topic;
  std::vector<double> sizes;
  for (const ValidationRow& row : result.rows) {
    if (row.stated.role != ledger::Role::judged || row.stated.topic != topic ||
        row.stated.of_table) {  // its set counts
      continue;
    }
    ++errors.cases;
    errors.within += row.verdict == FactVerdict::pass ? 1U : 0U;
    errors.known += row.verdict == FactVerdict::known_deviation ? 1U : 0U;
    if (row.predicted) {
      sizes.push_back(std::abs(row.error));
      if (!errors.largest || std::abs(row.error) > std::abs(*errors.largest)) {
        errors.largest = row.error;
      }
    }
  }
  if (!sizes.empty()) {
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>((sizes.size() - 1) / 2);
    std::nth_element(sizes.begin(), middle, sizes.end());
    errors.median = *middle;
  }
  return errors.cases == 0 ? std::nullopt : std::optional(errors);
}

std::vector<TopicErrors> summary_of(const ValidationResult& result) {
  std::vector<TopicErrors> summary;
  for (std::size_t topic = 0; topic < ledger::kTopicNames.size(); ++topic) {
    if (const auto errors = errors_of(result, static_cast<Topic>(topic))) {
      summary.push_back(*errors);
    }
  }
  return summary;
}

/// A rounding error is none.
std::string signed_percent(double error) {
  return std::abs(error) < 5e-6 ? "0 %" : fmt::format("{:+.2f} %", 100 * error);
}

Table summary_table(const ValidationResult& result) {
  Table table;
  table.columns = {{"judged cases", Align::left},
                   {"cases", Align::right},
                   {"within tolerance", Align::right},
                   {"known deviations", Align::right},
                   {"median error", Align::right},
                   {"largest error", Align::right}};
  for (const TopicErrors& errors : summary_of(result)) {
    table.add({std::string(ledger::kTopicNames[static_cast<std::size_t>(errors.topic)]),
               std::to_string(errors.cases),
               std::to_string(errors.within),
               std::to_string(errors.known),
               errors.median ? fmt::format("{:.2f} %", 100 * *errors.median) : "none",
               errors.largest ? signed_percent(*errors.largest) : "none"});
  }
  return table;
}

template <class Enum, std::size_t N>
std::string word(const std::array<std::string_view, N>& names, Enum value) {
  return std::string(names[static_cast<std::size_t>(value)]);
}

Json optional_number(const std::optional<double>& value) {
  return value ? Json(nine_digits(*value)) : Json(nullptr);
}

Json row_object(const ValidationRow& row) {
  const ledger::StatedFact& stated = row.stated;
  Json object;
  object["case"] = stated.id;
  object["source"] = stated.source;
  object["where"] = stated.where;
  object["fact"] = stated.fact;
  object["printed"] = stated.printed;
  object["quantity"] = stated.quantity;
  object["unit"] = word(ledger::kDimensionNames, stated.dimension);
  object["relation"] = word(ledger::kRelationNames, stated.expected.relation);
  object["expected"] = nine_digits(stated.expected.value);
  object["tolerance"] = nine_digits(stated.expected.tolerance);
  object["predicted"] = optional_number(row.predicted);
  object["error"] = row.predicted ? Json(nine_digits(row.error)) : Json(nullptr);
  object["verdict"] = word(ledger::kFactVerdictNames, row.verdict);
  object["role"] = word(ledger::kRoleNames, stated.role);
  object["of_table"] = stated.of_table;
  object["known_deviation"] =
      stated.known_deviation ? Json(*stated.known_deviation) : Json(nullptr);
  object["problem"] = row.problem.empty() ? Json(nullptr) : Json(row.problem);
  return object;
}

}  // namespace

std::vector<const ValidationRow*> worst_first(const ValidationResult& result) {
  std::vector<const ValidationRow*> sorted;
  for (const ValidationRow& row : result.rows) {
    sorted.push_back(&row);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return badness(*a) > badness(*b);
  });
  return sorted;
}

std::string predicted_text(const ValidationRow& row) {
  return row.predicted ? amount_text(row.stated, *row.predicted) : row.problem;
}

std::string expected_text(const ValidationRow& row) {
  std::string value = amount_text(row.stated, row.stated.expected.value);
  switch (row.stated.expected.relation) {
    case Relation::equal:
      return value;
    case Relation::at_least:
      return "at least " + value;
    case Relation::at_most:
      return "at most " + value;
  }
  throw std::logic_error("expected_text: an unknown relation");
}

std::string tolerance_text(const ValidationRow& row) {
  const ledger::Expectation& expected = row.stated.expected;
  if (expected.relation != Relation::equal) {
    return "a bound";
  }
  if (expected.with_its_set()) {
    return "its set's";
  }
  return expected.exact() ? "exact" : "± " + expected.tolerance_text;
}

std::string error_text(const ValidationRow& row) {
  return row.predicted ? signed_percent(row.error) : "none";
}

std::string verdict_text(const ValidationRow& row) {
  switch (row.verdict) {
    case FactVerdict::pass:
      return "pass";
    case FactVerdict::fail:
      return "FAIL";
    case FactVerdict::known_deviation:
      return "known deviation";
    case FactVerdict::stale_deviation:
      return "FAIL: passes, so it is no deviation any more";
  }
  throw std::logic_error("verdict_text: an unknown verdict");
}

std::string to_terminal(const ValidationResult& result, bool color) {
  Table table;
  table.columns = {{"case", Align::left},
                   {"predicted", Align::right},
                   {"expected", Align::right},
                   {"error", Align::right},
                   {"verdict", Align::left}};
  for (const ValidationRow* const row : worst_first(result)) {
    if (row->stated.of_table && !row->failed()) {
      continue;
    }
    table.add({row->stated.id,
               predicted_text(*row),
               expected_text(*row),
               error_text(*row),
               verdict_text(*row)});
  }
  return to_terminal(table, color) + '\n' + to_terminal(summary_table(result), color);
}

std::string to_csv(const ValidationResult& result) {
  std::string text = csv_line({"case",
                               "source",
                               "fact",
                               "quantity",
                               "unit",
                               "relation",
                               "expected",
                               "tolerance",
                               "predicted",
                               "error",
                               "verdict",
                               "role",
                               "known_deviation"});
  for (const ValidationRow& row : result.rows) {
    const ledger::StatedFact& stated = row.stated;
    text += csv_line({stated.id,
                      stated.source,
                      stated.fact,
                      std::string(stated.quantity),
                      word(ledger::kDimensionNames, stated.dimension),
                      word(ledger::kRelationNames, stated.expected.relation),
                      nine_digit_text(stated.expected.value),
                      nine_digit_text(stated.expected.tolerance),
                      row.predicted ? nine_digit_text(*row.predicted) : std::string(),
                      row.predicted ? nine_digit_text(row.error) : std::string(),
                      word(ledger::kFactVerdictNames, row.verdict),
                      word(ledger::kRoleNames, stated.role),
                      stated.known_deviation.value_or("")});
  }
  return text;
}

std::string to_json(const ValidationResult& result) {
  Json document;
  document["schema_version"] = 1;
  document["command"] = "validate";
  document["failed"] = std::count_if(
      result.rows.begin(), result.rows.end(), [](const auto& row) { return row.failed(); });
  document["summary"] = Json::array();
  for (const TopicErrors& errors : summary_of(result)) {
    document["summary"].push_back({{"topic", word(ledger::kTopicNames, errors.topic)},
                                   {"cases", errors.cases},
                                   {"within_tolerance", errors.within},
                                   {"known_deviations", errors.known},
                                   {"median_error", optional_number(errors.median)},
                                   {"largest_error", optional_number(errors.largest)}});
  }
  document["rows"] = Json::array();
  for (const ValidationRow& row : result.rows) {
    document["rows"].push_back(row_object(row));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string accuracy_summary(const ValidationResult& result) {
  return to_markdown(summary_table(result));
}

}  // namespace trireme::report
