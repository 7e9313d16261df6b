#include "sim/validation/validate.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/config/accuracy.h"
#include "sim/study/evaluate.h"
#include "sim/study/trends.h"

namespace trireme::validation {

using ledger::FactVerdict;
using ledger::Relation;
using ledger::ValidationRow;

namespace {

std::optional<double> value_of(const config::StudySpec& study,
                               const std::string& plan,
                               const ValidationCase& asked,
                               std::string& problem) {
  if (asked.quantity->of_memory != nullptr) {
    const auto value = asked.quantity->of_memory(study, study::find_plan(study, plan));
    if (!value) {
      problem = fmt::format("{} is illegal", plan);
    }
    return value;
  }
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
    const config::StudySpec study = study_at(file, asked, sequence, library);
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

/// What cannot be predicted is the worst.
double badness(const ValidationRow& row) {
  return row.predicted ? std::abs(row.error) : std::numeric_limits<double>::infinity();
}

/// Of a case that states how long a step takes, as such or as a rate.
std::optional<double> slower_than_predicted(const ValidationCase& asked, const ValidationRow& row) {
  const ledger::StatedFact& stated = row.stated;
  if (!row.predicted || asked.against != Against::nothing ||
      stated.expected.relation != Relation::equal) {
    return std::nullopt;
  }
  if (stated.quantity == "step_time") {
    return stated.expected.value / *row.predicted;
  }
  if (stated.quantity == "tokens_per_second_per_gpu" || stated.quantity == "mfu") {
    return *row.predicted / stated.expected.value;
  }
  return std::nullopt;
}

/// Of a set of runs: the file's own rows.
ValidationRow validate_set(const ValidationCase& asked, std::span<const ValidationRow> rows) {
  std::vector<const ValidationRow*> runs;
  for (const ValidationRow& row : rows) {
    if (row.stated.role == asked.stated.role) {
      runs.push_back(&row);
    }
  }
  ValidationRow row = judge(asked.stated, asked.quantity->of_set(runs));
  row.problem = row.predicted ? "" : "the file has no such runs";
  return row;
}

ValidationRow validate_case(const CaseFile& file,
                            const ValidationCase& asked,
                            const config::Library& library) {
  std::string problem;
  if (asked.quantity->of_plan == nullptr && asked.quantity->of_memory == nullptr) {
    ValidationRow row = judge(asked.stated, predict_crossover(file, asked, library, problem));
    row.problem = problem;
    return row;
  }
  std::optional<ValidationRow> worst;
  for (const std::string& sequence : asked.sequences) {
    const config::StudySpec study = study_at(file, asked, sequence, library);
    ValidationRow row = judge(asked.stated, predict(study, asked, problem));
    row.problem = problem;
    row.kind = config::accuracy().kind_of(study.cluster.nodes.value, study.workload.sequence.value);
    row.slower_than_predicted = slower_than_predicted(asked, row);
    if (!worst || badness(row) > badness(*worst)) {
      worst = std::move(row);
    }
  }
  return *std::move(worst);
}

}  // namespace

ValidationRow judge(const ledger::StatedFact& stated, std::optional<double> predicted) {
  const ledger::Expectation& expected = stated.expected;
  ValidationRow row;
  row.stated = stated;
  row.predicted = predicted;
  bool within = false;
  if (predicted) {
    const double difference = *predicted - expected.value;
    within = expected.relation == Relation::at_least  ? difference >= 0
             : expected.relation == Relation::at_most ? difference <= 0
                                                      : std::abs(difference) <= expected.tolerance;
    const bool bound_kept = expected.relation != Relation::equal && within;
    row.error = bound_kept ? 0 : difference / expected.value;
  }
  if (stated.known_deviation) {
    row.verdict = within ? FactVerdict::stale_deviation : FactVerdict::known_deviation;
  } else {
    row.verdict = within ? FactVerdict::pass : FactVerdict::fail;
  }
  return row;
}

ledger::ValidationResult validate(std::span<const CaseFile> files, const config::Library& library) {
  ledger::ValidationResult result;
  for (const CaseFile& file : files) {
    std::vector<ValidationRow> rows;
    for (const ValidationCase& asked : file.cases) {
      if (asked.quantity->of_set == nullptr) {
        rows.push_back(validate_case(file, asked, library));
      }
    }
    const std::size_t runs = rows.size();
    for (const ValidationCase& asked : file.cases) {
      if (asked.quantity->of_set != nullptr) {
        rows.push_back(validate_set(asked, std::span<const ValidationRow>(rows).first(runs)));
      }
    }
    for (ValidationRow& row : rows) {
      result.rows.push_back(std::move(row));
    }
  }
  return result;
}

}  // namespace trireme::validation
