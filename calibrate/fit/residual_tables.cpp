#include "calibrate/fit/residual_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "calibrate/fit/predict.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

/// The last row stands this factor beyond the largest payload, or the table's own last step if that
/// is larger.
constexpr double kLastStep = 4;
/// Where the slope at a payload is looked at, and how much of it is counted on: it grows until
/// there.
constexpr double kNear = 1.001;
constexpr double kSure = 0.99;
constexpr double kNothing = 1e-6;  // of a unit: what rounding leaves of a whole number
/// Parts of a step in which the closed form's slope is looked at.
constexpr int kParts = 8;

class ClosedForm {
 public:
  ClosedForm(CollectivePoint point, const cost::MachineCosts& machine, BytesPerSecond nic_rate)
      : point_(std::move(point)), machine_(machine), nic_rate_(nic_rate) {
    machine_.residuals = {};
  }

  [[nodiscard]] double log_seconds(double payload) {
    point_.payload = Bytes(static_cast<std::int64_t>(std::llround(payload)));
    return std::log(predict(point_, machine_, nic_rate_)->value());
  }

  /// The least slope of log seconds over log payload between two payloads.
  [[nodiscard]] double least_slope(double from, double to) {
    const double step = std::log(to / from) / kParts;
    double before = log_seconds(from);
    // the slope at the near end, where that of a sum of powers is least
    const double near = std::ceil(from * kNear);
    double least = (log_seconds(near) - before) / std::log(near / from);
    for (int part = 1; part <= kParts; ++part) {
      const double here = log_seconds(from * std::exp(step * part));
      least = std::min(least, (here - before) / step);
      before = here;
    }
    return std::max(kSure * least, 0.0);
  }

 private:
  CollectivePoint point_;
  cost::MachineCosts machine_;
  BytesPerSecond nic_rate_;
};

/// The nearest sequence that does not fall, by least squares.
std::vector<double> not_falling(const std::vector<double>& values) {
  struct Block {
    double sum = 0;
    std::size_t count = 0;

    [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
  };

  std::vector<Block> blocks;
  for (const double value : values) {
    blocks.push_back({value, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().count += last.count;
    }
  }
  std::vector<double> result;
  for (const Block& block : blocks) {
    result.insert(result.end(), block.count, block.mean());
  }
  return result;
}

/// To five digits, as it is written: rounded down, it could make more bytes faster.
double rounded_up(double factor) {
  const double unit = std::pow(10, std::floor(std::log10(factor)) - 4);
  return parse_number(fmt::format("{:.5g}", std::ceil(factor / unit - kNothing) * unit));
}

/// The rows of one group shape: log seconds by payload, averaged.
using Curve = std::map<std::int64_t, std::pair<double, int>>;

cost::GroupResiduals table_of(cost::Group group, const Curve& curve, ClosedForm form) {
  std::vector<double> payloads;
  std::vector<double> times;
  for (const auto& [payload, sum] : curve) {
    payloads.push_back(static_cast<double>(payload));
    times.push_back(sum.first / sum.second);
  }
  times = not_falling(times);
  cost::GroupResiduals result{group, {}};
  double before = 0;
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    double residual = times[i] - form.log_seconds(payloads[i]);
    if (i > 0) {
      const double step = std::log(payloads[i] / payloads[i - 1]);
      residual = std::max(residual, before - step * form.least_slope(payloads[i - 1], payloads[i]));
    }
    const double factor = rounded_up(std::exp(residual));
    before = std::log(factor);
    result.table.push_back({Bytes(static_cast<std::int64_t>(payloads[i])), factor});
  }
  double end =
      payloads.back() * std::max(kLastStep, payloads.back() / payloads[payloads.size() - 2]);
  constexpr double kFurthest = 1e6;  // of a residual that large no step would be enough
  while (before > std::log(end / payloads.back()) * form.least_slope(payloads.back(), end) &&
         end < payloads.back() * kFurthest) {
    end *= kLastStep;
  }
  result.table.push_back({Bytes(static_cast<std::int64_t>(end)), 1.0});
  return result;
}

}  // namespace

std::vector<cost::GroupResiduals> residual_tables(std::span<const TimedCollective> rows,
                                                  const cost::MachineCosts& machine,
                                                  BytesPerSecond nic_rate) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<CollectivePoint, Curve>> groups;
  for (const TimedCollective& row : rows) {
    const std::int64_t per_node = std::min(row.point.ranks, row.point.ranks_per_node);
    auto& [point, curve] = groups[{row.point.ranks, per_node}];
    point = row.point;
    auto& [sum, count] = curve[row.point.payload.value()];
    sum += std::log(row.time.value());
    ++count;
  }
  std::vector<cost::GroupResiduals> tables;
  for (const auto& [shape, found] : groups) {
    if (found.second.size() >= 2) {
      tables.push_back(table_of(
          {shape.first, shape.second}, found.second, ClosedForm(found.first, machine, nic_rate)));
    }
  }
  return tables;
}

std::vector<cost::GroupResiduals>& tables_of(cost::ResidualTables& tables, CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_to_all:
      return tables.all_to_all;
    case CollectiveKind::all_gather:
      return tables.all_gather;
    case CollectiveKind::reduce_scatter:
      return tables.reduce_scatter;
    case CollectiveKind::all_reduce:
      return tables.all_reduce;
    case CollectiveKind::send_recv:
      break;
  }
  return tables.send_recv;
}

std::string residuals_yaml(const cost::ResidualTables& tables) {
  std::string text;
  cost::ResidualTables copy = tables;
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    const auto& groups = tables_of(copy, static_cast<CollectiveKind>(i));
    if (groups.empty()) {
      continue;
    }
    text += fmt::format("  {}:\n", kCollectiveNames[i]);
    for (const cost::GroupResiduals& group : groups) {
      std::string payloads;
      std::string factors;
      for (const cost::Residual& row : group.table) {
        const char* const comma = payloads.empty() ? "" : ", ";
        payloads += comma + to_text(row.payload);
        factors += fmt::format("{}{:.5g}", comma, row.factor);
      }
      text += fmt::format("    - ranks: {}\n      ranks_per_node: {}\n",
                          group.group.ranks,
                          group.group.ranks_per_node);
      text += fmt::format("      payloads: [{}]\n      factors: [{}]\n", payloads, factors);
    }
  }
  return text.empty() ? text : "residuals:\n" + text;
}

}  // namespace trireme::calibrate
