#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/report/table.h"
#include "sim/report/validation.h"
#include "sim/units/text.h"

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

/// What is predicted in the unit that the source prints, where that is a number with a unit: a case
/// may expect another quantity of the same size, such as a share of the peak for TFLOP/s.
std::string predicted_as_printed(const ValidationRow& row) {
  const std::string& printed = row.stated.printed;
  const std::size_t unit = std::min(printed.find_first_not_of("0123456789."), printed.size());
  const bool is_amount =
      unit > 0 && printed.find_first_of("0123456789+", unit) == std::string::npos;
  if (!row.predicted || !is_amount || row.stated.expected.value == 0) {
    return predicted_text(row);
  }
  const double size = parse_number(printed.substr(0, unit)) / row.stated.expected.value;
  return fmt::format("{:.4g}{}", *row.predicted * size, printed.substr(unit));
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
    if (row->stated.role == role && !row->stated.of_table) {
      table.add({cell(row->stated.id),
                 cell(row->stated.fact),
                 cell(row->stated.printed),
                 cell(predicted_as_printed(*row)),
                 error_text(*row),
                 tolerance_text(*row),
                 verdict_text(*row)});
    }
  }
  return table.rows.empty() ? std::string() : to_markdown(table);
}

/// Errors of the runs of one case file that time a step.
struct RunErrors {
  std::string file;
  std::vector<double> errors;  // signed, of predicted over measured seconds
  std::vector<double> peers;   // of the peer's, for the same runs
  std::string peer;
};

std::vector<RunErrors> run_errors(const ValidationResult& result, Role role) {
  std::vector<RunErrors> files;
  for (const ValidationRow& row : result.rows) {
    if (row.stated.role != role || !row.slower_than_predicted) {
      continue;
    }
    const std::string file = row.stated.id.substr(0, row.stated.id.find('/'));
    if (files.empty() || files.back().file != file) {
      files.push_back({file, {}, {}, row.stated.peer_name});
    }
    files.back().errors.push_back(1 / *row.slower_than_predicted - 1);
    if (row.stated.peer) {
      files.back().peers.push_back(*row.stated.peer / row.stated.expected.value - 1);
    }
  }
  return files;
}

/// Errors of the bytes of memory in one case file's tables, of one role.
std::vector<RunErrors> memory_errors(const ValidationResult& result, Role role) {
  std::vector<RunErrors> files;
  for (const ValidationRow& row : result.rows) {
    if (row.stated.role != role || !row.stated.of_table || !row.predicted ||
        row.stated.dimension != ledger::Dimension::bytes) {
      continue;
    }
    const std::string file = row.stated.id.substr(0, row.stated.id.find('/'));
    if (files.empty() || files.back().file != file) {
      files.push_back({file, {}, {}, {}});
    }
    files.back().errors.push_back(row.error);
  }
  return files;
}

double mean_size(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) {
    sum += std::abs(error);
  }
  return sum / static_cast<double>(errors.size());
}

/// The lower of the two middle ones.
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

/// Step times, a row per case file; empty when no run has the role.
std::string run_table(const ValidationResult& result, Role role) {
  Table table;
  table.columns = {{"runs", Align::left},
                   {"number", Align::right},
                   {"mean size of error", Align::right},
                   {"median size", Align::right},
                   {"median, signed", Align::right},
                   {"peer's mean size", Align::right}};
  for (const RunErrors& runs : run_errors(result, role)) {
    std::vector<double> sizes;
    for (const double error : runs.errors) {
      sizes.push_back(std::abs(error));
    }
    table.add({runs.file,
               std::to_string(runs.errors.size()),
               fmt::format("{:.1f} %", 100 * mean_size(runs.errors)),
               fmt::format("{:.1f} %", 100 * median(sizes)),
               fmt::format("{:+.1f} %", 100 * median(runs.errors)),
               runs.peers.empty()
                   ? ""
                   : fmt::format("{:.1f} % ({})", 100 * mean_size(runs.peers), runs.peer)});
  }
  return table.rows.empty() ? std::string() : to_markdown(table);
}

/// Memory of runs that stand in tables, a row per case file and role.
std::string memory_table(const ValidationResult& result) {
  Table table;
  table.columns = {{"runs", Align::left},
                   {"role", Align::left},
                   {"number", Align::right},
                   {"mean size of error", Align::right},
                   {"median size", Align::right},
                   {"median, signed", Align::right}};
  for (const Role role : {Role::judged, Role::fitted}) {
    for (const RunErrors& runs : memory_errors(result, role)) {
      std::vector<double> sizes;
      for (const double error : runs.errors) {
        sizes.push_back(std::abs(error));
      }
      table.add({runs.file,
                 std::string(ledger::kRoleNames[static_cast<std::size_t>(role)]),
                 std::to_string(runs.errors.size()),
                 fmt::format("{:.1f} %", 100 * mean_size(runs.errors)),
                 fmt::format("{:.1f} %", 100 * median(sizes)),
                 fmt::format("{:+.1f} %", 100 * median(runs.errors))});
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
  text +=
      "\n## Step times by source\n\nErrors of predicted over measured seconds of the judged runs, "
      "and what a published predictor says of\nthe same runs. Prediction bands that commands print "
      "come from these runs, by kind "
      "(`topologies/accuracy/public.yaml`,\nwhich is `trireme validate --bands`).\n\n";
  text += run_table(result, Role::judged);
  text +=
      "\n## Memory by source\n\nErrors of predicted over reported bytes, of runs that stand in "
      "tables; how many of the failed runs are\nforeseen, and how many of those that worked are "
      "called too large, are sets below.\n\n";
  text += memory_table(result);
  text +=
      "\n## Judged\n\nNo value of these cases went into a profile or a framework's overheads. "
      "Worst first.\n\n";
  text += case_table(result, Role::judged);
  text += "\n## Known deviations and their causes\n\n" + deviations(result);
  const std::string fitted = case_table(result, Role::fitted);
  const std::string reported = case_table(result, Role::reported);
  if (!reported.empty()) {
    text +=
        "\n## Reported\n\nRuns that their own source contradicts: equal layouts of it differ by "
        "several times. No band comes from them.\n\n";
    text += run_table(result, Role::reported) + "\n" + reported;
  }
  text += "\n## Fitted\n\n";
  text +=
      "Profiles were fitted on kernels and collectives alone (`docs/profiles.md`). These runs gave "
      "the overheads of\nframeworks (`topologies/overheads/public.yaml`), and are no evidence of "
      "accuracy.\n\n";
  text += run_table(result, Role::fitted) + (fitted.empty() ? "" : "\n") + fitted;
  text +=
      "\n## Sources, tolerances and assumptions\n\nOf the cases that are not exact; those are "
      "integers of the ideal algorithms. Runs of a set have its bound; their files state where "
      "they stand.\n\n";
  for (const ValidationRow& row : result.rows) {
    if (!row.stated.expected.exact() && !row.stated.expected.with_its_set()) {
      text += details(row);
    }
  }
  return text;
}

std::string accuracy_bands(const ValidationResult& result,
                           const std::string& longest,
                           std::span<const std::string_view> kinds) {
  std::string text = fmt::format(
      "# Written by `trireme validate --bands`: what the judged runs of tests/validation/cases say "
      "about a prediction.\n"
      "# Eight of ten runs of a kind took between low and high of what was predicted.\n"
      "version: 1\n"
      "longest_measured: {}  # sequence of the attention kernels behind the profiles\n"
      "bands:\n",
      longest);
  for (const std::string_view kind : kinds) {
    std::vector<double> ratios;
    std::vector<double> sizes;
    for (const ValidationRow& row : result.rows) {
      if (row.stated.role == Role::judged && row.slower_than_predicted && row.kind == kind) {
        ratios.push_back(*row.slower_than_predicted);
        sizes.push_back(std::abs(1 / *row.slower_than_predicted - 1));
      }
    }
    if (ratios.empty()) {
      continue;
    }
    std::sort(ratios.begin(), ratios.end());
    const std::size_t tenth = ratios.size() / 10;
    text += fmt::format(
        "  - {{kind: \"{}\", runs: {}, low: {:.3f}, high: {:.3f}, median_error: {:.3f}}}\n",
        kind,
        ratios.size(),
        ratios[tenth],
        ratios[ratios.size() - 1 - tenth],
        median(sizes));
  }
  return text;
}

}  // namespace trireme::report
