// One fitted form: its coefficients as a profile writes them, and how well it explains its rows.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "calibrate/fit/robust_fit.h"
#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

/// A coefficient as a profile writes it. `low` and `high` are empty when there is no interval.
struct Estimate {
  std::string key;
  std::string value;
  std::string low;
  std::string high;
  std::int64_t samples = 0;  // rows of measurements behind it
};

/// One row of measurements beside what is predicted for it.
struct PointFit {
  Point point;
  std::string curve;  // rows of one curve differ in their extent alone, or nearly
  double extent = 0;
  Seconds measured;
  Seconds fitted;    // by the closed form, of all rows
  Seconds held_out;  // by the closed form, without the row's group; not a number: too few others
  double tabulated = std::numeric_limits<double>::quiet_NaN();  // held out, with residuals
  bool extrapolated = false;  // held out, beyond the rows that remain
};

/// A form of the profile.
struct ModelFit {
  std::string section;  // "collectives"
  std::string name;     // "all_to_all"; empty for a section of one form
  std::string form;     // "C1"
  std::string extent;   // what extents are: "payload [bytes]"
  std::vector<Estimate> estimates;
  std::string yaml;  // the form's map in the profile, without indentation
  std::vector<PointFit> points;
  std::vector<std::string> notes;
  std::string absent;  // why there are no coefficients; empty when there are

  [[nodiscard]] std::string title() const { return name.empty() ? section : section + "." + name; }
};

/// How a coefficient follows from those of the fit.
struct Reading {
  std::string key;
  std::function<double(std::span<const double>)> value;
  std::string (*text)(double value);
  double most = std::numeric_limits<double>::infinity();  // larger ones become this
};

/// Text of a value with four significant digits and its unit; empty for an infinite value, but of a
/// rate that a profile may leave out: that is "none".
[[nodiscard]] std::string seconds_text(double seconds);
[[nodiscard]] std::string rate_text(double bytes_per_second);
[[nodiscard]] std::string finite_rate_text(double bytes_per_second);
[[nodiscard]] std::string flop_rate_text(double flops_per_second);
[[nodiscard]] std::string number_text(double value);

/// A coefficient of the fit as it is.
[[nodiscard]] std::function<double(std::span<const double>)> plain(std::size_t place);

/// A rate of which the fit has the inverse; infinite when that is nothing.
[[nodiscard]] std::function<double(std::span<const double>)> rate(std::size_t place);

/// Of the fastest row; infinite without rows.
[[nodiscard]] double least_seconds(const std::vector<Measurement>& rows);

/// A text in double quotes, as YAML takes it.
[[nodiscard]] std::string quoted(const std::string& text);

/// Where the coefficients of every estimate come from. `source` stands as YAML takes it.
struct Origin {
  std::string source;
  std::string date;  // empty when not known
  std::uint64_t seed = 0;
};

/// "key: {value: 6.6 us, spread: [6.1 us, 7 us], samples: 180, source: ..., date: ...}\n"
[[nodiscard]] std::string coefficient_line(const Estimate& estimate, const Origin& origin);

/// A coefficient with the interval of its replicates: no interval without them, or where an end of
/// it has no text. The value has no text when it is infinite and may not be.
[[nodiscard]] Estimate estimate_of(const Reading& reading,
                                   std::span<const double> coefficients,
                                   const std::vector<std::vector<double>>& replicates,
                                   std::int64_t samples);

/// The middle of the values of single rows, with the interval that middles of resampled rows give:
/// none of fewer than kRowsPerCoefficient.
[[nodiscard]] Estimate median_estimate(const std::string& key,
                                       const std::vector<double>& values,
                                       std::string (*text)(double value),
                                       std::uint64_t seed);

/// A form about to be fitted.
struct FitJob {
  std::string section;
  std::string name;
  std::string form_name;
  std::string extent;
  Form form;
  Samples samples;
  std::vector<std::string> curves;  // one for each row
  std::vector<Reading> readings;
  std::string yaml_head;  // lines between `form:` and the coefficients
  Refine refine;
};

/// Fits, holds out, draws intervals and leaves the costs in `surroundings`. Too few rows, or rows
/// that leave a coefficient open: the result says so, and `surroundings` is as before.
[[nodiscard]] ModelFit fit_model(const FitJob& job,
                                 Surroundings& surroundings,
                                 const Origin& origin);

}  // namespace trireme::calibrate
