#include <fmt/format.h>

#include "sim/report/table.h"
#include "sim/report/validation.h"

namespace trireme::report {

using ledger::Role;
using ledger::ValidationResult;
using ledger::ValidationRow;

namespace {

/// Text in a markdown table: a bar would end its cell.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

/// Worst first; empty when no case has the role.
std::string case_table(const ValidationResult& result, Role role) {
  Table table;
  table.columns = {{"case", Align::left},
                   {"fact", Align::left},
                   {"printed", Align::right},
                   {"predicted", Align::right},
                   {"error", Align::right},
                   {"tolerance", Align::right},
                   {"verdict", Align::left}};
  for (const ValidationRow* const row : worst_first(result)) {
    if (row->stated.role == role) {
      table.add({cell(row->stated.id),
                 cell(row->stated.fact),
                 cell(row->stated.printed),
                 cell(predicted_text(*row)),
                 error_text(*row),
                 tolerance_text(*row),
                 verdict_text(*row)});
    }
  }
  return table.rows.empty() ? std::string() : to_markdown(table);
}

std::string deviations(const ValidationResult& result) {
  std::string text;
  for (const ValidationRow* const row : worst_first(result)) {
    if (row->stated.known_deviation) {
      text += fmt::format(
          "- **{}** ({}): {}.\n", row->stated.id, error_text(*row), *row->stated.known_deviation);
    }
  }
  return text.empty() ? "None.\n" : text;
}

std::string details(const ValidationRow& row) {
  const ledger::StatedFact& stated = row.stated;
  std::string text = fmt::format("- **{}**: `{}`, {}. Expected {}, {}: {}.",
                                 stated.id,
                                 stated.source,
                                 stated.where,
                                 expected_text(row),
                                 tolerance_text(row),
                                 stated.reason);
  if (!stated.assumptions.empty()) {
    text += fmt::format(" Assumed: {}.", fmt::join(stated.assumptions, "; "));
  }
  return text + "\n";
}

}  // namespace

std::string accuracy_page(const ValidationResult& result, const std::string& figure) {
  std::string text =
      "# Accuracy\n\n"
      "Predictions against published and measured facts, as `trireme validate --markdown` prints "
      "them; the figure is\n`trireme validate --svg`. Each case has a file below "
      "`tests/validation/cases/`; `docs/adding.md` says how to\nadd one. An error is relative to "
      "what is expected; that of a bound which is kept is 0.\n\n";
  text += accuracy_summary(result);
  text +=
      "\nErrors of known deviations are counted. A known deviation fails the run as soon as its "
      "case passes, so that\nnone outlives its cause.\n";
  text += fmt::format("\n![Predicted over expected, a row per source]({})\n", figure);
  text += "\n## Judged\n\nNo value of these cases went into a profile. Worst first.\n\n";
  text += case_table(result, Role::judged);
  text += "\n## Known deviations and their causes\n\n" + deviations(result);
  const std::string fitted = case_table(result, Role::fitted);
  text += "\n## Fitted\n\n";
  text += fitted.empty()
              ? "No case uses a value that went into a profile: the profiles were fitted "
                "on other measurements\n(`docs/bibliography.md`, `fit_forms`).\n"
              : fitted;
  text +=
      "\n## Sources, tolerances and assumptions\n\nOf the cases that are not exact; those are "
      "integers of the ideal algorithms.\n\n";
  for (const ValidationRow& row : result.rows) {
    if (!row.stated.expected.exact()) {
      text += details(row);
    }
  }
  return text;
}

}  // namespace trireme::report
