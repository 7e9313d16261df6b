#include "calibrate/fit/model_fit.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "calibrate/fit/predict.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

constexpr std::size_t kReplicates = 400;

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) {
    return value;
  }
  return parse_number(fmt::format("{:.4g}", value));
}

}  // namespace

std::string seconds_text(double seconds) {
  return std::isfinite(seconds) ? to_text(Seconds(rounded(seconds))) : "";
}

std::string rate_text(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? finite_rate_text(bytes_per_second) : "none";
}

std::string finite_rate_text(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? to_text(BytesPerSecond(rounded(bytes_per_second))) : "";
}

std::string flop_rate_text(double flops_per_second) {
  return std::isfinite(flops_per_second) ? to_text(FlopsPerSecond(rounded(flops_per_second))) : "";
}

std::string number_text(double value) {
  return std::isfinite(value) ? to_text(rounded(value)) : "";
}

std::function<double(std::span<const double>)> plain(std::size_t place) {
  return [place](std::span<const double> c) { return c[place]; };
}

std::function<double(std::span<const double>)> rate(std::size_t place) {
  return [place](std::span<const double> c) { return 1 / c[place]; };
}

double least_seconds(const std::vector<Measurement>& rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const Measurement& row : rows) {
    least = std::min(least, row.timing.median.value());
  }
  return least;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      result += '\\';
    }
    result += static_cast<unsigned char>(character) < 0x20 ? ' ' : character;
  }
  return result + '"';
}

std::string coefficient_line(const Estimate& estimate, const Origin& origin) {
  std::string text = fmt::format("{}: {{value: {}", estimate.key, estimate.value);
  if (!estimate.low.empty()) {
    text += fmt::format(", spread: [{}, {}]", estimate.low, estimate.high);
  }
  if (estimate.samples > 0) {
    text += fmt::format(", samples: {}", estimate.samples);
  }
  text += fmt::format(", source: {}", origin.source);
  if (!origin.date.empty()) {
    text += fmt::format(", date: \"{}\"", origin.date);
  }
  return text + "}\n";
}

Estimate estimate_of(const Reading& reading,
                     std::span<const double> coefficients,
                     const std::vector<std::vector<double>>& replicates,
                     std::int64_t samples) {
  const auto read = [&](std::span<const double> values) {
    return std::min(reading.value(values), reading.most);
  };
  Estimate estimate;
  estimate.key = reading.key;
  estimate.samples = samples;
  const double value = read(coefficients);
  estimate.value = reading.text(value);
  if (!replicates.empty()) {
    std::vector<double> drawn;
    drawn.reserve(replicates.size());
    for (const std::vector<double>& replicate : replicates) {
      drawn.push_back(read(replicate));
    }
    estimate.low = reading.text(std::min(value, quantile(drawn, kLowDraw)));
    estimate.high = reading.text(std::max(value, quantile(drawn, kHighDraw)));
    if (estimate.low.empty() || estimate.high.empty()) {
      estimate.low.clear();
      estimate.high.clear();
    }
  }
  return estimate;
}

Estimate median_estimate(const std::string& key,
                         const std::vector<double>& values,
                         std::string (*text)(double value),
                         std::uint64_t seed) {
  std::vector<std::vector<double>> replicates;
  if (values.size() >= kRowsPerCoefficient) {
    std::mt19937_64 random(seed);
    std::vector<double> drawn(values.size());
    for (std::size_t round = 0; round < kReplicates; ++round) {
      for (double& value : drawn) {
        value = values[random() % values.size()];
      }
      replicates.push_back({quantile(drawn, 0.5)});
    }
  }
  return estimate_of({key, plain(0), text},
                     std::vector<double>{quantile(values, 0.5)},
                     replicates,
                     static_cast<std::int64_t>(values.size()));
}

ModelFit fit_model(const FitJob& job, Surroundings& surroundings, const Origin& origin) {
  ModelFit fit;
  fit.section = job.section;
  fit.name = job.name;
  fit.form = job.form_name;
  fit.extent = job.extent;
  const std::size_t least = kRowsPerCoefficient * job.form.start.size();
  if (job.samples.size() < least) {
    fit.absent = fmt::format(
        "{} rows, and {} coefficients need {}", job.samples.size(), job.form.start.size(), least);
    return fit;
  }
  const std::vector<double> coefficients = robust_fit(job.form, surroundings, job.samples);
  for (const Reading& reading : job.readings) {
    if (reading.text(std::min(reading.value(coefficients), reading.most)).empty()) {
      fit.absent = fmt::format("{} cannot be told from these rows", reading.key);
      return fit;
    }
  }
  const HeldOut held = hold_out(job.form, surroundings, job.samples, job.refine);
  const auto replicates =
      bootstrap(job.form, surroundings, job.samples, coefficients, origin.seed, kReplicates);
  job.form.apply(coefficients, surroundings.machine);
  if (!job.form_name.empty()) {
    fit.yaml = fmt::format("form: {}\n", job.form_name);
  }
  fit.yaml += job.yaml_head;
  for (const Reading& reading : job.readings) {
    fit.estimates.push_back(estimate_of(
        reading, coefficients, replicates, static_cast<std::int64_t>(job.samples.size())));
    fit.yaml += coefficient_line(fit.estimates.back(), origin);
  }
  for (std::size_t row = 0; row < job.samples.size(); ++row) {
    PointFit point;
    point.point = job.samples.points[row];
    point.curve = job.curves[row];
    point.extent = job.samples.extents[row];
    point.measured = Seconds(job.samples.seconds[row]);
    point.fitted = *predict(point.point, surroundings.machine, surroundings.nic_rate);
    point.held_out = Seconds(held.seconds[row]);
    point.extrapolated = held.extrapolated[row];
    if (!held.refined.empty()) {
      point.tabulated = held.refined[row];
    }
    fit.points.push_back(std::move(point));
  }
  return fit;
}

}  // namespace trireme::calibrate
