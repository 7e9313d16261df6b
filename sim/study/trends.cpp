#include "sim/study/trends.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "sim/study/point.h"

namespace trireme::study {

using ledger::PlanResult;
using ledger::Verdict;

namespace {

/// One plan's rows, ordered along the key.
struct Series {
  struct At {
    double value;
    const PlanResult* row;
  };

  std::string plan;
  std::vector<At> points;
};

/// The number of the key in a row's point that alone varies over the rows.
std::optional<std::size_t> varying_key(std::span<const PlanResult> rows) {
  std::optional<std::size_t> varying;
  for (const PlanResult& row : rows) {
    const auto& first = rows.front().point;
    if (row.point.size() != first.size()) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (row.point[i].key != first[i].key) {
        return std::nullopt;
      }
      if (row.point[i].value != first[i].value) {
        if (varying && *varying != i) {
          return std::nullopt;
        }
        varying = i;
      }
    }
  }
  return varying;
}

/// Empty where a value of the key is no positive number.
std::vector<Series> series_along(std::span<const PlanResult> rows, std::size_t key) {
  std::vector<Series> all;
  for (const PlanResult& row : rows) {
    const std::optional<double> value = as_number(row.point[key]);
    if (!value || *value <= 0) {
      return {};
    }
    auto series =
        std::find_if(all.begin(), all.end(), [&](const Series& s) { return s.plan == row.plan; });
    if (series == all.end()) {
      series = all.insert(all.end(), Series{row.plan, {}});
    }
    series->points.push_back({*value, &row});
  }
  for (Series& series : all) {
    std::stable_sort(series.points.begin(), series.points.end(), [](const auto& a, const auto& b) {
      return a.value < b.value;
    });
  }
  return all;
}

std::optional<double> step_seconds(const PlanResult& row) {
  if (!row.numbers || !row.numbers->step) {
    return std::nullopt;
  }
  return row.numbers->step->time.step.value();
}

/// Appends where `first` and `second` change places.
void add_crossovers(const Series& first,
                    const Series& second,
                    const std::string& key,
                    std::vector<ledger::Crossover>& found) {
  struct Known {
    double value;
    double ratio;  // logarithm of the step time of `first` over that of `second`
  };

  std::optional<Known> before;
  for (const Series::At& at : first.points) {
    const auto other = std::find_if(second.points.begin(),
                                    second.points.end(),
                                    [&](const Series::At& p) { return p.value == at.value; });
    if (other == second.points.end()) {
      continue;
    }
    const auto time = step_seconds(*at.row);
    const auto other_time = step_seconds(*other->row);
    if (!time || !other_time || *time == *other_time) {
      continue;  // equal: the crossing is found between the points around this one
    }
    const Known here{at.value, std::log(*time / *other_time)};
    if (before && (before->ratio < 0) != (here.ratio < 0)) {
      const double part = before->ratio / (before->ratio - here.ratio);
      const double at_log =
          std::log(before->value) + part * (std::log(here.value) - std::log(before->value));
      const bool first_leads = before->ratio < 0;
      found.push_back({first_leads ? first.plan : second.plan,
                       first_leads ? second.plan : first.plan,
                       key,
                       std::exp(at_log)});
    }
    before = here;
  }
}

}  // namespace

std::vector<ledger::Crossover> find_crossovers(std::span<const PlanResult> rows) {
  const auto key = varying_key(rows);
  if (!key) {
    return {};
  }
  const std::vector<Series> all = series_along(rows, *key);
  std::vector<ledger::Crossover> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      add_crossovers(all[i], all[j], rows.front().point[*key].key, found);
    }
  }
  return found;
}

std::vector<ledger::MemoryWall> find_memory_walls(std::span<const PlanResult> rows) {
  const auto key = varying_key(rows);
  if (!key) {
    return {};
  }
  std::vector<ledger::MemoryWall> walls;
  for (const Series& series : series_along(rows, *key)) {
    ledger::MemoryWall wall;
    wall.plan = series.plan;
    wall.key = rows.front().point[*key].key;
    for (const Series::At& at : series.points) {
      const ledger::PointValue& value = at.row->point[*key];
      if (at.row->verdict == Verdict::fits) {
        wall.last_that_fits = value;
        wall.first_tight.reset();
      } else if (at.row->verdict == Verdict::tight && !wall.first_tight) {
        wall.first_tight = value;
      } else if (at.row->verdict == Verdict::does_not_fit) {
        wall.first_that_does_not = value;
        break;
      }
    }
    if (wall.first_tight || wall.first_that_does_not) {
      walls.push_back(std::move(wall));
    }
  }
  return walls;
}

}  // namespace trireme::study
