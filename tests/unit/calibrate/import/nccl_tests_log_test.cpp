#include <algorithm>

#include <fmt/format.h>

#include "calibrate/import/nccl_tests.h"
#include "tests/catch.h"
#include "tests/support/nccl_log.h"

namespace trireme::calibrate {
namespace {

using test::LogRecipe;
using test::nccl_log;
using test::nccl_rows;

ImportedLog read(const std::string& text, const Statements& statements = {}) {
  return read_nccl_tests_log(text, "logs/run 1.log", statements);
}

const CollectivePoint& point_of(const ImportedLog& log, std::size_t i) {
  return std::get<CollectivePoint>(log.measurements.at(i).point);
}

/// The only refusal of a log without a measurement.
std::string refusal_of(const std::string& text, const Statements& statements = {}) {
  const ImportedLog log = read(text, statements);
  CHECK(log.measurements.empty());
  CHECK(log.environments.empty());
  REQUIRE(log.refusals.size() == 1);
  return log.refusals.front().reason;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// The log without the lines that contain `words`.
std::string without(const std::string& text, const std::string& words) {
  std::string kept;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin) + 1;
    const std::string line = text.substr(begin, end - begin);
    kept += line.find(words) == std::string::npos ? line : "";
    begin = end;
  }
  return kept;
}

TEST_CASE("a whole log gives points, times and where they were measured", "[import]") {
  const ImportedLog log = read(
      "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n"
      "# Collective test starting: reduce_scatter_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) iters: 20 validation: 1\n"
      "# Using devices\n"
      "#  Rank  0 Group  0 Pid   1001 on     node01 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
      "#  Rank  1 Group  0 Pid   1002 on     node02 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
      "NCCL version 2.29.2+cuda12.8\n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong \n"
      "           0             0    double     sum      -1     0.66    0.00    0.00       0     "
      "0.47    0.00    0.00       0\n"
      "    33554432       2097152    double     sum      -1   798.52   42.02   21.01       0   "
      "857.09   39.15   19.57       0\n");
  CHECK(log.refusals.empty());
  CHECK(log.empty_rows == 1);
  REQUIRE(log.measurements.size() == 2);
  const CollectivePoint expected{.collective = CollectiveKind::reduce_scatter,
                                 .method = "nccl",
                                 .ranks = 2,
                                 .ranks_per_node = 1,
                                 .type = ElementType::fp64,
                                 .payload = Bytes(33554432)};
  CHECK(point_of(log, 0) == expected);
  CHECK(log.measurements[0].timing.median == Seconds(0.00079852));
  CHECK(log.measurements[0].timing.lower_quartile == Seconds(0.00079852));
  CHECK(log.measurements[0].timing.samples == 0);
  CHECK(point_of(log, 1).method == "nccl in place");
  CHECK(log.measurements[1].timing.median == Seconds(0.00085709));
  REQUIRE(log.environments.size() == 1);
  const Environment& environment = log.environments.front();
  CHECK(environment.key == "run_1");
  CHECK(log.measurements[0].environment == "run_1");
  CHECK(environment.source == "run 1.log");
  CHECK(environment.hosts == 2);
  CHECK(environment.devices_per_host == 1);
  CHECK(environment.device == "NVIDIA H100 80GB HBM3");
  CHECK(environment.nccl == "2.29.2");
  CHECK(environment.cuda == "12.8");
}

TEST_CASE("payloads of each collective are those of a plan", "[import]") {
  const auto [program, kind, in_place] = GENERATE(table<std::string, CollectiveKind, int>({
      {"all_reduce_perf", CollectiveKind::all_reduce, 1},
      {"all_gather_perf", CollectiveKind::all_gather, 1},
      {"reduce_scatter_perf", CollectiveKind::reduce_scatter, 1},
      {"alltoall_perf", CollectiveKind::all_to_all, 0},  // NCCL has none in place
      {"sendrecv_perf", CollectiveKind::send_recv, 0},
  }));
  LogRecipe recipe;
  recipe.program = program;
  recipe.ranks = 16;
  CAPTURE(program);
  const ImportedLog log = read(nccl_log(recipe));
  CHECK(log.refusals.empty());
  REQUIRE(log.measurements.size() == static_cast<std::size_t>(3 * (1 + in_place)));
  CHECK(point_of(log, 0).collective == kind);
  CHECK(point_of(log, 0).payload == Bytes(1 << 20));
  CHECK(point_of(log, 0).ranks == 16);
  CHECK(point_of(log, 0).ranks_per_node == 8);

  // Without its name the columns tell the same.
  const ImportedLog nameless = read(without(without(nccl_log(recipe), "starting"), "concluded"));
  REQUIRE(nameless.measurements.size() == log.measurements.size());
  CHECK(point_of(nameless, 0) == point_of(log, 0));
}

TEST_CASE("tables that follow each other are read apart", "[import]") {
  LogRecipe first;
  LogRecipe second;
  second.program = "alltoall_perf";
  second.ranks = 2;
  second.ranks_per_node = 2;
  const ImportedLog log = read(nccl_log(first) + nccl_log(second) + nccl_log(first));
  REQUIRE(log.measurements.size() == 6 + 3 + 6);
  CHECK(point_of(log, 0).ranks == 8);
  CHECK(point_of(log, 6).ranks == 2);
  CHECK(point_of(log, 6).collective == CollectiveKind::all_to_all);
  CHECK(point_of(log, 9) == point_of(log, 0));
  REQUIRE(log.environments.size() == 2);
  CHECK(log.environments[1].key == "run_1-2");
  CHECK(log.measurements[6].environment == "run_1-2");
  CHECK(log.measurements[9].environment == "run_1");
}

TEST_CASE("what a log does not say is stated, and not against it", "[import]") {
  LogRecipe recipe;
  recipe.ranks = 16;
  std::string table;
  for (const std::string& row : nccl_rows(recipe)) {
    table += row + '\n';
  }
  const std::string header =
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong\n";
  CHECK(refusal_of(header + table) == "the log does not say how many ranks a node has");
  Statements statements;
  statements.ranks_per_node = 8;
  statements.device = "NVIDIA H100";
  statements.nccl = "2.20.5";
  statements.date = "2026-11-30";
  statements.source = "our cluster";
  const ImportedLog log = read(header + table, statements);
  REQUIRE(log.measurements.size() == 6);
  CHECK(point_of(log, 0).ranks == 16);  // of 1.875 = 2 * 15 / 16
  CHECK(log.environments.at(0).device == "NVIDIA H100");
  CHECK(log.environments.at(0).nccl == "2.20.5");
  CHECK(log.environments.at(0).date == "2026-11-30");
  CHECK(log.environments.at(0).source == "our cluster");

  statements.ranks = 8;
  const ImportedLog contradicted = read(header + table, statements);
  CHECK(contradicted.measurements.empty());
  CHECK(contradicted.refusals.at(0).reason ==
        "the columns are those of no collective of 8 ranks, but of all_reduce of 16");
  statements.ranks = 16;
  statements.ranks_per_node = 3;
  CHECK(refusal_of(header + table, statements) == "16 ranks do not fill nodes of 3");

  const auto against = [&](const Statements& stated) {
    return refusal_of(nccl_log(recipe), stated);
  };
  CHECK(against({.ranks = 8}) == "--ranks says 8, the log lists 16");
  CHECK(against({.ranks_per_node = 4}) == "--ranks-per-node says 4, the log says 8");
  CHECK(against({.collective = "all_gather"}) ==
        "--collective says 'all_gather', the log says 'all_reduce'");
  CHECK(against({.device = "NVIDIA A100"}) ==
        "--device says 'NVIDIA A100', the log says 'NVIDIA H100 80GB HBM3'");
  CHECK(against({.nccl = "2.20.5"}) == "--nccl says '2.20.5', the log says '2.29.2'");
}

TEST_CASE("ranks that contradict the table are refused", "[import]") {
  LogRecipe recipe;
  const std::string log = nccl_log(recipe);
  // Seven of eight lines: 2 * 6 / 7 = 1.714 is not the 1.75 of the rows.
  const ImportedLog one_less = read(without(log, "Rank  7"));
  CHECK(one_less.measurements.empty());
  CHECK(one_less.refused_rows == 3);
  CHECK(one_less.refusals.at(0).reason ==
        "all_reduce: algorithm and bus bandwidth are not those of 7 ranks but of 8");
  CHECK(one_less.refusals.at(0).where.line == 17);

  CHECK(refusal_of(replaced(log, "Rank  7", "Rank  6")) ==
        "rank 6 is listed twice: these are several programs, not one");
  CHECK(refusal_of(replaced(log, "Rank  7 Group  0", "Rank  7 Group  1")) ==
        "several communicators ran at once");
  CHECK(refusal_of(replaced(log, "[0000:17:00] NVIDIA H100", "[0000:17:00] NVIDIA A100")) ==
        "the ranks run on different devices: 'NVIDIA H100 80GB HBM3' and 'NVIDIA A100 80GB HBM3'");
  recipe.ranks_per_node = 4;
  const std::string two_nodes = nccl_log(recipe);
  CHECK(refusal_of(replaced(two_nodes, "1007 on  host01", "1007 on  host00")) ==
        "nodes have 5 and 3 ranks");
  CHECK(refusal_of(replaced(replaced(two_nodes, "1007 on  host01", "1007 on  host00"),
                            "1000 on  host00",
                            "1000 on  host01")) ==
        "the ranks do not fill one node after the other");
  CHECK(refusal_of(replaced(log, "nThread 1 nGpus 1", "nThread 1 nGpus 3")) ==
        "8 ranks are not processes of 3 devices each");
}

TEST_CASE("one rank measures no link", "[import]") {
  for (const std::string program : {"all_reduce_perf", "sendrecv_perf", "alltoall_perf"}) {
    LogRecipe recipe;
    recipe.program = program;
    recipe.ranks = 1;
    CAPTURE(program);
    CHECK(refusal_of(nccl_log(recipe)) == "one rank sends to itself: that measures no link");
  }
}

TEST_CASE("a list of ranks with lines left out", "[import]") {
  LogRecipe recipe;
  recipe.ranks = 16;
  const std::string log = nccl_log(recipe);
  std::string ends = log;
  for (int rank = 2; rank < 14; ++rank) {
    ends = without(ends, fmt::format("Rank {:2} ", rank));
  }
  const std::string first = "#  Rank 14";
  const ImportedLog dots = read(replaced(ends, first, "...\n" + first));
  REQUIRE(dots.measurements.size() == 6);
  CHECK(point_of(dots, 0).ranks == 16);
  CHECK(point_of(dots, 0).ranks_per_node == 8);  // 15 % 8 = 7, the last rank's device
  CHECK(std::find(dots.notes.begin(),
                  dots.notes.end(),
                  "by the device numbers of the listed ranks a node has 8") != dots.notes.end());

  // A list whose end is missing says nothing about how many there are.
  const ImportedLog open = read(replaced(without(without(ends, "Rank 14"), "Rank 15"),
                                         "#\n#                                                     "
                                         "         out-of-place",
                                         "...\n#\n# out-of-place"));
  CHECK(open.measurements.empty());
  CHECK(open.refusals.at(0).reason == "the log does not say how many ranks a node has");
  CHECK(std::find(open.notes.begin(),
                  open.notes.end(),
                  "the log does not list its ranks: its columns are those of 16") !=
        open.notes.end());
}

TEST_CASE("a damaged line of the list of ranks leaves their number open", "[import]") {
  LogRecipe recipe;
  recipe.first_size = 64;  // so small that its bandwidths would fit any number of ranks
  recipe.rows = 2;
  const std::string log = replaced(nccl_log(recipe), "Rank  7 Group  0 Pid   1007", "Rank  7 Gro");
  const std::string damaged =
      replaced(log, "device  7 [0000:17:00]", "device host00:1:1 NCCL INFO");
  CHECK(refusal_of(damaged) == "the log does not say how many ranks there were");
}

TEST_CASE("ranks that see one GPU each say nothing of their nodes by its number", "[import]") {
  LogRecipe recipe;
  recipe.ranks = 16;
  std::string log = nccl_log(recipe);
  for (int device = 1; device < 8; ++device) {
    log = replaced(log, fmt::format("device  {} ", device), "device  0 ");
  }
  CHECK(point_of(read(log), 0).ranks_per_node == 8);  // by the hosts of the whole list
  const std::string gap = without(log, "Rank  5 ");
  CHECK(refusal_of(gap) == "the log does not say how many ranks a node has");
  CHECK(point_of(read(gap, {.ranks_per_node = 8}), 0).ranks_per_node == 8);
  for (const std::int64_t stated : {1, 4, 16}) {
    CAPTURE(stated);
    CHECK(refusal_of(gap, {.ranks_per_node = stated}) ==
          fmt::format("the hosts of the listed ranks are not nodes of {} ranks each", stated));
  }
}

TEST_CASE("a log in which lines of several programs are mixed is refused as a whole", "[import]") {
  constexpr const char* kReason =
      "lines of several programs are mixed: their rows cannot be told apart";
  const std::string log = nccl_log({});
  const std::vector<std::string> rows = nccl_rows({});
  const auto swapped = [&](const std::string& text, const std::string& a, const std::string& b) {
    return replaced(replaced(replaced(text, a, "@"), b, a), "@", b);
  };
  CHECK(refusal_of(swapped(log, rows[1], rows[2])) == kReason);
  // as runs of several cycles print them
  CHECK(
      read(replaced(log, rows[2], rows[2] + "\n" + rows[0] + "\n" + rows[1])).measurements.size() ==
      10);

  LogRecipe of_four;
  of_four.ranks = 4;
  const std::string other = nccl_log(of_four);
  const std::string header =
      log.substr(log.find("#       size"), log.find(rows[0]) - log.find("#       size"));
  CHECK(refusal_of(replaced(log, header, header + header)) == kReason);
  const std::size_t last_row = log.find(rows[2]);
  CHECK(refusal_of(log.substr(0, last_row) + other.substr(0, other.find("#       size")) +
                   log.substr(last_row) + other.substr(other.find("#       size"))) == kReason);
  // rows before the place where it shows are no better than those behind
  CHECK(read(other + swapped(log, rows[1], rows[2])).refused_rows == 6);
}

TEST_CASE("collectives that no plan uses are refused", "[import]") {
  const std::string log = replaced(nccl_log({}), "all_reduce_perf", "broadcast_perf");
  CHECK(refusal_of(log) == "broadcast is not a collective that a plan uses");
  CHECK(refusal_of(replaced(log, "broadcast_perf", "my_own_perf")) ==
        "my_own_perf is not a collective that a plan uses");
}

TEST_CASE("a name that the columns contradict is refused row by row", "[import]") {
  const ImportedLog log = read(replaced(nccl_log({}), "all_reduce_perf", "all_gather_perf"));
  CHECK(log.measurements.empty());
  CHECK(log.refused_rows == 3);
  CHECK(log.refusals.at(0).reason == "reduction, root or checks are not those of all_gather");
}

TEST_CASE("a command line names the table behind it, and no other", "[import]") {
  LogRecipe recipe;
  recipe.program = "alltoall_perf";
  std::string table = without(without(nccl_log(recipe), "starting"), "concluded");
  // Nothing compared: by its columns it could be an all-gather, too.
  table = replaced(replaced(table, "       0  ", "     N/A  "), "  #wrong", "  #wrong");
  CHECK(refusal_of(table) ==
        "the log does not name its collective, which can be all_gather, alltoall");
  const ImportedLog named = read("+ srun -n 8 ./build/alltoall_perf -b 1M\n" + table + table);
  CHECK(named.measurements.size() == 3);
  CHECK(named.refused_rows == 3);
  CHECK(read("+ ./all_gather_perf\n+ ./alltoall_perf\n" + table).measurements.empty());
}

TEST_CASE("wrong results are refused, in place only where NCCL works in place", "[import]") {
  LogRecipe recipe;
  recipe.rows = 1;
  const auto with_row = [&](const std::string& row) {
    return replaced(nccl_log(recipe), nccl_rows(recipe).front(), row);
  };
  std::string row = nccl_rows(recipe).front();
  REQUIRE(row.ends_with("     0"));
  row.back() = '3';
  CHECK(refusal_of(with_row(row)) == "the in-place result was wrong");
  recipe.program = "alltoall_perf";
  row = nccl_rows(recipe).front();
  REQUIRE(row.ends_with("   N/A"));
  CHECK(read(with_row(row.substr(0, row.size() - 6) + "     3")).measurements.size() == 1);
}

TEST_CASE("other reductions keep apart from sums", "[import]") {
  const ImportedLog log = read(replaced(nccl_log({}), "   sum  ", "   max  "));
  REQUIRE(log.measurements.size() == 6);
  CHECK(point_of(log, 0).method == "nccl max");
  CHECK(point_of(log, 1).method == "nccl max in place");
  CHECK(
      point_of(read(replaced(nccl_log({}), "# Using", "rccl-tests: Version\n# Using")), 0).method ==
      "rccl");
}

TEST_CASE("times of the launching processor are refused", "[import]") {
  CHECK(refusal_of(replaced(nccl_log({}), "     time", "  cputime")) ==
        "the times are those of the processor that launches, not of the collective");
}

TEST_CASE("a file without a row says so, and why", "[import]") {
  const ImportedLog failed = read(
      "# nThread 1 nGpus 1 minBytes 4 maxBytes 8 step: 2(factor) validation: 1\n"
      "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
      "node02: Test NCCL failure common.cu:1012 'unhandled system error'\n");
  REQUIRE(failed.refusals.size() == 1);
  CHECK(failed.refusals.front().reason == "no row of an nccl-tests table was found");
  REQUIRE(failed.notes.size() == 2);
  CHECK(
      failed.notes[0] ==
      "line 3: a run failed: 'node02: Test NCCL failure common.cu:1012 'unhandled system error''");
  CHECK(failed.notes[1] == "line 2: a table without a row that can be read");
  CHECK(read("hello\n").refusals.size() == 1);
  CHECK(read("").refusals.size() == 1);
}

TEST_CASE("refusals are kept up to a number and counted beyond it", "[import]") {
  std::string log;
  for (int i = 0; i < 150; ++i) {
    log += "8 2 float sumhost01:1:1 NCCL INFO\n";
  }
  const ImportedLog read_log = read(log);
  CHECK(read_log.refusals.size() == kMostRefusals);
  CHECK(read_log.refusal_count == 150);
  CHECK(read_log.refused_rows == 150);
}

TEST_CASE("versions of NCCL as nccl.h packs them", "[import]") {
  CHECK(nccl_version_text(22902) == "2.29.2");
  CHECK(nccl_version_text(21605) == "2.16.5");
  CHECK(nccl_version_text(2804) == "2.8.4");
  CHECK(nccl_version_text(20905) == "2.9.5");
  CHECK(nccl_version_text(0).empty());
  CHECK(nccl_version_text(-5).empty());
}

}  // namespace
}  // namespace trireme::calibrate
