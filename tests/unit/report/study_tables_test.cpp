#include "sim/report/study_tables.h"

#include "tests/catch.h"

namespace trireme::report {
namespace {

constexpr std::int64_t kGiB = 1LL << 30;

ledger::PlanResult row(const std::string& plan, std::int64_t tokens, double seconds, double waits) {
  ledger::PlanResult result;
  result.plan = plan;
  result.point = {{"workload.sequence", std::to_string(tokens / 1024) + "K", tokens}};
  result.verdict = ledger::Verdict::fits;
  result.capacity = Bytes(80 * kGiB);
  ledger::PlanNumbers& numbers = result.numbers.emplace();
  numbers.bytes.book({}, Bytes(2 * kGiB), Bytes(0), Bytes(2 * kGiB));
  numbers.memory.allocated = Bytes(10 * kGiB);
  numbers.device.reserved_low = Bytes(11 * kGiB);
  numbers.device.reserved_high = Bytes(13 * kGiB);
  numbers.device.outside[ledger::index(ledger::OutsideItem::cuda_context)] = Bytes(kGiB);
  ledger::StepResult& step = numbers.step.emplace();
  step.time.step = Seconds(seconds);
  step.time.exposed_communication = Seconds(waits);
  step.tokens_per_second_per_gpu = 1234.4;
  step.mfu = 0.5;
  return result;
}

ledger::PlanResult illegal(const std::string& plan, std::int64_t tokens) {
  ledger::PlanResult result = row(plan, tokens, 1, 0);
  result.verdict = ledger::Verdict::illegal;
  result.reasons = {"heads: 5 ranks for 32 heads"};
  result.numbers.reset();
  return result;
}

TEST_CASE("columns are the keys that vary and the links in use", "[unit]") {
  CHECK(to_terminal(results_table({row("a", 1024, 1, 0), illegal("b", 1024)}), false) ==
        "plan  verdict  peak GiB   device GiB  of GiB  sent GiB  NVLink GiB  step  tokens/s/GPU  "
        "   MFU  bound by\n"
        "----  -------  --------  -----------  ------  --------  ----------  ----  ------------  "
        "------  ---------\n"
        "a     fits        10.00  12.00-14.00   80.00      2.00        2.00   1 s         1,234  "
        "50.0 %  attention\n"
        "b     illegal         -            -   80.00         -           -     -             -  "
        "     -  -\n");
  const Table two = results_table({row("a", 1024, 1, 0), row("a", 2048, 2, 0)});
  CHECK(two.columns.front().title == "workload.sequence");
  CHECK(two.rows[1].front() == "2K");
}

TEST_CASE("columns of seconds are those that some row fills", "[unit]") {
  ledger::PlanResult event = row("a", 1024, 1, 0.25);
  event.numbers->step->exposed_is_split = true;
  auto& split = event.numbers->step->time.exposed_by_collective;
  split[ledger::index(CollectiveKind::all_gather)] = Seconds(0.25);
  CHECK(to_terminal(results_table({event}), false).find("250 ms of all gather") !=
        std::string::npos);
  split[ledger::index(CollectiveKind::all_to_all)] = Seconds(0.5);
  CHECK(to_terminal(results_table({event}), false).find("250 ms, most of it all to all") !=
        std::string::npos);

  ledger::PlanResult both = row("a", 1024, 1, 0);
  both.numbers->by_reader.event = both.numbers->step->time;
  both.numbers->by_reader.analytic = both.numbers->step->time;
  both.numbers->by_reader.analytic->step = Seconds(2);
  auto& runs = both.numbers->step->distribution.emplace();
  runs.quantile_05 = Seconds(0.98765);
  runs.median = Seconds(1.00001);
  runs.quantile_95 = Seconds(1.01234);
  const Table table = results_table({both, illegal("b", 1024)});
  std::vector<std::string> titles;
  for (const Column& column : table.columns) {
    titles.push_back(column.title);
  }
  CHECK(titles == std::vector<std::string>{"plan",
                                           "verdict",
                                           "peak GiB",
                                           "device GiB",
                                           "of GiB",
                                           "sent GiB",
                                           "NVLink GiB",
                                           "analytic step",
                                           "event step",
                                           "p05",
                                           "p50",
                                           "p95",
                                           "tokens/s/GPU",
                                           "MFU",
                                           "bound by"});
  CHECK(table.rows[0][7] == "2 s");
  CHECK(table.rows[0][8] == "1 s");
  CHECK(table.rows[0][9] == "987.65 ms");
  CHECK(table.rows[0][10] == "1 s");
  CHECK(table.rows[0][11] == "1.0123 s");
  CHECK(table.rows[1][7] == "-");
  CHECK(table.rows[1][11] == "-");
}

TEST_CASE("what is otherwise in every row is said with the table", "[unit]") {
  ledger::StudyResult result;
  result.rows = {row("a", 1024, 1, 0), row("b", 1024, 1, 0)};
  CHECK(what_if_sentences(result.rows).empty());
  result.rows[0].what_if = {"NVLink of 0.5 times its bandwidth", "nothing overlaps"};
  result.rows[1].what_if = {"NVLink of 0.25 times its bandwidth", "nothing overlaps"};
  // The bandwidth differs from row to row: their points say it.
  CHECK(what_if_sentences(result.rows) == std::vector<std::string>{"what if: nothing overlaps"});
  CHECK(to_terminal(result, false).find("\nwhat if: nothing overlaps\n") != std::string::npos);
  CHECK(to_markdown(result, "table.csv", {}).find("- what if: nothing overlaps\n") !=
        std::string::npos);
}

TEST_CASE("a failed requirement says what is required and what is", "[unit]") {
  ledger::FailedRequirement failed;
  failed.fits = true;
  failed.verdict = ledger::Verdict::does_not_fit;
  CHECK(sentence(failed) == "requires fits: true, but it does not fit");
  failed.fits.reset();
  failed.exposed_below = 0.2;
  CHECK(sentence(failed) == "requires exposed_communication < 20 %, but that is not known");
  failed.exposed_fraction = 0.25;
  CHECK(sentence(failed) == "requires exposed_communication < 20 %, but it is 25 %");
}

TEST_CASE("a plan that does not fit names its largest items", "[unit]") {
  ledger::PlanResult large = row("c", 1024, 1, 0);
  large.verdict = ledger::Verdict::does_not_fit;
  ledger::MemoryLedger& memory = large.numbers->memory;
  memory.allocated = Bytes(100 * kGiB);
  memory.instant = "backward";
  memory.by_item[ledger::index(MemoryItem::parameters)] = Bytes(30 * kGiB);
  memory.by_item[ledger::index(MemoryItem::saved_activations)] = Bytes(60 * kGiB);
  memory.by_item[ledger::index(MemoryItem::gradients)] = Bytes(10 * kGiB);
  large.numbers->device.reserved_low = Bytes(101 * kGiB);
  large.numbers->device.reserved_high = Bytes(108 * kGiB);
  large.next_lever = {"recompute: full", Bytes(50 * kGiB), ledger::Verdict::fits};
  large.reasons = {"and more"};
  const std::vector<std::string> reasons = reasons_of(large);
  REQUIRE(reasons.size() == 3);
  CHECK(reasons[0] ==
        "needs 102.00 to 109.00 GiB of 80.00 GiB: 100.00 allocated, 101.00 to 108.00 reserved, "
        "1.00 outside the allocator; fullest in (backward), where the largest items are saved "
        "activations 60.00 GiB, parameters 30.00 GiB, gradients 10.00 GiB");
  CHECK(reasons[1] == "next lever: 'recompute: full' saves 50.00 GiB, and the plan fits");
  CHECK(reasons[2] == "and more");
}

TEST_CASE("rows of a sweep that name different keys show the whole point", "[unit]") {
  ledger::StudyResult result;
  result.rows = {row("a", 1024, 1, 0), row("a", 2048, 2, 0)};
  result.rows[0].point.push_back({"cluster.nodes", "2", std::int64_t{2}});
  const Table table = results_table(result.rows);
  CHECK(table.columns.front().title == "point");
  CHECK(table.rows[0].front() == "workload.sequence 1K, cluster.nodes 2");
  CHECK(table.rows[1].front() == "workload.sequence 2K");
  const std::string text = to_markdown(result, "table.csv", {});
  CHECK(text.find("| workload.sequence 2K | a | 2 s | - | - | - |") != std::string::npos);
}

TEST_CASE("why the others lose follows from their ledgers", "[unit]") {
  ledger::PlanResult large = row("c", 1024, 0.5, 0);
  large.verdict = ledger::Verdict::does_not_fit;
  large.numbers->device.reserved_low = Bytes(99 * kGiB);
  CHECK(
      why_the_others_lose(
          {row("a", 1024, 3, 2.5), row("b", 1024, 1, 0.5), large, illegal("d", 1024)}) ==
      "b is the fastest that fits: a waits 2 s longer for communication (it sends 2 GiB per rank, "
      "b sends 2 GiB); c does not fit (100 GiB of 80 GiB); d is illegal.");
  ledger::PlanResult slow_attention = row("e", 1024, 2, 0);
  slow_attention.numbers->step->time.attention = Seconds(1.5);
  CHECK(why_the_others_lose({slow_attention, row("b", 1024, 1, 0)}) ==
        "b is the fastest that fits: e computes attention for 1.5 s more.");
  ledger::PlanResult tight = row("f", 1024, 0.5, 0);
  tight.verdict = ledger::Verdict::tight;
  CHECK(why_the_others_lose({tight, row("b", 1024, 1, 0)}) ==
        "b is the fastest that fits: f is tight (12 GiB to 14 GiB of 80 GiB).");
  CHECK(why_the_others_lose({illegal("d", 1024), illegal("e", 1024)}).empty());
  CHECK(why_the_others_lose({row("a", 1024, 1, 0)}).empty());
}

TEST_CASE("crossovers and walls are sentences", "[unit]") {
  ledger::StudyResult result;
  result.crossovers = {{"a", "b", "workload.sequence", 62464}};
  ledger::MemoryWall wall;
  wall.plan = "a";
  wall.key = "workload.sequence";
  wall.first_that_does_not = {"workload.sequence", "2M", std::int64_t{2097152}};
  result.walls = {wall};
  wall.last_that_fits = {"workload.sequence", "1M", std::int64_t{1048576}};
  result.walls.push_back(wall);
  wall.first_tight = {"workload.sequence", "1.5M", std::int64_t{1572864}};
  result.walls.push_back(wall);
  wall.first_that_does_not.reset();
  result.walls.push_back(wall);
  wall.last_that_fits.reset();
  result.walls.push_back(wall);
  const std::vector<std::string> sentences = trend_sentences(result);
  REQUIRE(sentences.size() == 6);
  CHECK(sentences[0] == "parity of a and b at workload.sequence 61K: a is faster below, b above");
  CHECK(sentences[1] == "memory wall of a: not even workload.sequence 2M fits");
  CHECK(sentences[2] == "memory wall of a: workload.sequence 1M fits, 2M does not");
  CHECK(sentences[3] == "memory wall of a: workload.sequence 1M fits, 1.5M is tight, 2M does not");
  CHECK(sentences[4] == "memory wall of a: workload.sequence 1M fits, 1.5M is tight");
  CHECK(sentences[5] == "memory wall of a: not even workload.sequence 1.5M fits, which is tight");
}

TEST_CASE("a reason that several points share is said once", "[unit]") {
  ledger::PlanResult first = row("a", 1024, 1, 0);
  ledger::PlanResult second = row("a", 2048, 1, 0);
  first.reasons = second.reasons = {"of both rows of a"};
  const std::vector<std::string> lines =
      remarks({first, illegal("b", 1024), second, illegal("b", 2048)});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "of both rows of a");  // and nothing on the memory of rows that fit
  CHECK(lines[1] == "b (workload.sequence 1K and 1 more), illegal: heads: 5 ranks for 32 heads");
}

TEST_CASE("the report names the winner of each point and how far ahead it is", "[unit]") {
  ledger::StudyResult result;
  result.name = "s";
  result.rows = {
      row("a", 1024, 1, 0), row("b", 1024, 1.25, 0.25), row("a", 2048, 3, 1), row("b", 2048, 2, 0)};
  const std::string text = to_markdown(result, "table.csv", {});
  CHECK(text.find("| 1K | a | 1 s | b | 1.25 s | 25.0 % |") != std::string::npos);
  CHECK(text.find("| 2K | b | 2 s | a | 3 s | 50.0 % |") != std::string::npos);
}

}  // namespace
}  // namespace trireme::report
