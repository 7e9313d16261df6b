#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/report/gantt.h"
#include "sim/report/numbers.h"
#include "sim/report/study_tables.h"

namespace trireme::report {

using ledger::Explanation;
using ledger::OwnerGrid;
using ledger::Term;
using ledger::TermQuantity;

namespace {

std::string number_text(const std::variant<std::int64_t, double>& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return std::to_string(*whole);
  }
  return nine_digit_text(std::get<double>(value));
}

/// "N (n - 1) / n; N = 268435456, n = 8".
std::string formula_text(const Term& term) {
  std::string text(term.formula);
  const char* separator = "; ";
  for (const ledger::TermNumber& number : term.numbers) {
    text += fmt::format("{}{} = {}", separator, number.name, number_text(number.value));
    separator = ", ";
  }
  return text;
}

std::string value_text(const Term& term) {
  if (const auto* whole = std::get_if<std::int64_t>(&term.value)) {
    return human(Bytes(*whole));
  }
  if (const auto* real = std::get_if<double>(&term.value)) {
    return term.quantity == TermQuantity::seconds ? human(Seconds(*real))
                                                  : fmt::format("{:.4g}", *real);
  }
  return "-";
}

Table terms_table(const Explanation& explanation, TermQuantity quantity) {
  Table table;
  table.columns = {{"phase", Align::left},
                   {"component", Align::left},
                   {"operation", Align::left},
                   {"tensor", Align::left},
                   {"count", Align::right},
                   {"value", Align::right},
                   {"equation", Align::left},
                   {"formula and numbers", Align::left},
                   {"source", Align::left}};
  for (const Term& term : explanation.terms) {
    if (term.quantity != quantity) {
      continue;
    }
    const std::string operation = term.collective.empty()
                                      ? std::string(term.operation)
                                      : fmt::format("{}: {}", term.collective, term.operation);
    table.add({term.phase.empty() ? "-" : std::string(term.phase),
               std::string(term.component),
               operation.empty() ? "-" : operation,
               term.tensor,
               std::to_string(term.count),
               value_text(term),
               std::string(term.equation),
               formula_text(term),
               term.nccl_choice.empty() ? std::string(term.source)
                                        : fmt::format("{}; {}", term.source, term.nccl_choice)});
  }
  return table;
}

Table memory_table(const Explanation& explanation) {
  Table table;
  table.columns = {{"bytes", Align::right},
                   {"item", Align::left},
                   {"tensor", Align::left},
                   {"shape", Align::left},
                   {"numbers", Align::left},
                   {"type", Align::left},
                   {"instances", Align::right}};
  for (const ledger::MemoryEntry& entry : explanation.memory) {
    table.add({human(entry.bytes),
               std::string(name(entry.item)),
               std::string(entry.tensor),
               entry.shape_symbols,
               entry.shape_numbers,
               name(entry.type),
               std::to_string(entry.instances)});
  }
  return table;
}

Table shapes_table(const Explanation& explanation) {
  Table table;
  table.columns = {{"operation", Align::left},
                   {"tensor", Align::left},
                   {"shape", Align::left},
                   {"numbers", Align::left}};
  for (const ledger::ShapeStep& step : explanation.shapes) {
    table.add({step.collective.empty() ? std::string(step.operation)
                                       : fmt::format("{}: {}", step.collective, step.operation),
               step.tensor,
               step.symbols,
               step.numbers});
  }
  return table;
}

/// "3", "0-7", "0,4".
std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += text.empty() ? "" : ",";
    text += first == last ? std::to_string(ranks[first])
                          : fmt::format("{}-{}", ranks[first], ranks[last]);
    first = last + 1;
  }
  return text.empty() ? "." : text;
}

Table owner_table(const OwnerGrid& grid) {
  Table table;
  table.columns.push_back({fmt::format("token \\ {}", grid.columns), Align::right});
  for (std::size_t column = 0; column < grid.owners.front().size(); ++column) {
    table.columns.push_back({std::to_string(column), Align::right});
  }
  for (std::size_t token = 0; token < grid.owners.size(); ++token) {
    std::vector<std::string> cells = {std::to_string(token)};
    for (const std::vector<std::int64_t>& ranks : grid.owners[token]) {
      cells.push_back(ranks_text(ranks));
    }
    table.add(std::move(cells));
  }
  return table;
}

/// Which collectives fill the streams, and for which of them computing waits.
Table collectives_table(const ledger::TimeLedger& time) {
  Table table;
  table.columns = {{"collective", Align::left},
                   {"in flight", Align::right},
                   {"computing waits", Align::right},
                   {"of the step", Align::right}};
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    if (time.busy_by_collective[i] > Seconds(0)) {
      table.add({std::string(kCollectiveNames[i]),
                 human(time.busy_by_collective[i]),
                 human(time.exposed_by_collective[i]),
                 percent(ratio(time.exposed_by_collective[i], time.step))});
    }
  }
  return table;
}

/// Where the step's time goes, by the event engine.
std::string step_text(const Explanation& explanation, bool color) {
  std::string text;
  const ledger::TimeLedger& time = explanation.result.numbers->step->time;
  const Table collectives = collectives_table(time);
  if (!collectives.rows.empty()) {
    text += fmt::format("\nCommunication in the step, by the event engine\n\n{}",
                        to_terminal(collectives, color));
  }
  if (explanation.critical_path) {
    text += "\nWhat would shorten the step: its critical path\n\n";
    for (const std::string& sentence : critical_sentences(*explanation.critical_path)) {
      text += sentence + '\n';
    }
  }
  return text;
}

std::string grid_text(std::string_view when, const OwnerGrid& grid, bool color) {
  return fmt::format("{}: {} {}{}\n{}\n",
                     when,
                     grid.tensor,
                     grid.symbols,
                     grid.partial ? ", each rank holds a part of the sum" : "",
                     to_terminal(owner_table(grid), color));
}

}  // namespace

std::string to_terminal(const Explanation& explanation, bool color) {
  std::string text = to_terminal(results_table({explanation.result}), color);
  for (const std::string& said : what_if_sentences({explanation.result})) {
    text += said + '\n';
  }
  if (!explanation.result.numbers) {
    return text;
  }
  constexpr std::array<std::pair<TermQuantity, std::string_view>, 5> kSections = {
      {{TermQuantity::sent_bytes, "Bytes that the rank sends in a step, over all executions"},
       {TermQuantity::tensor_bytes, "Bytes of one instance of each tensor on a rank"},
       {TermQuantity::host_copied_bytes, "Bytes copied between a rank's GPU and its host"},
       {TermQuantity::flops, "Operations that the rank executes in a step, over all executions"},
       {TermQuantity::seconds, "Device seconds of the rank in a step, over all executions"}}};
  for (const auto& [quantity, title] : kSections) {
    const Table table = terms_table(explanation, quantity);
    if (!table.rows.empty()) {
      text += fmt::format("\n{}\n\n{}", title, to_terminal(table, color));
    }
  }
  if (explanation.result.numbers->step) {
    text += step_text(explanation, color);
  }
  text += fmt::format("\nMemory at the worst instant: {}\n\n{}",
                      explanation.result.numbers->memory.instant,
                      to_terminal(memory_table(explanation), color));
  text += fmt::format("\nShapes of the attention block, forward\n\n{}",
                      to_terminal(shapes_table(explanation), color));
  if (!explanation.owners.empty()) {
    text +=
        fmt::format("\nWhich of {} ranks holds what, on a small shape\n", explanation.owner_ranks);
  }
  for (const ledger::OwnerChange& change : explanation.owners) {
    text += fmt::format("\n{}: {}\n\n", change.collective, change.operation);
    text += grid_text("before", change.before, color);
    text += grid_text("after", change.after, color);
  }
  return text;
}

}  // namespace trireme::report
