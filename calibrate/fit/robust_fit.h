// Non-negative, robust least squares on relative residuals, with held-out errors and intervals.
//
// The seconds of a form are piecewise linear in its coefficients (times, and inverses of rates).
// They are asked of the cost formulas themselves, here and in every derivative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

/// Relative residual at which a row begins to count less, and beyond three times of which it is
/// called an outlier. Source: fit_forms, "re-weighted 8 times with a soft-L1 scale of 10 %".
inline constexpr double kRobustScale = 0.1;

/// A model of seconds whose coefficients are not negative.
struct Form {
  /// A first guess, each above zero: it sets the scale of each coefficient, not the result.
  std::vector<double> start;
  /// Puts coefficients into the costs that predict() reads.
  std::function<void(std::span<const double> coefficients, cost::MachineCosts& machine)> apply;
};

/// Rows of measurements, one entry each.
struct Samples {
  std::vector<Point> points;
  std::vector<double> seconds;
  std::vector<double> weights;  // less for a larger spread; 1 for none
  std::vector<double> groups;   // rows of one number are held out together
  std::vector<double> extents;  // what a form would be extrapolated in: bytes, work, ...
  std::vector<std::int64_t> repeats;

  [[nodiscard]] std::size_t size() const { return points.size(); }

  /// Appends a row; `group` is any number that rows to be held out together share.
  void add(const Measurement& measurement, double group, double extent);
};

/// The rest of the machine while one form is fitted.
struct Surroundings {
  cost::MachineCosts machine;
  BytesPerSecond nic_rate;
};

/// Least coefficients' worth of rows that a fit accepts.
inline constexpr std::size_t kRowsPerCoefficient = 2;

/// The coefficients that explain the chosen rows.
///
/// Source: fit_forms, "Errors"; gauss-newton steps, each a non-negative problem (bro1997)
[[nodiscard]] std::vector<double> robust_fit(const Form& form,
                                             const Surroundings& surroundings,
                                             const Samples& samples,
                                             std::span<const std::size_t> rows);

/// The same of all rows.
[[nodiscard]] std::vector<double> robust_fit(const Form& form,
                                             const Surroundings& surroundings,
                                             const Samples& samples);

/// Changes the costs that were fitted on `rows` before they predict others, such as by a table of
/// residuals.
using Refine = std::function<void(std::span<const std::size_t> rows, cost::MachineCosts& machine)>;

struct HeldOut {
  std::vector<double> seconds;     // predicted by a fit without the row's group
  std::vector<bool> extrapolated;  // the row's extent lies outside those that were fitted
  std::vector<double> refined;     // the same with `refine`; empty without it
};

/// Predicts each row from other groups than its own: five folds of whole groups, or each group
/// alone when there are fewer.
[[nodiscard]] HeldOut hold_out(const Form& form,
                               const Surroundings& surroundings,
                               const Samples& samples,
                               const Refine& refine = nullptr);

/// Coefficients of `count` resamplings, for intervals: the wild bootstrap. Each time the residuals
/// of whole groups change their signs at random. A residual counts for more, the more its own row
/// has drawn the fit towards itself; and all by the root of G / (G - k), of G groups and k
/// coefficients.
///
/// Source: davidson2008-wild (residuals over 1 - leverage, signs); cameron2008 (groups)
[[nodiscard]] std::vector<std::vector<double>> bootstrap(const Form& form,
                                                         const Surroundings& surroundings,
                                                         const Samples& samples,
                                                         std::span<const double> coefficients,
                                                         std::uint64_t seed,
                                                         std::size_t count);

/// Intervals hold the middle 98 % of what resampling gives. Of known coefficients under noise they
/// hold 19 of 20 (tests/property/calibrate_fit_test.cpp), as resampling sees too little of the
/// spread of few rows.
inline constexpr double kLowDraw = 0.01;
inline constexpr double kHighDraw = 0.99;

/// The value below which `share` of the values lie, between neighbours by line. `values` is not
/// empty.
[[nodiscard]] double quantile(std::vector<double> values, double share);

/// Sum over rows of the soft-L1 loss of relative residuals: what robust_fit minimises.
[[nodiscard]] double robust_loss(std::span<const double> predicted, const Samples& samples);

}  // namespace trireme::calibrate
