#include "sim/report/study_tables.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "sim/report/accuracy_words.h"
#include "sim/report/memory_words.h"
#include "sim/report/numbers.h"

namespace trireme::report {

using ledger::PlanResult;
using ledger::PointValue;
using ledger::StepResult;
using ledger::Verdict;

namespace {

constexpr const char* kUnknown = "-";

const StepResult* step_of(const PlanResult& row) {
  return row.numbers && row.numbers->step ? &*row.numbers->step : nullptr;
}

bool runs(const PlanResult& row) {
  return row.verdict == Verdict::fits && step_of(row) != nullptr;
}

std::string_view verdict_in_words(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "it fits";
    case Verdict::tight:
      return "it is tight";
    case Verdict::does_not_fit:
      return "it does not fit";
    case Verdict::illegal:
      return "it is illegal";
  }
  return "";
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

/// Whether some row has tensors on its host.
bool host_in_use(const std::vector<PlanResult>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const PlanResult& row) {
    return row.numbers && row.numbers->host.per_rank > Bytes(0);
  });
}

/// The columns of seconds that some row fills.
struct TimeColumns {
  bool both_engines = false;
  bool quantiles = false;
  bool exposed = false;  // by collective
  bool law = false;
};

TimeColumns time_columns(const std::vector<PlanResult>& rows) {
  TimeColumns columns;
  for (const PlanResult& row : rows) {
    const StepResult* step = step_of(row);
    columns.law = columns.law || row.law.has_value();
    if (step != nullptr) {
      columns.both_engines =
          columns.both_engines || (row.numbers->by_reader.analytic && row.numbers->by_reader.event);
      columns.quantiles = columns.quantiles || step->distribution.has_value();
      columns.exposed = columns.exposed || step->exposed_is_split;
    }
  }
  return columns;
}

void add_titles(const TimeColumns& there, Table& table) {
  if (there.both_engines) {
    table.columns.push_back({"analytic step", Align::right});
  }
  table.columns.push_back({there.both_engines ? "event step" : "step", Align::right});
  if (there.quantiles) {
    table.columns.insert(table.columns.end(),
                         {{"p05", Align::right}, {"p50", Align::right}, {"p95", Align::right}});
  }
  table.columns.insert(table.columns.end(),
                       {{"tokens/s/GPU", Align::right}, {"MFU", Align::right}});
  if (there.exposed) {
    table.columns.push_back({"exposed communication", Align::left});
  }
  table.columns.push_back({"bound by", Align::left});
  if (there.law) {
    table.columns.push_back({"law", Align::right});
  }
}

/// "98.7 ms, most of it all to all", or of one collective alone "98.7 ms of all to all".
std::string exposed_text(const ledger::TimeLedger& time) {
  const auto& split = time.exposed_by_collective;
  const auto largest = std::max_element(split.begin(), split.end());
  if (*largest <= Seconds(0)) {
    return human(time.exposed_communication);
  }
  const auto several = std::count_if(
      split.begin(), split.end(), [](Seconds seconds) { return seconds > Seconds(0); });
  return fmt::format("{}{}{}",
                     human(time.exposed_communication),
                     several > 1 ? ", most of it " : " of ",
                     words(kCollectiveNames[static_cast<std::size_t>(largest - split.begin())]));
}

void add_seconds(const PlanResult& row, const TimeColumns& there, std::vector<std::string>& cells) {
  const StepResult* step = step_of(row);
  const auto of_step = [&](auto text_of) {
    cells.push_back(step == nullptr ? std::string(kUnknown) : text_of(*step));
  };
  if (there.both_engines) {
    const bool known = row.numbers && row.numbers->by_reader.analytic;
    cells.push_back(known ? human(row.numbers->by_reader.analytic->step) : kUnknown);
  }
  of_step([](const StepResult& s) { return human(s.time.step); });
  if (there.quantiles) {
    const auto quantile = [&](Seconds ledger::StepDistribution::*which) {
      of_step([&](const StepResult& s) {
        return s.distribution ? fine((*s.distribution).*which) : std::string(kUnknown);
      });
    };
    quantile(&ledger::StepDistribution::quantile_05);
    quantile(&ledger::StepDistribution::median);
    quantile(&ledger::StepDistribution::quantile_95);
  }
  of_step([](const StepResult& s) { return with_thousands(s.tokens_per_second_per_gpu); });
  of_step([](const StepResult& s) { return percent(s.mfu); });
  if (there.exposed) {
    of_step([](const StepResult& s) { return exposed_text(s.time); });
  }
  of_step([](const StepResult& s) { return words(name(s.bound_by)); });
  if (there.law) {
    cells.push_back(row.law ? human(*row.law) : kUnknown);
  }
}

void add_sizes(const PlanResult& row,
               const std::vector<LinkClass>& links,
               bool with_host,
               std::vector<std::string>& cells) {
  cells.push_back(row.numbers ? gibibytes(row.numbers->memory.allocated) : kUnknown);
  cells.push_back(row.numbers ? range_in_gibibytes(row.numbers->device) : kUnknown);
  cells.push_back(gibibytes(row.capacity));
  cells.push_back(row.numbers ? gibibytes(row.numbers->bytes.sent) : kUnknown);
  for (const LinkClass link : links) {
    cells.push_back(row.numbers ? gibibytes(sent_over(row, link)) : kUnknown);
  }
  if (with_host) {
    const auto of_row = [&](auto bytes_of) {
      cells.push_back(row.numbers ? gibibytes(bytes_of(*row.numbers)) : kUnknown);
    };
    of_row([](const auto& numbers) { return numbers.bytes.to_host; });
    of_row([](const auto& numbers) { return numbers.bytes.to_device; });
    of_row([](const auto& numbers) { return numbers.host.per_node; });
  }
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
                        {"device GiB", Align::right},
                        {"of GiB", Align::right},
                        {"sent GiB", Align::right}});
  const std::vector<LinkClass> links = links_in_use(rows);
  for (const LinkClass link : links) {
    table.columns.push_back({link_title(link), Align::right});
  }
  const bool with_host = host_in_use(rows);
  if (with_host) {
    table.columns.insert(table.columns.end(),
                         {{"to host GiB", Align::right},
                          {"from host GiB", Align::right},
                          {"node's host GiB", Align::right}});
  }
  const TimeColumns there = time_columns(rows);
  add_titles(there, table);
  for (const PlanResult& row : rows) {
    std::vector<std::string> cells = point_columns.cells(row);
    cells.push_back(row.plan);
    cells.push_back(words(name(row.verdict)));
    add_sizes(row, links, with_host, cells);
    add_seconds(row, there, cells);
    table.add(std::move(cells));
  }
  return table;
}

std::string to_terminal(const ledger::StudyResult& result, bool color) {
  std::string text = to_terminal(results_table(result.rows), color);
  for (const std::string& said : what_if_sentences(result.rows)) {
    text += said + '\n';
  }
  for (const std::string& said : trend_sentences(result)) {
    text += said + '\n';
  }
  return text;
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
    sentences.push_back(wall_sentence(wall));
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
      case Verdict::tight:
        text += fmt::format("{} is tight ({} to {} of {})",
                            row.plan,
                            human(row.numbers->device.total_low()),
                            human(row.numbers->device.total_high()),
                            human(row.capacity));
        break;
      case Verdict::does_not_fit:
        text += fmt::format("{} does not fit ({} of {})",
                            row.plan,
                            human(row.numbers->device.total_low()),
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

std::string engine_in_words(ledger::Engine engine) {
  return engine == ledger::Engine::both ? "both engines"
                                        : fmt::format("the {} engine", name(engine));
}

std::vector<std::string> reasons_of(const PlanResult& row) {
  std::vector<std::string> reasons;
  if (row.numbers) {
    reasons.push_back(memory_in_words(row.numbers->memory, row.numbers->device, row.capacity));
    if (!row.numbers->host.holds_it()) {
      reasons.push_back(host_in_words(row.numbers->host));
    }
  }
  if (row.next_lever) {
    reasons.push_back(in_words(*row.next_lever));
  }
  reasons.insert(reasons.end(), row.reasons.begin(), row.reasons.end());
  return reasons;
}

std::string sentence(const ledger::FailedRequirement& failed) {
  if (failed.fits) {
    return fmt::format("requires fits: {}, but {}", *failed.fits, verdict_in_words(failed.verdict));
  }
  return fmt::format("requires exposed_communication < {:.4g} %, but {}",
                     100 * failed.exposed_below,
                     failed.exposed_fraction
                         ? fmt::format("it is {:.4g} %", 100 * *failed.exposed_fraction)
                         : "that is not known");
}

std::vector<std::string> what_if_sentences(const std::vector<PlanResult>& rows) {
  std::vector<std::string> sentences;
  for (std::size_t i = 0; !rows.empty() && i < rows.front().what_if.size(); ++i) {
    const std::string& said = rows.front().what_if[i];
    if (std::all_of(rows.begin(), rows.end(), [&](const PlanResult& row) {
          return std::find(row.what_if.begin(), row.what_if.end(), said) != row.what_if.end();
        })) {
      sentences.push_back("what if: " + said);
    }
  }
  return sentences;
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
    for (const std::string& reason : reasons_of(row)) {
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
      "the coefficients of profile `{}`, by {}. Accuracy of a step: {}.\n\n",
      result.model,
      result.gpus,
      result.cluster,
      result.profile,
      engine_in_words(result.engine),
      accuracy_band(result.rows));
  text += bullets(result.settings);
  text += bullets(what_if_sentences(result.rows));
  text += "\n## Results\n\n";
  text += "Sent and peak are per rank, of the rank that sends most. MFU counts causal attention\n";
  text += fmt::format("halved. All numbers, unrounded: `{}`.\n\n", table_file);
  text += to_markdown(results_table(result.rows));
  text += "\n## Who wins\n\n";
  text += to_markdown(winners_table(result.rows));
  std::vector<std::string> trends = trend_sentences(result);
  for (std::string& sentence : close_calls(result.too_close)) {
    trends.push_back(std::move(sentence));
  }
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
      bullets({"fragmentation of an allocator's memory: what it reserves is a measured share of "
               "what tensors take, with its spread",
               "what a framework holds or computes beyond the closed forms of a plan",
               "sizes of a framework's buckets: what is hidden is hidden a block at a time",
               result.engine == ledger::Engine::analytic
                   ? "contention for links, kernels and collectives that slow each other, slow "
                     "ranks and jitter: the event engine has them, and `--engine event` its seconds"
                   : "traffic of other jobs on the same links",
               "host time beyond the launch of each kernel"});
  text += "\n## How to reproduce\n\n";
  text += fmt::format("```\ntrireme report {}{} -o DIR\n```\n",
                      file_name(result.file),
                      result.engine == ledger::Engine::analytic
                          ? ""
                          : fmt::format(" --engine {}", name(result.engine)));
  return text;
}

}  // namespace trireme::report
