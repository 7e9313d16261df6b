#include "sim/report/study_tables.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "sim/report/numbers.h"

namespace trireme::report {

using ledger::PlanResult;
using ledger::PointValue;
using ledger::StepResult;
using ledger::Verdict;

namespace {

constexpr const char* kUnknown = "-";

std::string words(std::string_view name_with_underscores) {
  std::string text(name_with_underscores);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

const StepResult* step_of(const PlanResult& row) {
  return row.numbers && row.numbers->step ? &*row.numbers->step : nullptr;
}

bool runs(const PlanResult& row) {
  return row.verdict == Verdict::fits && step_of(row) != nullptr;
}

/// Places in a point of the keys that vary over the rows. Rows of other keys than the first row's
/// keep all.
std::vector<std::size_t> varying_keys(const std::vector<PlanResult>& rows) {
  std::vector<std::size_t> varying;
  for (std::size_t i = 0; !rows.empty() && i < rows.front().point.size(); ++i) {
    const PointValue& first = rows.front().point[i];
    const bool varies = std::any_of(rows.begin(), rows.end(), [&](const PlanResult& row) {
      return i >= row.point.size() || row.point[i].key != first.key ||
             row.point[i].value != first.value;
    });
    if (varies) {
      varying.push_back(i);
    }
  }
  return varying;
}

bool same_keys(const std::vector<PlanResult>& rows) {
  return std::all_of(rows.begin(), rows.end(), [&](const PlanResult& row) {
    return std::equal(row.point.begin(),
                      row.point.end(),
                      rows.front().point.begin(),
                      rows.front().point.end(),
                      [](const PointValue& a, const PointValue& b) { return a.key == b.key; });
  });
}

/// The leading columns of a table of points: one for each key that varies, or the whole point as
/// text where rows of the sweep name different keys.
class PointColumns {
 public:
  PointColumns(const std::vector<PlanResult>& rows, Table& table)
      : as_text_(!rows.empty() && !same_keys(rows)) {
    if (as_text_) {
      table.columns.push_back({"point", Align::left});
      return;
    }
    keys_ = varying_keys(rows);
    for (const std::size_t key : keys_) {
      table.columns.push_back({rows.front().point[key].key, Align::right});
    }
  }

  [[nodiscard]] std::vector<std::string> cells(const PlanResult& row) const {
    if (as_text_) {
      return {point_text(row.point)};
    }
    std::vector<std::string> cells;
    for (const std::size_t key : keys_) {
      cells.push_back(row.point[key].text);
    }
    return cells;
  }

 private:
  bool as_text_;
  std::vector<std::size_t> keys_;
};

Bytes sent_over(const PlanResult& row, LinkClass link) {
  return row.numbers->bytes.sent_by_link[ledger::index(link)];
}

/// The links that some row uses.
std::vector<LinkClass> links_in_use(const std::vector<PlanResult>& rows) {
  std::vector<LinkClass> used;
  for (std::size_t i = 0; i < kLinkNames.size(); ++i) {
    const auto link = static_cast<LinkClass>(i);
    if (std::any_of(rows.begin(), rows.end(), [&](const PlanResult& row) {
          return row.numbers && sent_over(row, link) > Bytes(0);
        })) {
      used.push_back(link);
    }
  }
  return used;
}

std::string link_title(LinkClass link) {
  switch (link) {
    case LinkClass::nvlink:
      return "NVLink GiB";
    case LinkClass::nic:
      return "NIC GiB";
    case LinkClass::pcie:
      return "PCIe GiB";
  }
  return "";
}

void add_numbers(const PlanResult& row,
                 const std::vector<LinkClass>& links,
                 std::vector<std::string>& cells) {
  cells.push_back(row.numbers ? gibibytes(row.numbers->memory.allocated) : kUnknown);
  cells.push_back(gibibytes(row.capacity));
  cells.push_back(row.numbers ? gibibytes(row.numbers->bytes.sent) : kUnknown);
  for (const LinkClass link : links) {
    cells.push_back(row.numbers ? gibibytes(sent_over(row, link)) : kUnknown);
  }
  const StepResult* step = step_of(row);
  cells.push_back(step == nullptr ? kUnknown : human(step->time.step));
  cells.push_back(step == nullptr ? kUnknown : with_thousands(step->tokens_per_second_per_gpu));
  cells.push_back(step == nullptr ? kUnknown : percent(step->mfu));
  cells.push_back(step == nullptr ? kUnknown : words(name(step->bound_by)));
}

/// The rows of each point, in order.
std::vector<std::vector<PlanResult>> by_point(const std::vector<PlanResult>& rows) {
  std::vector<std::vector<PlanResult>> points;
  for (const PlanResult& row : rows) {
    const auto same = [&](const PlanResult& other) {
      return std::equal(row.point.begin(),
                        row.point.end(),
                        other.point.begin(),
                        other.point.end(),
                        [](const PointValue& a, const PointValue& b) {
                          return a.key == b.key && a.text == b.text;
                        });
    };
    if (points.empty() || !same(points.back().front())) {
      points.emplace_back();
    }
    points.back().push_back(row);
  }
  return points;
}

/// The rows that fit and whose step time is known, fastest first.
std::vector<const PlanResult*> ranking(const std::vector<PlanResult>& rows) {
  std::vector<const PlanResult*> ranked;
  for (const PlanResult& row : rows) {
    if (runs(row)) {
      ranked.push_back(&row);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const PlanResult* a, const PlanResult* b) {
    return step_of(*a)->time.step < step_of(*b)->time.step;
  });
  return ranked;
}

/// What costs `loser` the most seconds against `winner`.
std::string why_slower(const PlanResult& loser, const PlanResult& winner) {
  const ledger::TimeLedger& lost = step_of(loser)->time;
  const ledger::TimeLedger& won = step_of(winner)->time;
  const std::array<Seconds, ledger::kBoundNames.size()> more = {
      lost.attention - won.attention,
      lost.gemm - won.gemm,
      lost.memory_bound - won.memory_bound,
      lost.exposed_communication - won.exposed_communication};
  const auto largest = std::max_element(more.begin(), more.end());
  switch (static_cast<ledger::Bound>(largest - more.begin())) {
    case ledger::Bound::attention:
      return fmt::format("{} computes attention for {} more", loser.plan, human(*largest));
    case ledger::Bound::matrix_products:
      return fmt::format("{} computes matrix products for {} more", loser.plan, human(*largest));
    case ledger::Bound::memory_bound_kernels:
      return fmt::format("{} spends {} more in memory-bound kernels", loser.plan, human(*largest));
    case ledger::Bound::communication:
      return fmt::format("{} waits {} longer for communication (it sends {} per rank, {} sends {})",
                         loser.plan,
                         human(*largest),
                         human(loser.numbers->bytes.sent),
                         winner.plan,
                         human(winner.numbers->bytes.sent));
  }
  return "";
}

Table winners_table(const std::vector<PlanResult>& rows) {
  Table table;
  const PointColumns point_columns(rows, table);
  table.columns.insert(table.columns.end(),
                       {{"fastest that fits", Align::left},
                        {"step", Align::right},
                        {"next", Align::left},
                        {"step", Align::right},
                        {"longer by", Align::right}});
  for (const std::vector<PlanResult>& point : by_point(rows)) {
    std::vector<std::string> cells = point_columns.cells(point.front());
    const std::vector<const PlanResult*> ranked = ranking(point);
    for (std::size_t place = 0; place < 2; ++place) {
      const bool there = place < ranked.size();
      cells.push_back(there ? ranked[place]->plan : kUnknown);
      cells.push_back(there ? human(step_of(*ranked[place])->time.step) : kUnknown);
    }
    cells.push_back(
        ranked.size() < 2
            ? kUnknown
            : percent(ratio(step_of(*ranked[1])->time.step, step_of(*ranked[0])->time.step) - 1));
    table.add(std::move(cells));
  }
  return table;
}

/// The last part of a path.
std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string bullets(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += "- " + line + '\n';
  }
  return text;
}

}  // namespace

std::string point_text(const std::vector<PointValue>& point) {
  std::string text;
  for (const PointValue& value : point) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value.key, value.text);
  }
  return text;
}

Table results_table(const std::vector<PlanResult>& rows) {
  Table table;
  const PointColumns point_columns(rows, table);
  table.columns.insert(table.columns.end(),
                       {{"plan", Align::left},
                        {"verdict", Align::left},
                        {"peak GiB", Align::right},
                        {"of GiB", Align::right},
                        {"sent GiB", Align::right}});
  const std::vector<LinkClass> links = links_in_use(rows);
  for (const LinkClass link : links) {
    table.columns.push_back({link_title(link), Align::right});
  }
  table.columns.insert(table.columns.end(),
                       {{"step", Align::right},
                        {"tokens/s/GPU", Align::right},
                        {"MFU", Align::right},
                        {"bound by", Align::left}});
  const bool has_law = std::any_of(
      rows.begin(), rows.end(), [](const PlanResult& row) { return row.law.has_value(); });
  if (has_law) {
    table.columns.push_back({"law", Align::right});
  }
  for (const PlanResult& row : rows) {
    std::vector<std::string> cells = point_columns.cells(row);
    cells.push_back(row.plan);
    cells.push_back(words(name(row.verdict)));
    add_numbers(row, links, cells);
    if (has_law) {
      cells.push_back(row.law ? human(*row.law) : kUnknown);
    }
    table.add(std::move(cells));
  }
  return table;
}

std::vector<std::string> trend_sentences(const ledger::StudyResult& result) {
  std::vector<std::string> sentences;
  for (const ledger::Crossover& crossing : result.crossovers) {
    sentences.push_back(fmt::format("parity of {} and {} at {} {}: {} is faster below, {} above",
                                    crossing.below,
                                    crossing.above,
                                    crossing.key,
                                    along_key(crossing.key, crossing.at),
                                    crossing.below,
                                    crossing.above));
  }
  for (const ledger::MemoryWall& wall : result.walls) {
    sentences.push_back(wall.last_that_fits
                            ? fmt::format("memory wall of {}: {} {} fits, {} does not",
                                          wall.plan,
                                          wall.key,
                                          wall.last_that_fits->text,
                                          wall.first_that_does_not.text)
                            : fmt::format("memory wall of {}: not even {} {} fits",
                                          wall.plan,
                                          wall.key,
                                          wall.first_that_does_not.text));
  }
  return sentences;
}

std::string why_the_others_lose(const std::vector<PlanResult>& rows) {
  const std::vector<const PlanResult*> ranked = ranking(rows);
  if (ranked.empty() || rows.size() < 2) {
    return "";
  }
  const PlanResult& winner = *ranked.front();
  std::string text;
  for (const PlanResult& row : rows) {
    if (&row == &winner) {
      continue;
    }
    text += text.empty() ? "" : "; ";
    switch (row.verdict) {
      case Verdict::illegal:
        text += fmt::format("{} is illegal", row.plan);
        break;
      case Verdict::does_not_fit:
        text += fmt::format("{} does not fit ({} of {})",
                            row.plan,
                            human(row.numbers->memory.allocated),
                            human(row.capacity));
        break;
      case Verdict::fits:
        text += step_of(row) == nullptr ? fmt::format("the step time of {} is not known", row.plan)
                                        : why_slower(row, winner);
        break;
    }
  }
  return fmt::format("{} is the fastest that fits: {}.", winner.plan, text);
}

std::vector<std::string> problems(const std::vector<PlanResult>& rows) {
  struct Problem {
    const PlanResult* first;
    std::string reason;
    std::size_t points = 1;
  };

  std::vector<Problem> found;
  for (const PlanResult& row : rows) {
    if (runs(row)) {
      continue;
    }
    for (const std::string& reason : row.reasons) {
      const auto known = std::find_if(found.begin(), found.end(), [&](const Problem& problem) {
        return problem.first->plan == row.plan && problem.reason == reason;
      });
      if (known == found.end()) {
        found.push_back({&row, reason});
      } else {
        ++known->points;
      }
    }
  }
  std::vector<std::string> lines;
  for (const Problem& problem : found) {
    const std::string more =
        problem.points > 1 ? fmt::format(" and {} more", problem.points - 1) : "";
    lines.push_back(fmt::format("{} ({}{}), {}: {}",
                                problem.first->plan,
                                point_text(problem.first->point),
                                more,
                                words(name(problem.first->verdict)),
                                problem.reason));
  }
  return lines;
}

std::vector<std::string> remarks(const std::vector<PlanResult>& rows) {
  std::vector<std::string> lines;
  for (const PlanResult& row : rows) {
    for (const std::string& reason : row.reasons) {
      if (runs(row) && std::find(lines.begin(), lines.end(), reason) == lines.end()) {
        lines.push_back(reason);
      }
    }
  }
  const std::vector<std::string> trouble = problems(rows);
  lines.insert(lines.end(), trouble.begin(), trouble.end());
  return lines;
}

std::string to_markdown(const ledger::StudyResult& result,
                        const std::string& table_file,
                        const std::vector<TimelineFigure>& timelines) {
  std::string text = fmt::format("# {}\n\n", result.name);
  text += fmt::format(
      "Which plan trains `{}` fastest on {} GPUs of `{}`, and which fit?\n"
      "Bytes and peak memory are exact sums over the step program of each plan; seconds follow "
      "from\n"
      "the coefficients of profile `{}`. Accuracy band: none yet.\n\n",
      result.model,
      result.gpus,
      result.cluster,
      result.profile);
  text += bullets(result.settings);
  text += "\n## Results\n\n";
  text += "Sent and peak are per rank, of the rank that sends most. MFU counts causal attention\n";
  text += fmt::format("halved. All numbers, unrounded: `{}`.\n\n", table_file);
  text += to_markdown(results_table(result.rows));
  text += "\n## Who wins\n\n";
  text += to_markdown(winners_table(result.rows));
  const std::vector<std::string> trends = trend_sentences(result);
  if (!trends.empty()) {
    text += '\n' + bullets(trends);
  }
  text += "\nWhy the others lose at the ends of the sweep:\n\n";
  const auto points = by_point(result.rows);
  std::vector<std::string> reasons;
  for (const std::vector<PlanResult>* point : {&points.front(), &points.back()}) {
    const std::string why = why_the_others_lose(*point);
    if (!why.empty()) {
      reasons.push_back(fmt::format("{}: {}", point_text(point->front().point), why));
    }
    if (points.size() == 1) {
      break;
    }
  }
  text += reasons.empty() ? "no plan fits whose step time is known.\n" : bullets(reasons);
  const std::vector<std::string> trouble = problems(result.rows);
  if (!trouble.empty()) {
    text += "\nWhat does not run:\n\n" + bullets(trouble);
  }
  if (!timelines.empty()) {
    text += "\n## Where a step's time goes\n\n";
    text +=
        "One step of each plan at the study's base point, by the event engine. What lies on the\n";
    text += "critical path is underlined: only that shortens the step.\n";
    for (const TimelineFigure& figure : timelines) {
      text += fmt::format("\n### {0}\n\n![Timeline of {0}]({1})\n\n", figure.plan, figure.file);
      text += bullets(figure.critical_path);
    }
  }
  text += "\n## What is not modelled\n\n";
  text +=
      bullets({"memory that an allocator reserves beyond what tensors take, and memory outside "
               "the allocator (CUDA context, NCCL buffers, library workspaces)",
               "what a framework holds or computes beyond the closed forms of a plan",
               "communication hidden behind computing where a framework would hide it, "
               "contention between streams, stragglers and jitter",
               "host time beyond the launch of each kernel"});
  text += "\n## How to reproduce\n\n";
  text += fmt::format("```\ntrireme report {} -o DIR\n```\n", file_name(result.file));
  return text;
}

}  // namespace trireme::report
