#include "calibrate/fit/law_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <Eigen/Dense>
#include <fmt/format.h>

#include "calibrate/fit/model_fit.h"
#include "calibrate/measurement/csv.h"
#include "sim/core/error.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

constexpr std::size_t kCoefficients = kLawNames.size();
/// A pivot below this share of the largest: the columns depend on each other.
constexpr double kDependent = 1e-10;

constexpr std::array<std::string_view, 4> kColumns = {
    "sequence_tokens", "peak_bytes", "sent_bytes", "step_seconds"};

[[noreturn]] void refuse(const SourceLocation& where, std::string message, std::string hint) {
  throw Error(ErrorKind::input, where, std::move(message), std::move(hint));
}

using Law = cost::StepLaw;

/// Sizes that charge nothing but one coefficient: the row of the design matrix is what a law of
/// ones gives, asked of the law's own function.
std::array<double, kCoefficients> design_row(const StepRow& row) {
  constexpr std::array<Seconds Law::*, kCoefficients> kMembers = {&Law::constant,
                                                                  &Law::per_peak_gibibyte,
                                                                  &Law::per_sent_gibibyte,
                                                                  &Law::per_kilotoken,
                                                                  &Law::per_kilotoken_squared};
  std::array<double, kCoefficients> values{};
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    Law law{};
    law.*kMembers.at(i) = Seconds(1);
    values.at(i) = cost::step_law_time(row.peak, row.sent, row.sequence, law).value();
  }
  return values;
}

std::string milliseconds(Seconds time) {
  return fmt::format("{:.6g} ms", 1e3 * time.value());
}

std::array<Seconds, kCoefficients> members_of(const Law& law) {
  return {law.constant,
          law.per_peak_gibibyte,
          law.per_sent_gibibyte,
          law.per_kilotoken,
          law.per_kilotoken_squared};
}

}  // namespace

std::vector<StepRow> read_step_rows(std::string_view text, const std::string& file) {
  std::vector<StepRow> rows;
  std::array<std::size_t, kColumns.size()> places{};
  std::size_t columns = 0;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    SourceLocation where{
        .file = file, .line = line_number, .column = 1, .source_line = printable(line)};
    if (line.empty() || line == "\r") {
      continue;
    }
    std::vector<CsvField> fields;
    try {
      fields = split_csv(line);
    } catch (const BadText& bad) {
      refuse(where, bad.what(), bad.hint());
    }
    if (columns == 0) {
      columns = fields.size();
      for (std::size_t i = 0; i < kColumns.size(); ++i) {
        const auto found = std::find_if(fields.begin(), fields.end(), [&](const CsvField& field) {
          return field.text == kColumns.at(i);
        });
        if (found == fields.end()) {
          refuse(where,
                 fmt::format("there is no column {}", kColumns.at(i)),
                 "the first line names the columns: sequence_tokens, peak_bytes, sent_bytes and "
                 "step_seconds");
        }
        places.at(i) = static_cast<std::size_t>(found - fields.begin());
      }
      continue;
    }
    if (fields.size() != columns) {
      refuse(where,
             fmt::format("the row has {} fields, the header {}", fields.size(), columns),
             "was the file cut?");
    }
    const auto number = [&](std::size_t column, double least) {
      const CsvField& field = fields[places.at(column)];
      where.column = field.column;
      try {
        const double value = parse_non_negative_number(field.text);
        constexpr double kMost = 1e15;
        if (value < least || value > kMost) {
          throw BadText(in_quotes(field.text) + " is out of range", "");
        }
        return value;
      } catch (const BadText& bad) {
        refuse(where, fmt::format("{}: {}", kColumns.at(column), bad.what()), bad.hint());
      }
    };
    rows.push_back({Tokens(static_cast<std::int64_t>(number(0, 1))),
                    Bytes(static_cast<std::int64_t>(number(1, 0))),
                    Bytes(static_cast<std::int64_t>(number(2, 0))),
                    Seconds(number(3, 1e-9))});
  }
  return rows;
}

LawFit fit_law(const std::vector<StepRow>& rows) {
  const SourceLocation where{.file = "fit --law"};
  if (rows.size() <= kCoefficients) {
    refuse(
        where,
        fmt::format("{} rows cannot tell {} coefficients and an error", rows.size(), kCoefficients),
        fmt::format("measure at least {} steps", kCoefficients + 1));
  }
  const auto count = static_cast<Eigen::Index>(rows.size());
  const auto size = static_cast<Eigen::Index>(kCoefficients);
  Eigen::MatrixXd design(count, size);
  Eigen::VectorXd seconds(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const StepRow& row = rows[static_cast<std::size_t>(i)];
    const auto values = design_row(row);
    for (Eigen::Index j = 0; j < size; ++j) {
      design(i, j) = values.at(static_cast<std::size_t>(j));
    }
    seconds[i] = row.step.value();
  }
  const Eigen::VectorXd lengths = design.colwise().norm();
  if (lengths.minCoeff() <= 0) {
    refuse(where, "a size is zero in every row: its coefficient cannot be told", "add other rows");
  }
  const Eigen::MatrixXd scaled = design * lengths.cwiseInverse().asDiagonal();
  const Eigen::BDCSVD<Eigen::MatrixXd> svd(scaled, Eigen::ComputeThinU | Eigen::ComputeThinV);
  const Eigen::VectorXd singular = svd.singularValues();
  if (singular[size - 1] <= kDependent * singular[0]) {
    refuse(where,
           "the sizes of the rows depend on each other exactly: their coefficients cannot be told "
           "apart",
           "measure other lengths, plans or ranks");
  }
  const Eigen::VectorXd found = svd.solve(seconds).cwiseQuotient(lengths);
  const Eigen::VectorXd residual = seconds - design * found;
  const double mean = seconds.mean();
  const double variation = (seconds.array() - mean).square().sum();
  const double unexplained = residual.squaredNorm();
  const double variance = unexplained / static_cast<double>(rows.size() - kCoefficients);
  const Eigen::MatrixXd inverse =
      svd.matrixV() * singular.cwiseInverse().cwiseAbs2().asDiagonal() * svd.matrixV().transpose();

  LawFit fit;
  fit.law = {Seconds(found[0]),
             Seconds(found[1]),
             Seconds(found[2]),
             Seconds(found[3]),
             Seconds(found[4])};
  for (Eigen::Index j = 0; j < size; ++j) {
    fit.standard_errors.at(static_cast<std::size_t>(j)) =
        Seconds(std::sqrt(variance * inverse(j, j)) / lengths[j]);
  }
  fit.rows = rows.size();
  fit.r_squared = variation > 0 ? 1 - unexplained / variation : 0;
  fit.mean_absolute_error = Seconds(residual.cwiseAbs().mean());
  fit.condition_number = singular[0] / singular[size - 1];
  return fit;
}

std::string law_yaml(const LawFit& fit, const std::string& source) {
  std::string text = fmt::format(
      "# Fitted by trireme calibrate fit --law to {} steps: R^2 {:.6f}, mean absolute error {},\n"
      "# condition number {:.0f}. Spreads are two standard errors to each side.\n",
      fit.rows,
      fit.r_squared,
      milliseconds(fit.mean_absolute_error),
      fit.condition_number);
  if (fit.collinear()) {
    text += "# The sizes of the steps grow together: no coefficient stands for one cause.\n";
  }
  text += "version: 1\nstep_law:\n";
  const auto values = members_of(fit.law);
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    const Seconds margin = 2 * fit.standard_errors.at(i);
    text += fmt::format("  {}: {{value: {}, spread: [{}, {}], samples: {}, source: {}}}\n",
                        kLawNames.at(i),
                        milliseconds(values.at(i)),
                        milliseconds(values.at(i) - margin),
                        milliseconds(values.at(i) + margin),
                        fit.rows,
                        quoted(source));
  }
  return text;
}

std::string law_text(const LawFit& fit) {
  std::string text = fmt::format("law of {} steps\n", fit.rows);
  const auto values = members_of(fit.law);
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    text += fmt::format("  {:<22} {:>14}  standard error {}\n",
                        kLawNames.at(i),
                        milliseconds(values.at(i)),
                        milliseconds(fit.standard_errors.at(i)));
  }
  text += fmt::format("  R^2 {:.6f}, mean absolute error {}, condition number {:.0f}\n",
                      fit.r_squared,
                      milliseconds(fit.mean_absolute_error),
                      fit.condition_number);
  return text;
}

}  // namespace trireme::calibrate
