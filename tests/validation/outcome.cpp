#include "tests/validation/outcome.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/report/table.h"
#include "sim/study/evaluate.h"
#include "sim/study/trends.h"
#include "sim/units/text.h"

namespace trireme::validation {
namespace {

// --- predictions ---

std::optional<double> value_of(const config::StudySpec& study,
                               const std::string& plan,
                               const ValidationCase& asked,
                               std::string& problem) {
  const PlanLedgers ledgers = read_ledgers(study, study::find_plan(study, plan));
  if (!ledgers.result.numbers) {
    problem = fmt::format("{} is illegal: {}", plan, ledgers.result.reasons.front());
    return std::nullopt;
  }
  const std::optional<double> value = asked.quantity->of_plan(ledgers, asked.selection);
  if (!value) {
    const std::vector<std::string>& reasons = ledgers.result.reasons;
    problem =
        fmt::format("{}: {}", plan, reasons.empty() ? "the quantity is not known" : reasons.back());
  }
  return value;
}

std::optional<double> predict(const config::StudySpec& study,
                              const ValidationCase& asked,
                              std::string& problem) {
  const std::optional<double> value = value_of(study, asked.plan, asked, problem);
  if (!value || asked.against == Against::nothing) {
    return value;
  }
  const std::optional<double> other = value_of(study, asked.other_plan, asked, problem);
  if (!other) {
    return std::nullopt;
  }
  switch (asked.against) {
    case Against::ratio:
      return *value / *other;
    case Against::difference:
      return *value - *other;
    case Against::saving:
      return 1 - *value / *other;
    case Against::nothing:
      break;
  }
  return value;
}

std::optional<double> predict_crossover(const CaseFile& file,
                                        const ValidationCase& asked,
                                        const config::Library& library,
                                        std::string& problem) {
  std::vector<ledger::PlanResult> rows;
  for (const std::string& sequence : asked.sequences) {
    const config::StudySpec study = study_at(file, sequence, library);
    rows.push_back(study::evaluate(study, study::find_plan(study, asked.plan)));
    rows.push_back(study::evaluate(study, study::find_plan(study, asked.other_plan)));
  }
  const std::vector<ledger::Crossover> crossings = study::find_crossovers(rows);
  if (crossings.size() != 1) {
    problem = crossings.empty() ? "the order never changes"
                                : fmt::format("the order changes {} times", crossings.size());
    return std::nullopt;
  }
  if (crossings.front().above != asked.plan) {
    problem = fmt::format("{} is the faster one before the crossing", asked.plan);
    return std::nullopt;
  }
  return crossings.front().at;
}

// --- texts ---

bool is_exact(const ValidationCase& asked) {
  return asked.expected.bound == Bound::value && asked.expected.tolerance == 0;
}

/// Exact bytes have up to 8 digits, everything else 4.
std::string amount_text(const ValidationCase& asked, double value) {
  constexpr double kMebi = 1024.0 * 1024.0;
  switch (asked.dimension()) {
    case Dimension::bytes: {
      const int digits = is_exact(asked) ? 8 : 4;
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

std::string predicted_text(const Outcome& outcome) {
  return outcome.predicted ? amount_text(*outcome.asked, *outcome.predicted) : outcome.problem;
}

std::string expected_text(const ValidationCase& asked) {
  std::string value = amount_text(asked, asked.expected.value);
  switch (asked.expected.bound) {
    case Bound::value:
      return value;
    case Bound::at_least:
      return "at least " + value;
    case Bound::at_most:
      return "at most " + value;
  }
  throw std::logic_error("expected_text: an unknown bound");
}

std::string tolerance_text(const ValidationCase& asked) {
  if (asked.expected.bound != Bound::value) {
    return "a bound";
  }
  return is_exact(asked) ? "exact" : "± " + asked.expected.tolerance_text;
}

std::string error_text(const Outcome& outcome) {
  if (!outcome.predicted) {
    return "none";
  }
  // A rounding error is none.
  return std::abs(outcome.error) < 5e-6 ? "0 %" : fmt::format("{:+.2f} %", 100 * outcome.error);
}

std::string_view verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "FAIL";
    case Verdict::known_deviation:
      return "known deviation";
    case Verdict::stale_deviation:
      return "FAIL: passes, so it is no deviation any more";
  }
  throw std::logic_error("verdict_text: an unknown verdict");
}

/// What cannot be predicted is the worst.
double badness(const Outcome& outcome) {
  return outcome.predicted ? std::abs(outcome.error) : std::numeric_limits<double>::infinity();
}

std::vector<Outcome> worst_first(std::span<const Outcome> outcomes) {
  std::vector<Outcome> sorted(outcomes.begin(), outcomes.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const Outcome& a, const Outcome& b) {
    return badness(a) > badness(b);
  });
  return sorted;
}

std::vector<Outcome> with_role(std::span<const Outcome> outcomes, Role role) {
  std::vector<Outcome> chosen;
  std::copy_if(outcomes.begin(), outcomes.end(), std::back_inserter(chosen), [&](const auto& one) {
    return one.asked->role == role;
  });
  return chosen;
}

/// The lower of the two middle ones for an even number.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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

std::string case_table(std::span<const Outcome> outcomes) {
  report::Table table;
  table.columns = {{"case", report::Align::left},
                   {"fact", report::Align::left},
                   {"printed", report::Align::right},
                   {"predicted", report::Align::right},
                   {"error", report::Align::right},
                   {"tolerance", report::Align::right},
                   {"verdict", report::Align::left}};
  for (const Outcome& outcome : worst_first(outcomes)) {
    table.add({cell(outcome.id),
               cell(outcome.asked->fact),
               cell(outcome.asked->printed),
               cell(predicted_text(outcome)),
               error_text(outcome),
               tolerance_text(*outcome.asked),
               std::string(verdict_text(outcome.verdict))});
  }
  return report::to_markdown(table);
}

std::string case_details(const Outcome& outcome) {
  const ValidationCase& asked = *outcome.asked;
  std::string text = fmt::format("- **{}**: `{}`, {}. Expected {}, {}: {}.",
                                 outcome.id,
                                 outcome.source,
                                 asked.where,
                                 expected_text(asked),
                                 tolerance_text(asked),
                                 asked.reason);
  if (!asked.assumptions.empty()) {
    text += fmt::format(" Assumed: {}.", fmt::join(asked.assumptions, "; "));
  }
  return text + "\n";
}

}  // namespace

Outcome judge(const ValidationCase& asked, std::optional<double> predicted) {
  const Expectation& expected = asked.expected;
  Outcome outcome;
  outcome.asked = &asked;
  outcome.predicted = predicted;
  bool within = false;
  if (predicted) {
    const double difference = *predicted - expected.value;
    within = expected.bound == Bound::at_least  ? difference >= 0
             : expected.bound == Bound::at_most ? difference <= 0
                                                : std::abs(difference) <= expected.tolerance;
    const bool bound_kept = expected.bound != Bound::value && within;
    outcome.error = bound_kept ? 0 : difference / expected.value;
  }
  if (asked.known_deviation) {
    outcome.verdict = within ? Verdict::stale_deviation : Verdict::known_deviation;
  } else {
    outcome.verdict = within ? Verdict::pass : Verdict::fail;
  }
  return outcome;
}

std::vector<Outcome> evaluate_cases(const CaseFile& file, const config::Library& library) {
  std::vector<Outcome> outcomes;
  for (const ValidationCase& asked : file.cases) {
    std::optional<Outcome> worst;
    const auto keep = [&](std::optional<double> predicted, std::string problem) {
      Outcome outcome = judge(asked, predicted);
      outcome.problem = std::move(problem);
      if (!worst || badness(outcome) > badness(*worst)) {
        worst = std::move(outcome);
      }
    };
    std::string problem;
    if (asked.quantity->of_plan == nullptr) {
      const std::optional<double> at = predict_crossover(file, asked, library, problem);
      keep(at, problem);
    } else {
      for (const std::string& sequence : asked.sequences) {
        const std::optional<double> predicted =
            predict(study_at(file, sequence, library), asked, problem);
        keep(predicted, problem);
      }
    }
    worst->id = fmt::format("{}/{}", file.name, asked.name);
    worst->source = file.source;
    outcomes.push_back(*std::move(worst));
  }
  return outcomes;
}

std::string outcome_table(std::span<const Outcome> outcomes) {
  report::Table table;
  table.columns = {{"case", report::Align::left},
                   {"predicted", report::Align::right},
                   {"expected", report::Align::right},
                   {"error", report::Align::right},
                   {"verdict", report::Align::left}};
  for (const Outcome& outcome : worst_first(outcomes)) {
    table.add({outcome.id,
               predicted_text(outcome),
               expected_text(*outcome.asked),
               error_text(outcome),
               std::string(verdict_text(outcome.verdict))});
  }
  return report::to_terminal(table, false);
}

std::string accuracy_summary(std::span<const Outcome> outcomes) {
  const std::vector<Outcome> judged = with_role(outcomes, Role::judged);
  report::Table table;
  table.columns = {{"judged cases", report::Align::left},
                   {"cases", report::Align::right},
                   {"within tolerance", report::Align::right},
                   {"known deviations", report::Align::right},
                   {"median error", report::Align::right},
                   {"largest error", report::Align::right}};
  for (std::size_t topic = 0; topic < kTopicNames.size(); ++topic) {
    std::vector<Outcome> of_topic;
    std::copy_if(judged.begin(), judged.end(), std::back_inserter(of_topic), [&](const auto& one) {
      return one.asked->quantity->topic == static_cast<Topic>(topic);
    });
    if (of_topic.empty()) {
      continue;
    }
    std::vector<double> errors;
    std::optional<Outcome> largest;
    for (const Outcome& outcome : of_topic) {
      if (outcome.predicted) {
        errors.push_back(std::abs(outcome.error));
        if (!largest || std::abs(outcome.error) > std::abs(largest->error)) {
          largest = outcome;
        }
      }
    }
    const auto passed = std::count_if(of_topic.begin(), of_topic.end(), [](const auto& one) {
      return one.verdict == Verdict::pass;
    });
    const auto known = std::count_if(of_topic.begin(), of_topic.end(), [](const auto& one) {
      return one.verdict == Verdict::known_deviation;
    });
    table.add({std::string(kTopicNames[topic]),
               std::to_string(of_topic.size()),
               std::to_string(passed),
               std::to_string(known),
               errors.empty() ? "none" : fmt::format("{:.2f} %", 100 * median(errors)),
               largest ? error_text(*largest) : "none"});
  }
  return report::to_markdown(table);
}

std::string accuracy_page(std::span<const Outcome> outcomes) {
  const std::vector<Outcome> judged = with_role(outcomes, Role::judged);
  const std::vector<Outcome> fitted = with_role(outcomes, Role::fitted);
  std::string text =
      "# Accuracy\n\n"
      "Predictions against published and measured facts: what `tests/validation` computes, written "
      "by\n`cmake --build --preset dev --target update_goldens`. Each case has a file below "
      "`tests/validation/cases/`;\n`docs/adding.md` says how to add one. An error is relative to "
      "what is expected; that of a bound which is kept is 0.\n\n";
  text += accuracy_summary(outcomes);
  text +=
      "\nErrors of known deviations are counted. A known deviation fails the run as soon as its "
      "case "
      "passes, so that\nnone outlives its cause.\n";
  text += "\n## Judged\n\nNo value of these cases went into a profile. Worst first.\n\n";
  text += case_table(judged);
  text += "\n## Known deviations and their causes\n\n";
  bool any_known = false;
  for (const Outcome& outcome : worst_first(outcomes)) {
    if (outcome.asked->known_deviation) {
      any_known = true;
      text += fmt::format(
          "- **{}** ({}): {}.\n", outcome.id, error_text(outcome), *outcome.asked->known_deviation);
    }
  }
  text += any_known ? "" : "None.\n";
  text += "\n## Fitted\n\n";
  text += fitted.empty()
              ? "No case uses a value that went into a profile: the profiles were fitted "
                "on other measurements\n(`docs/bibliography.md`, `fit_forms`).\n"
              : case_table(fitted);
  text +=
      "\n## Sources, tolerances and assumptions\n\nOf the cases that are not exact; those are "
      "integers of the ideal algorithms.\n\n";
  for (const Outcome& outcome : outcomes) {
    if (!is_exact(*outcome.asked)) {
      text += case_details(outcome);
    }
  }
  return text;
}

}  // namespace trireme::validation
