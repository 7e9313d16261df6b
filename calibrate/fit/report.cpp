#include "calibrate/fit/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

constexpr std::size_t kShown = 10;
constexpr double kOutlierScales = 3;
constexpr double kHighError = 0.9;

std::string with_interval(const Estimate& estimate) {
  if (estimate.low.empty()) {
    return estimate.value;
  }
  return fmt::format("{} [{} .. {}]", estimate.value, estimate.low, estimate.high);
}

std::string model_text(const ModelFit& model) {
  std::string text =
      fmt::format("\n{}{}\n", model.title(), model.form.empty() ? "" : " (" + model.form + ")");
  if (!model.absent.empty()) {
    return text + fmt::format("  unknown: {}\n", model.absent);
  }
  for (const Estimate& estimate : model.estimates) {
    text += fmt::format("  {:<24} {}\n", estimate.key, with_interval(estimate));
  }
  if (!model.points.empty()) {
    std::vector<std::pair<double, double>> fitted;
    for (const PointFit& point : model.points) {
      fitted.emplace_back(point.fitted.value(), point.measured.value());
    }
    const HeldOutErrors errors = held_out_errors(model);
    text += fmt::format("  error in sample          {}\n", in_words(summarise(fitted)));
    text += fmt::format("  error held out           {}\n", in_words(errors.inside));
    if (errors.tabulated.rows > 0) {
      text += fmt::format("    with residuals         {}\n", in_words(errors.tabulated));
    }
    if (errors.beyond.rows > 0) {
      text += fmt::format("    extrapolated           {}\n", in_words(errors.beyond));
    }
    const std::vector<const PointFit*> far = outliers(model);
    if (!far.empty()) {
      text += fmt::format(
          "  {} outliers, beyond {:.0f} %:\n", far.size(), 100 * kOutlierScales * kRobustScale);
      for (std::size_t i = 0; i < std::min(kShown, far.size()); ++i) {
        text += fmt::format("    {}: measured {}, fitted {} ({:+.0f} %)\n",
                            in_words(far[i]->point),
                            seconds_text(far[i]->measured.value()),
                            seconds_text(far[i]->fitted.value()),
                            100 * (ratio(far[i]->fitted, far[i]->measured) - 1));
      }
      if (far.size() > kShown) {
        text += fmt::format("    and {} more\n", far.size() - kShown);
      }
    }
  }
  for (const std::string& note : model.notes) {
    text += fmt::format("  note: {}\n", note);
  }
  return text;
}

}  // namespace

ErrorSummary summarise(std::span<const std::pair<double, double>> pairs) {
  std::vector<double> sizes;
  std::vector<double> signs;
  for (const auto& [predicted, measured] : pairs) {
    const double relative = predicted / measured - 1;
    if (std::isfinite(relative)) {
      sizes.push_back(std::abs(relative));
      signs.push_back(relative);
    }
  }
  ErrorSummary summary;
  summary.rows = sizes.size();
  if (!sizes.empty()) {
    summary.median = quantile(sizes, 0.5);
    summary.high = quantile(sizes, kHighError);
    summary.bias = quantile(signs, 0.5);
  }
  return summary;
}

std::string in_words(const ErrorSummary& summary) {
  if (summary.rows == 0) {
    return "no rows";
  }
  return fmt::format("{:.1f} / {:.1f} % ({:+.1f}) of {} rows",
                     100 * summary.median,
                     100 * summary.high,
                     100 * summary.bias,
                     summary.rows);
}

HeldOutErrors held_out_errors(const ModelFit& model) {
  std::vector<std::pair<double, double>> inside;
  std::vector<std::pair<double, double>> beyond;
  std::vector<std::pair<double, double>> tabulated;
  for (const PointFit& point : model.points) {
    (point.extrapolated ? beyond : inside)
        .emplace_back(point.held_out.value(), point.measured.value());
    if (!point.extrapolated) {
      tabulated.emplace_back(point.tabulated, point.measured.value());
    }
  }
  return {summarise(inside), summarise(beyond), summarise(tabulated)};
}

std::vector<const PointFit*> outliers(const ModelFit& model) {
  const auto distance = [](const PointFit& point) {
    return std::abs(ratio(point.fitted, point.measured) - 1);
  };
  std::vector<const PointFit*> far;
  for (const PointFit& point : model.points) {
    if (distance(point) > kOutlierScales * kRobustScale) {
      far.push_back(&point);
    }
  }
  std::stable_sort(far.begin(), far.end(), [&](const PointFit* a, const PointFit* b) {
    return distance(*a) > distance(*b);
  });
  return far;
}

std::string report_text(const FitResult& result) {
  std::string text = fmt::format(
      "errors: |predicted / measured - 1|, median / 90th percentile (signed median); intervals: "
      "98 % of resamplings, seed {}\n",
      result.seed);
  for (const ModelFit& model : result.models) {
    text += model_text(model);
  }
  if (!result.achieved.empty()) {
    text += "\nbest share of the line rate\n";
    for (const Achieved& best : result.achieved) {
      text += fmt::format("  {:<16} {:<14} {:.2f}  {} of {}, {} on {} ranks\n",
                          name(best.collective),
                          best.over_nodes ? "over nodes" : "inside a node",
                          best.share(),
                          rate_text(best.rate.value()),
                          rate_text(best.line.value()),
                          to_text(best.point.payload),
                          best.point.ranks);
    }
  }
  if (!result.contradictions.empty()) {
    text += fmt::format("\n{} points were measured twice with results that exclude each other\n",
                        result.contradictions.size());
    for (std::size_t i = 0; i < std::min(kShown, result.contradictions.size()); ++i) {
      const Contradiction& found = result.contradictions[i];
      text += fmt::format("  {}: {} ({}), {} ({})\n",
                          found.point,
                          seconds_text(found.one.value()),
                          printable(found.one_environment),
                          seconds_text(found.other.value()),
                          printable(found.other_environment));
    }
    if (result.contradictions.size() > kShown) {
      text += fmt::format("  and {} more\n", result.contradictions.size() - kShown);
    }
  }
  for (const std::string& note : result.notes) {
    text += fmt::format("\nnote: {}\n", note);
  }
  return text;
}

}  // namespace trireme::calibrate
