#include "calibrate/fit/robust_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <Eigen/Dense>

#include "calibrate/fit/predict.h"

namespace trireme::calibrate {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Steps before residuals are weighed, so that a poor first guess makes no outliers; and those
/// after. Linear forms need one and the eight of fit_forms; forms with a maximum some more.
constexpr int kPlainSteps = 4;
constexpr int kRobustSteps = 12;
constexpr int kHalvings = 6;
constexpr double kConverged = 1e-9;
/// Step of the difference quotients, as a share of a coefficient's scale.
constexpr double kDifference = 1e-4;
/// A row alone with its coefficient has all leverage, and its residual says nothing.
constexpr double kMostLeverage = 0.9;
/// Groups for each coefficient, so that the signs of whole groups say something.
constexpr std::size_t kLeastGroups = 4;
/// Folds of a cross-validation, each every fifth group.
constexpr std::size_t kFolds = 5;

/// min x'Gx - 2 b'x with x >= 0.
///
/// Source: bro1997, FNNLS
VectorXd non_negative_minimum(const MatrixXd& gram, const VectorXd& right) {
  const Eigen::Index size = right.size();
  VectorXd found = VectorXd::Zero(size);
  std::vector<bool> free(static_cast<std::size_t>(size), false);
  VectorXd gradient = right;
  const double tolerance = 1e-13 * right.cwiseAbs().maxCoeff();
  for (Eigen::Index round = 0; round < 3 * size; ++round) {
    Eigen::Index best = -1;
    for (Eigen::Index i = 0; i < size; ++i) {
      if (!free[static_cast<std::size_t>(i)] && gradient[i] > tolerance &&
          (best < 0 || gradient[i] > gradient[best])) {
        best = i;
      }
    }
    if (best < 0) {
      break;
    }
    free[static_cast<std::size_t>(best)] = true;
    while (true) {
      std::vector<Eigen::Index> chosen;
      for (Eigen::Index i = 0; i < size; ++i) {
        if (free[static_cast<std::size_t>(i)]) {
          chosen.push_back(i);
        }
      }
      const VectorXd solved = gram(chosen, chosen).ldlt().solve(right(chosen));
      double step = 1;
      Eigen::Index blocking = -1;  // what would become negative first
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const double now = found[chosen[i]];
        const double then = solved[static_cast<Eigen::Index>(i)];
        if (then <= 0 && (blocking < 0 || now / (now - then) < step)) {
          step = now / (now - then);
          blocking = chosen[i];
        }
      }
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        double& value = found[chosen[i]];
        value += step * (solved[static_cast<Eigen::Index>(i)] - value);
      }
      if (blocking < 0) {
        break;
      }
      found[blocking] = 0;
      free[static_cast<std::size_t>(blocking)] = false;
    }
    gradient = right - gram * found;
  }
  return found;
}

std::vector<double> predictions(const Form& form,
                                Surroundings& surroundings,
                                const Samples& samples,
                                std::span<const std::size_t> rows,
                                std::span<const double> coefficients) {
  form.apply(coefficients, surroundings.machine);
  std::vector<double> seconds;
  seconds.reserve(rows.size());
  for (const std::size_t row : rows) {
    const auto predicted =
        predict(samples.points[row], surroundings.machine, surroundings.nic_rate);
    ensure(predicted.has_value(), "robust_fit: the form does not know a point");
    seconds.push_back(predicted->value());
  }
  return seconds;
}

double loss_of(double relative) {
  const double scaled = relative / kRobustScale;
  return 2 * (std::sqrt(1 + scaled * scaled) - 1);
}

double weight_of(double relative) {
  const double scaled = relative / kRobustScale;
  return 1 / std::sqrt(1 + scaled * scaled);
}

/// Relative residuals around a set of coefficients, as a linear function of the next: rows of
/// `slope` are d seconds / d coefficient in units of the coefficients' scales, and `target` what
/// they should sum to; both over the measured seconds.
struct Linearised {
  MatrixXd slope;
  VectorXd target;
  VectorXd residual;
};

Linearised linearise(const Form& form,
                     Surroundings& surroundings,
                     const Samples& samples,
                     std::span<const std::size_t> rows,
                     std::span<const double> coefficients) {
  const auto count = static_cast<Eigen::Index>(rows.size());
  const auto size = static_cast<Eigen::Index>(coefficients.size());
  const std::vector<double> here = predictions(form, surroundings, samples, rows, coefficients);
  Linearised result{MatrixXd(count, size), VectorXd(count), VectorXd(count)};
  std::vector<double> moved(coefficients.begin(), coefficients.end());
  for (Eigen::Index j = 0; j < size; ++j) {
    const auto place = static_cast<std::size_t>(j);
    const double step = kDifference * std::max(coefficients[place], form.start[place]);
    moved[place] = coefficients[place] + step;
    const std::vector<double> there = predictions(form, surroundings, samples, rows, moved);
    moved[place] = coefficients[place];
    for (Eigen::Index i = 0; i < count; ++i) {
      const auto row = static_cast<std::size_t>(i);
      result.slope(i, j) =
          (there[row] - here[row]) / step * form.start[place] / samples.seconds[rows[row]];
    }
  }
  VectorXd scaled(size);
  for (Eigen::Index j = 0; j < size; ++j) {
    const auto place = static_cast<std::size_t>(j);
    scaled[j] = coefficients[place] / form.start[place];
  }
  for (Eigen::Index i = 0; i < count; ++i) {
    const auto row = static_cast<std::size_t>(i);
    result.residual[i] = here[row] / samples.seconds[rows[row]] - 1;
  }
  result.target = result.slope * scaled - result.residual;
  return result;
}

double total_loss(std::span<const double> predicted,
                  const Samples& samples,
                  std::span<const std::size_t> rows,
                  bool robust) {
  double loss = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double relative = predicted[i] / samples.seconds[rows[i]] - 1;
    loss += samples.weights[rows[i]] *
            (robust ? loss_of(relative) : relative * relative / kRobustScale / kRobustScale);
  }
  return loss;
}

std::vector<std::size_t> all_rows(const Samples& samples) {
  std::vector<std::size_t> rows(samples.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

struct Groups {
  std::vector<std::size_t> of_row;
  std::size_t count = 0;
};

/// Groups are numbered as their numbers ascend: what is held out does not depend on the order of
/// the rows, and each part has small and large groups.
Groups numbered_groups(const Samples& samples) {
  std::vector<double> keys = samples.groups;
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  Groups groups{{}, keys.size()};
  for (const double key : samples.groups) {
    groups.of_row.push_back(
        static_cast<std::size_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin()));
  }
  return groups;
}

}  // namespace

void Samples::add(const Measurement& measurement, double group, double extent) {
  points.push_back(measurement.point);
  seconds.push_back(measurement.timing.median.value());
  const Seconds range = measurement.timing.upper_quartile - measurement.timing.lower_quartile;
  const double spread = ratio(range, measurement.timing.median) / kRobustScale;
  weights.push_back(1 / (1 + spread * spread));
  groups.push_back(group);
  extents.push_back(extent);
  repeats.push_back(measurement.timing.samples);
}

std::vector<double> robust_fit(const Form& form,
                               const Surroundings& surroundings,
                               const Samples& samples,
                               std::span<const std::size_t> rows) {
  Surroundings changing = surroundings;
  std::vector<double> now = form.start;
  for (int step = 0; step < kPlainSteps + kRobustSteps; ++step) {
    const bool robust = step >= kPlainSteps;
    const Linearised linear = linearise(form, changing, samples, rows, now);
    VectorXd weights(linear.residual.size());
    for (Eigen::Index i = 0; i < weights.size(); ++i) {
      weights[i] = samples.weights[rows[static_cast<std::size_t>(i)]] *
                   (robust ? weight_of(linear.residual[i]) : 1.0);
    }
    const MatrixXd weighted = weights.asDiagonal() * linear.slope;
    const VectorXd found = non_negative_minimum(linear.slope.transpose() * weighted,
                                                weighted.transpose() * linear.target);
    const double before =
        total_loss(predictions(form, changing, samples, rows, now), samples, rows, robust);
    std::vector<double> next = now;
    double share = 1;
    double change = 0;
    for (int halving = 0; halving <= kHalvings; ++halving, share /= 2) {
      change = 0;
      for (std::size_t j = 0; j < now.size(); ++j) {
        const double wanted = found[static_cast<Eigen::Index>(j)] * form.start[j];
        next[j] = now[j] + share * (wanted - now[j]);
        change = std::max(change, std::abs(next[j] - now[j]) / std::max(now[j], form.start[j]));
      }
      // the first step leaves the guess behind, wherever it leads
      if (step == 0 ||
          total_loss(predictions(form, changing, samples, rows, next), samples, rows, robust) <=
              before) {
        break;
      }
    }
    now = next;
    if (robust && change < kConverged) {
      break;
    }
  }
  return now;
}

std::vector<double> robust_fit(const Form& form,
                               const Surroundings& surroundings,
                               const Samples& samples) {
  return robust_fit(form, surroundings, samples, all_rows(samples));
}

HeldOut hold_out(const Form& form,
                 const Surroundings& surroundings,
                 const Samples& samples,
                 const Refine& refine) {
  const Groups groups = numbered_groups(samples);
  const std::size_t parts = std::min(groups.count, kFolds);
  HeldOut result;
  result.seconds.resize(samples.size());
  result.extrapolated.resize(samples.size());
  if (refine) {
    result.refined.resize(samples.size());
  }
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<std::size_t> rest;
    std::vector<std::size_t> held;
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (std::size_t row = 0; row < samples.size(); ++row) {
      if (groups.of_row[row] % parts == part) {
        held.push_back(row);
      } else {
        rest.push_back(row);
        least = std::min(least, samples.extents[row]);
        most = std::max(most, samples.extents[row]);
      }
    }
    if (rest.size() < form.start.size()) {
      for (const std::size_t row : held) {
        result.seconds[row] = std::numeric_limits<double>::quiet_NaN();
      }
      continue;
    }
    Surroundings fitted = surroundings;
    form.apply(robust_fit(form, surroundings, samples, rest), fitted.machine);
    for (const std::size_t row : held) {
      result.seconds[row] = predict(samples.points[row], fitted.machine, fitted.nic_rate)->value();
      result.extrapolated[row] = samples.extents[row] < least || samples.extents[row] > most;
    }
    if (refine) {
      refine(rest, fitted.machine);
      for (const std::size_t row : held) {
        result.refined[row] =
            predict(samples.points[row], fitted.machine, fitted.nic_rate)->value();
      }
    }
  }
  return result;
}

std::vector<std::vector<double>> bootstrap(const Form& form,
                                           const Surroundings& surroundings,
                                           const Samples& samples,
                                           std::span<const double> coefficients,
                                           std::uint64_t seed,
                                           std::size_t count) {
  Surroundings changing = surroundings;
  const std::vector<std::size_t> rows = all_rows(samples);
  const Linearised linear = linearise(form, changing, samples, rows, coefficients);
  const auto size = static_cast<Eigen::Index>(coefficients.size());
  Groups groups = numbered_groups(samples);
  if (groups.count < kLeastGroups * coefficients.size()) {  // too few: rows stand for themselves
    groups = {rows, samples.size()};
  }
  const auto count_of_rows = static_cast<Eigen::Index>(rows.size());
  // How steeply the loss of a row grows, which is less than its weight: near the scale a residual
  // that grows pulls hardly more.
  VectorXd curvature(count_of_rows);
  for (Eigen::Index i = 0; i < count_of_rows; ++i) {
    curvature[i] =
        samples.weights[static_cast<std::size_t>(i)] * std::pow(weight_of(linear.residual[i]), 3);
  }
  const MatrixXd gram = linear.slope.transpose() * curvature.asDiagonal() * linear.slope;
  VectorXd centre(size);
  for (Eigen::Index j = 0; j < size; ++j) {
    const auto place = static_cast<std::size_t>(j);
    centre[j] = coefficients[place] / form.start[place];
  }
  const VectorXd right = gram * centre;
  const MatrixXd influence = gram.completeOrthogonalDecomposition().pseudoInverse();
  // What each group adds to the right side when the signs of its residuals change.
  std::vector<VectorXd> changes(groups.count, VectorXd::Zero(size));
  for (Eigen::Index i = 0; i < count_of_rows; ++i) {
    const VectorXd slope = linear.slope.row(i).transpose();
    const double leverage = curvature[i] * slope.dot(influence * slope);
    const double pull = samples.weights[static_cast<std::size_t>(i)] *
                        weight_of(linear.residual[i]) * linear.residual[i] /
                        (1 - std::min(leverage, kMostLeverage));
    changes[groups.of_row[static_cast<std::size_t>(i)]] += pull * slope;
  }
  const double widening = groups.count > coefficients.size()
                              ? std::sqrt(static_cast<double>(groups.count) /
                                          static_cast<double>(groups.count - coefficients.size()))
                              : 1;
  std::mt19937_64 random(seed);
  std::bernoulli_distribution positive;
  std::vector<std::vector<double>> found;
  found.reserve(count);
  for (std::size_t round = 0; round < count; ++round) {
    VectorXd drawn = right;
    for (const VectorXd& change : changes) {
      drawn += (positive(random) ? widening : -widening) * change;
    }
    const VectorXd solved = non_negative_minimum(gram, drawn);
    std::vector<double> values(coefficients.size());
    for (std::size_t j = 0; j < values.size(); ++j) {
      values[j] = solved[static_cast<Eigen::Index>(j)] * form.start[j];
    }
    found.push_back(std::move(values));
  }
  return found;
}

double quantile(std::vector<double> values, double share) {
  ensure(!values.empty(), "quantile: no values");
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double part = place - static_cast<double>(below);
  if (part == 0 || values[below] == values[above]) {  // two infinities have no difference
    return values[below];
  }
  return values[below] + part * (values[above] - values[below]);
}

double robust_loss(std::span<const double> predicted, const Samples& samples) {
  return total_loss(predicted, samples, all_rows(samples), true);
}

}  // namespace trireme::calibrate
