// The law of step times: a regression over measured steps.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/step_law.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

/// A measured step.
struct StepRow {
  Tokens sequence;
  Bytes peak;  // allocated, of one rank
  Bytes sent;  // of one rank
  Seconds step;
};

/// Reads measured steps from CSV text: a header with the columns sequence_tokens, peak_bytes,
/// sent_bytes and step_seconds, among others, then a row a step. Throws Error (input) with line and
/// column for a missing column, a field that is no number and a line of another length.
[[nodiscard]] std::vector<StepRow> read_step_rows(std::string_view text, const std::string& file);

/// A regression's coefficients are named as in cost::StepLaw.
inline constexpr std::array<std::string_view, 5> kLawNames = {
    "constant", "per_peak_gibibyte", "per_sent_gibibyte", "per_kilotoken", "per_kilotoken_squared"};

struct LawFit {
  cost::StepLaw law;
  std::array<Seconds, kLawNames.size()> standard_errors;
  std::size_t rows = 0;
  double r_squared = 0;
  Seconds mean_absolute_error;
  /// Largest over smallest singular value of the columns, each of length 1.
  double condition_number = 0;

  /// Whether the columns are so nearly dependent that single coefficients mean little.
  /// Source: belsley1980, chapter 3: from 30 on
  [[nodiscard]] bool collinear() const { return condition_number > kMostCondition; }

  static constexpr double kMostCondition = 30;
};

/// Least squares of the rows' seconds on a constant, peak memory, bytes sent, tokens and their
/// square. Throws Error (input) for fewer rows than six, and for columns that depend on each other
/// exactly.
///
/// EQ step-law-regression: c = argmin over c of sum (t - X c)^2
///   t  measured seconds of the steps                                         [seconds]
///   X  a row (1, M, W, S, S^2) for each step, as in step-law                 [1]
///   c  the coefficients of step-law                                          [seconds]
/// Source: blog2026ulysses-megatron, the regression over all 36 runs
/// Valid:  as step-law
/// Tests:  tests/unit/calibrate/fit/law_fit_test.cpp
[[nodiscard]] LawFit fit_law(const std::vector<StepRow>& rows);

/// The law as a file that `compare --law` takes.
[[nodiscard]] std::string law_yaml(const LawFit& fit, const std::string& source);

/// Coefficients, fit and warnings, for people.
[[nodiscard]] std::string law_text(const LawFit& fit);

}  // namespace trireme::calibrate
