#include "sim/study/accuracy.h"

#include <algorithm>
#include <string>

#include "sim/config/accuracy.h"

namespace trireme::study {

namespace {

bool same_point(const ledger::PlanResult& a, const ledger::PlanResult& b) {
  return std::equal(a.point.begin(),
                    a.point.end(),
                    b.point.begin(),
                    b.point.end(),
                    [](const ledger::PointValue& x, const ledger::PointValue& y) {
                      return x.key == y.key && x.text == y.text;
                    });
}

std::string in_words(const ledger::PlanResult& row) {
  std::string text;
  for (const ledger::PointValue& value : row.point) {
    text += (text.empty() ? "" : ", ") + value.key + " " + value.text;
  }
  return text;
}

Seconds step_of(const ledger::PlanResult& row) {
  return row.numbers->step->time.step;
}

bool has_step(const ledger::PlanResult& row) {
  return row.numbers && row.numbers->step && row.band;
}

}  // namespace

std::optional<ledger::AccuracyBand> band_of(const config::StudySpec& study) {
  const config::AccuracySpec& accuracy = config::accuracy();
  const std::string_view kind =
      accuracy.kind_of(study.cluster.nodes.value, study.workload.sequence.value);
  const auto row = std::find_if(accuracy.rows.begin(),
                                accuracy.rows.end(),
                                [&](const config::AccuracyRow& r) { return r.kind == kind; });
  if (row == accuracy.rows.end()) {
    return std::nullopt;
  }
  return ledger::AccuracyBand{row->kind, row->runs, row->low, row->high, row->median_error};
}

std::vector<ledger::TooClose> too_close_to_call(const std::vector<ledger::PlanResult>& rows) {
  std::vector<ledger::TooClose> close;
  for (const ledger::PlanResult& fastest : rows) {
    if (!has_step(fastest)) {
      continue;
    }
    const auto rivals = [&](const ledger::PlanResult& row) {
      return &row != &fastest && has_step(row) && same_point(row, fastest);
    };
    if (std::any_of(rows.begin(), rows.end(), [&](const ledger::PlanResult& row) {
          return rivals(row) && (step_of(row) < step_of(fastest) ||
                                 (step_of(row) == step_of(fastest) && &row < &fastest));
        })) {
      continue;  // it is not the fastest of its point
    }
    for (const ledger::PlanResult& row : rows) {
      if (!rivals(row)) {
        continue;
      }
      const double difference = ratio(step_of(row), step_of(fastest)) - 1;
      if (difference < fastest.band->median_error) {
        close.push_back({in_words(row), fastest.plan, row.plan, difference, *fastest.band});
      }
    }
  }
  return close;
}

}  // namespace trireme::study
