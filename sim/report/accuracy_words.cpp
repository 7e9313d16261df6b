#include "sim/report/accuracy_words.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::report {

std::string accuracy_band(const std::vector<ledger::PlanResult>& rows) {
  std::vector<std::string> bands;
  for (const ledger::PlanResult& row : rows) {
    if (!row.band) {
      continue;
    }
    std::string words = fmt::format("{:+.0f} to {:+.0f} % {} (8 of 10 of {} judged runs)",
                                    100 * (row.band->low - 1),
                                    100 * (row.band->high - 1),
                                    row.band->kind,
                                    row.band->runs);
    if (std::find(bands.begin(), bands.end(), words) == bands.end()) {
      bands.push_back(std::move(words));
    }
  }
  return bands.empty() ? "none yet" : fmt::format("{}", fmt::join(bands, "; "));
}

std::vector<std::string> close_calls(const std::vector<ledger::TooClose>& close) {
  std::vector<std::string> sentences;
  for (std::size_t first = 0; first < close.size();) {
    std::string rivals;
    std::size_t end = first;
    for (; end < close.size() && close[end].point == close[first].point &&
           close[end].fastest == close[first].fastest;
         ++end) {
      rivals += fmt::format("{}{} (+{:.1f} %)",
                            rivals.empty() ? "" : ", ",
                            close[end].plan,
                            100 * close[end].difference);
    }
    sentences.push_back(
        fmt::format("too close to call{}{}: {} and {} differ by less than {:.1f} %, the median "
                    "error of runs {}",
                    close[first].point.empty() ? "" : " at ",
                    close[first].point,
                    close[first].fastest,
                    rivals,
                    100 * close[first].band.median_error,
                    close[first].band.kind));
    first = end;
  }
  return sentences;
}

}  // namespace trireme::report
