// What a fit found, in words and tables for people.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"

namespace trireme::calibrate {

/// Middle and 90th percentile of |predicted / measured - 1|, and the middle of the signed error.
struct ErrorSummary {
  std::size_t rows = 0;
  double median = 0;
  double high = 0;
  double bias = 0;
};

/// Of pairs of predicted and measured seconds; predictions that are not numbers are left out.
[[nodiscard]] ErrorSummary summarise(std::span<const std::pair<double, double>> pairs);

/// "2.7 / 9.5 % (+0.3) of 120 rows"
[[nodiscard]] std::string in_words(const ErrorSummary& summary);

/// Held-out errors of a model: inside the range that remains measured, beyond it, and inside with
/// tables of residuals.
struct HeldOutErrors {
  ErrorSummary inside;
  ErrorSummary beyond;
  ErrorSummary tabulated;
};

[[nodiscard]] HeldOutErrors held_out_errors(const ModelFit& model);

/// Rows whose residual is beyond three robust scales, the farthest first.
[[nodiscard]] std::vector<const PointFit*> outliers(const ModelFit& model);

/// Coefficients and errors of every model, fractions of line rates, outliers, contradictions.
[[nodiscard]] std::string report_text(const FitResult& result);

}  // namespace trireme::calibrate
