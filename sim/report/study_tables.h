// Tables and sentences about a study's result, for people.
#pragma once

#include <string>
#include <vector>

#include "sim/ledger/explanation.h"
#include "sim/ledger/result.h"
#include "sim/report/table.h"

namespace trireme::report {

/// A row per result. Keys that vary over the rows lead it as columns; where rows name different
/// keys, the whole point does.
[[nodiscard]] Table results_table(const std::vector<ledger::PlanResult>& rows);

/// The table, what is otherwise in all rows, and what a sweep shows as a whole.
[[nodiscard]] std::string to_terminal(const ledger::StudyResult& result, bool color);

/// "workload.sequence 64K, cluster.nodes 2" of a point.
[[nodiscard]] std::string point_text(const std::vector<ledger::PointValue>& point);

/// One sentence per crossover and memory wall: "parity of A and B at workload.sequence 61K: ...".
[[nodiscard]] std::vector<std::string> trend_sentences(const ledger::StudyResult& result);

/// Why the plans that are not the fastest of those that fit lose: one sentence, from their ledgers.
/// Empty when no plan fits or there is one plan.
[[nodiscard]] std::string why_the_others_lose(const std::vector<ledger::PlanResult>& rows);

/// "plan (point), verdict: reason" of every row that does not fit, is illegal or has unknown
/// seconds; the points of one plan with the same reason in one line.
[[nodiscard]] std::vector<std::string> problems(const std::vector<ledger::PlanResult>& rows);

/// "the event engine", "both engines".
[[nodiscard]] std::string engine_in_words(ledger::Engine engine);

/// Why a plan has its verdict, what its numbers leave out, and what is to be known about them.
[[nodiscard]] std::vector<std::string> reasons_of(const ledger::PlanResult& row);

/// "requires fits: true, but it does not fit".
[[nodiscard]] std::string sentence(const ledger::FailedRequirement& failed);

/// What is otherwise in every row than cluster and plans are: "what if: NVLink of 0.5 times its
/// bandwidth". What differs from row to row stands in the rows' points.
[[nodiscard]] std::vector<std::string> what_if_sentences(
    const std::vector<ledger::PlanResult>& rows);

/// The problems, led by what is to be known about the rows that fit, each said once.
[[nodiscard]] std::vector<std::string> remarks(const std::vector<ledger::PlanResult>& rows);

/// A plan's timeline beside a report: the file of its Gantt chart, and its critical path in words.
struct TimelineFigure {
  std::string plan;
  std::string file;
  std::vector<std::string> critical_path;
};

/// The whole report of a study in markdown. `table_file` names the file with all numbers.
[[nodiscard]] std::string to_markdown(const ledger::StudyResult& result,
                                      const std::string& table_file,
                                      const std::vector<TimelineFigure>& timelines);

/// An explanation as text: where every number comes from, memory, shapes, owners.
[[nodiscard]] std::string to_terminal(const ledger::Explanation& explanation, bool color);

}  // namespace trireme::report
