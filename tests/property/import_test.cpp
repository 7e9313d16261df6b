// Logs that are cut, mixed, joined and prefixed: nothing crashes, and no row comes out that was not
// in.
#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/import/import_file.h"
#include "calibrate/import/nccl_tests.h"
#include "sim/core/error.h"
#include "tests/catch.h"
#include "tests/support/nccl_log.h"

namespace trireme::calibrate {
namespace {

using test::LogRecipe;
using test::nccl_log;

using Row =
    std::tuple<CollectiveKind, std::string, std::int64_t, std::int64_t, std::int64_t, double>;
using Rows = std::multiset<Row>;

Rows rows_of(const ImportedLog& log) {
  Rows rows;
  for (const Measurement& measurement : log.measurements) {
    const auto& point = std::get<CollectivePoint>(measurement.point);
    rows.emplace(point.collective,
                 point.method,
                 point.ranks,
                 point.ranks_per_node,
                 point.payload.value(),
                 measurement.timing.median.value());
  }
  return rows;
}

Rows rows_of(const std::string& text) {
  return rows_of(read_nccl_tests_log(text, "x.log", {}));
}

bool all_in(const Rows& rows, const Rows& known) {
  return std::includes(known.begin(), known.end(), rows.begin(), rows.end());
}

Rows sum(Rows a, const Rows& b) {
  a.insert(b.begin(), b.end());
  return a;
}

LogRecipe recipe_of(const std::string& program, std::int64_t first_size) {
  LogRecipe recipe;
  recipe.program = program;
  recipe.ranks = 4;
  recipe.ranks_per_node = 2;
  recipe.first_size = first_size;
  recipe.rows = 4;
  return recipe;
}

const std::vector<std::string> kPrograms = {
    "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf", "sendrecv_perf"};

TEST_CASE("a log cut at any byte gives no row that it did not have", "[property][import]") {
  const auto program = GENERATE(from_range(kPrograms));
  // Small messages have bandwidths of 0.00, which tell nothing.
  const auto first_size = GENERATE(as<std::int64_t>(), 64, 1 << 22);
  const std::string log = nccl_log(recipe_of(program, first_size));
  const Rows whole = rows_of(log);
  REQUIRE_FALSE(whole.empty());
  for (std::size_t cut = 0; cut <= log.size(); ++cut) {
    CAPTURE(program, first_size, cut);
    CHECK(all_in(rows_of(log.substr(0, cut)), whole));
    // The end alone lacks the list of ranks: what is taken then follows from the columns.
    CHECK(all_in(rows_of(log.substr(cut)), whole));
  }
}

TEST_CASE("a log cut anywhere and followed by another gives the rows of both at most",
          "[property][import]") {
  const std::string first = nccl_log(recipe_of("all_reduce_perf", 64));
  const std::string second = nccl_log(recipe_of("alltoall_perf", 1 << 22));
  const Rows known = sum(rows_of(first), rows_of(second));
  for (std::size_t cut = 0; cut <= first.size(); ++cut) {
    CAPTURE(cut);
    const Rows rows = rows_of(first.substr(0, cut) + second);
    CHECK(all_in(rows, known));
    CHECK(all_in(rows_of(second), rows));  // whatever stands before it
  }
}

TEST_CASE("prefixes, colours and line ends of launchers change no row", "[property][import]") {
  const auto program = GENERATE(from_range(kPrograms));
  const std::string log = nccl_log(recipe_of(program, 1 << 20));
  const Rows expected = rows_of(log);
  for (const std::string prefix : {"0: ",
                                   "[1,0]<stdout>:",
                                   "[1,0]<stdout>: ",
                                   "node01: ",
                                   "2026-11-30 13:25:29,123 ",
                                   "2026-11-30T13:25:29.123456Z ",
                                   "[nccl-tests-worker-0] ",
                                   "nccl-worker-0  | ",
                                   "2026-11-30T13:25:29.123456789Z stdout F ",
                                   "\x1b[32m",
                                   "\t"}) {
    CAPTURE(program, prefix);
    CHECK(rows_of(test::with_prefix(log, prefix)) == expected);
  }
  std::string windows;
  for (const char character : log) {
    windows += character == '\n' ? std::string("\r\n") : std::string(1, character);
  }
  CHECK(rows_of(windows) == expected);
  CHECK(rows_of("\xef\xbb\xbf" + log) == expected);
}

TEST_CASE("output of other ranks between lines changes no row", "[property][import]") {
  const std::string log = nccl_log(recipe_of("all_gather_perf", 1 << 20));
  const Rows expected = rows_of(log);
  const std::string other =
      "host01:1002:1010 [1] NCCL INFO comm 0x5646 rank 1 nRanks 4 nNodes 2 localRanks 2\n";
  std::string mixed;
  for (const char character : log) {
    mixed += character;
    mixed += character == '\n' ? other : "";
  }
  CHECK(rows_of(mixed) == expected);
}

TEST_CASE("output of other ranks within a line gives no row that was not there",
          "[property][import]") {
  const std::vector<std::string> others = {
      "host01:1002:1010 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0\n",
      "host01:1002:1010 [1] NCCL INFO 256 Bytes -> Algo 0 proto 0 time 49.902111",
      "\n",
      " 7 ",
      "        1024           256     float     sum      -1    18.49    0.06    0.08      0    "
      "18.38 "
      "  0.06    0.08      0\n",
  };
  const auto program = GENERATE(from_range(kPrograms));
  const auto first_size = GENERATE(as<std::int64_t>(), 64, 1 << 22);
  const std::string log = nccl_log(recipe_of(program, first_size));
  Rows known = rows_of(log);
  // A whole row of another run, put where no header contradicts it, is one that is there.
  if (program == "all_reduce_perf") {
    known.emplace(CollectiveKind::all_reduce, "nccl", 4, 2, 1024, 18.49e-6);
    known.emplace(CollectiveKind::all_reduce, "nccl in place", 4, 2, 1024, 18.38e-6);
  }
  for (std::size_t at = 0; at <= log.size(); at += 3) {
    for (const std::string& other : others) {
      CAPTURE(program, first_size, at, other);
      CHECK(all_in(rows_of(log.substr(0, at) + other + log.substr(at)), known));
    }
  }
}

TEST_CASE("two logs that two programs wrote into one file give no row of neither",
          "[property][import]") {
  std::mt19937 random(GENERATE(take(40, Catch::Generators::random(0U, 1U << 30))));
  CAPTURE(Catch::rngSeed());
  const std::string a = nccl_log(recipe_of("all_reduce_perf", 1 << 22));
  const std::string b = nccl_log(recipe_of("reduce_scatter_perf", 1 << 24));
  // Each program's writes arrive in pieces of any length.
  std::string mixed;
  std::size_t next_a = 0;
  std::size_t next_b = 0;
  while (next_a < a.size() || next_b < b.size()) {
    const std::size_t piece = 1 + random() % 400;
    const bool from_a = next_b == b.size() || (next_a < a.size() && random() % 2 == 0);
    mixed += from_a ? a.substr(next_a, piece) : b.substr(next_b, piece);
    (from_a ? next_a : next_b) += piece;
    next_a = std::min(next_a, a.size());
    next_b = std::min(next_b, b.size());
  }
  const Rows known = sum(rows_of(a), rows_of(b));
  CAPTURE(mixed);
  CHECK(all_in(rows_of(mixed), known));
}

TEST_CASE("lines of two logs in turn give no row of neither", "[property][import]") {
  std::mt19937 random(GENERATE(take(300, Catch::Generators::random(0U, 1U << 30))));
  CAPTURE(Catch::rngSeed());
  // Bandwidths of small messages are 0.00, and the ranks of both programs are as many: nothing in a
  // row says whose it is.
  LogRecipe one = recipe_of("all_reduce_perf", 64);
  one.rows = 12;
  LogRecipe other = one;
  other.ranks_per_node = 4;
  if (random() % 2 == 0) {
    other.program = "reduce_scatter_perf";
    other.ranks = 8;
  }
  const std::array<std::string, 2> logs = {nccl_log(one), nccl_log(other)};
  std::array<std::size_t, 2> next{};
  std::string mixed;
  const std::size_t burst = 1 + random() % 4;
  while (next[0] < logs[0].size() || next[1] < logs[1].size()) {
    const std::size_t turn = random() % 2;
    for (std::size_t line = random() % burst + 1; line > 0 && next.at(turn) < logs.at(turn).size();
         --line) {
      const std::size_t end = logs.at(turn).find('\n', next.at(turn)) + 1;
      mixed += logs.at(turn).substr(next.at(turn), end - next.at(turn));
      next.at(turn) = end;
    }
  }
  CAPTURE(mixed);
  CHECK(all_in(rows_of(mixed), sum(rows_of(logs[0]), rows_of(logs[1]))));
}

TEST_CASE("a log with any bytes changed is read or refused", "[property][import]") {
  std::mt19937 random(GENERATE(take(300, Catch::Generators::random(0U, 1U << 30))));
  CAPTURE(Catch::rngSeed());
  const std::string bytes = std::string("0123456789.-eN/A \t\n\r\x1b[]:#") + '\xff';
  std::string log = nccl_log(recipe_of(kPrograms[random() % kPrograms.size()], 1 << 20));
  for (int i = 0; i < 20; ++i) {
    log[random() % log.size()] = bytes[random() % bytes.size()];
  }
  try {
    const ImportedFile file = import_text(log, "x.log", {});
    CHECK(file.log.refused_rows >= 0);
    for (const Measurement& measurement : file.log.measurements) {
      const auto& point = std::get<CollectivePoint>(measurement.point);
      CHECK(point.payload.value() > 0);
      CHECK(point.ranks > 1);
      CHECK(point.ranks % point.ranks_per_node == 0);
      CHECK(measurement.timing.median.value() > 0);
    }
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
  }
}

}  // namespace
}  // namespace trireme::calibrate
