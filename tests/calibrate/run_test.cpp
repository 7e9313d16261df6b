// trireme-calibrate run as processes: resuming, dying, and ranks that meet by TCP.
#include <chrono>
#include <map>
#include <string>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using calibrate::Measurement;
using Catch::Matchers::ContainsSubstring;

/// What the scripts share. `rank R N` starts a rank that meets the others by TCP.
constexpr const char* kPrelude = R"sh(
calibrate="${TRIREME%/*}/trireme-calibrate"
few="--device cpu --grid few --probe gemm"
quick="$few --time-per-point 5ms"
port=$((20000 + $$ % 20000))
rank() {
  RANK=$1 WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout -k 1 60 \
    "$calibrate" run -o "$folder" $quick --wait-for-ranks "${wait:-20 s}"
}
process_of() { # the program itself, below shell and timeout
  process=$1
  for _ in $(seq 200); do
    child=$(cat "/proc/$process/task/$process/children" 2>/dev/null)
    if [ -n "$child" ]; then
      process=${child%% *}
    elif grep -q trireme-cal "/proc/$process/comm"; then
      break
    else
      sleep 0.05
    fi
  done
  echo $process
}
rows() { # waits for so many lines in a file
  for _ in $(seq 600); do
    [ "$(cat "$1" 2>/dev/null | wc -l)" -ge "$2" ] && return
    sleep 0.02
  done
}
)sh";

ProgramRun run_in(const TemporaryFolder& folder, const std::string& script) {
  return run_shell(fmt::format("folder='{}'\n{}\n{}", folder.path().string(), kPrelude, script));
}

calibrate::MeasurementSet measured_in(const TemporaryFolder& folder) {
  return calibrate::read_measurements(folder.path(), [](const std::string&) {});
}

/// Two numbers of tokens, three layers; forward, and gradients of which one is also added to a sum.
constexpr std::size_t kGemmPoints = 24;

/// How often the rows name a point, at most.
int most_rows_of_a_point(const calibrate::MeasurementSet& set) {
  std::map<std::string, int> rows;
  int most = 0;
  for (const Measurement& row : set.measurements) {
    most = std::max(most, ++rows[calibrate::in_words(row.point)]);
  }
  return most;
}

TEST_CASE("a run measures every point once, and a second run none again") {
  const TemporaryFolder folder;
  const ProgramRun first = run_in(folder, R"sh("$calibrate" run -o "$folder" $quick)sh");
  INFO(first.error);
  CHECK(first.exit_code == 0);
  CHECK(first.out.empty());
  CHECK_THAT(first.error, ContainsSubstring("24 points measured"));
  const std::string rows = read_file(folder.path() / "gemm.csv");
  CHECK(measured_in(folder).measurements.size() == kGemmPoints);
  CHECK(most_rows_of_a_point(measured_in(folder)) == 1);
  const ProgramRun second = run_in(folder, R"sh("$TRIREME" calibrate run -o "$folder" $quick)sh");
  CHECK(second.exit_code == 0);
  CHECK_THAT(second.error, ContainsSubstring("0 points measured, 24 were there"));
  CHECK(read_file(folder.path() / "gemm.csv") == rows);
  CHECK(measured_in(folder).environments.size() == 2);
}

TEST_CASE("a run whose time is up says what it has left out") {
  const TemporaryFolder folder;
  const ProgramRun run =
      run_in(folder, R"sh("$calibrate" run -o "$folder" $quick --time '1 ns')sh");
  INFO(run.error);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.error, ContainsSubstring(": the time is up\n"));
  CHECK_THAT(run.error, ContainsSubstring("0 points measured, 24 left out"));
}

TEST_CASE("what a killed run has measured is kept, and the next goes on") {
  const TemporaryFolder folder;
  const ProgramRun killed = run_in(folder, R"sh(
    "$calibrate" run -o "$folder" $quick & process=$!
    rows "$folder/gemm.csv" 5
    kill -9 $process
    wait $process
    echo "code $?"
    printf '64,32' >>"$folder/gemm.csv")sh");
  CHECK(killed.out == "code 137\n");
  const std::size_t kept = measured_in(folder).measurements.size();
  CHECK(kept >= 4);
  CHECK(kept < kGemmPoints);
  const ProgramRun resumed = run_in(folder, R"sh("$calibrate" run -o "$folder" $quick)sh");
  INFO(resumed.error);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.error,
             ContainsSubstring(
                 fmt::format("{} points measured, {} were there", kGemmPoints - kept, kept)));
  CHECK(measured_in(folder).measurements.size() == kGemmPoints);
  CHECK(most_rows_of_a_point(measured_in(folder)) == 1);
}

TEST_CASE("Ctrl-C ends a run after its sample") {
  const TemporaryFolder folder;
  const ProgramRun stopped = run_in(folder, R"sh(
    "$calibrate" run -o "$folder" $few --time-per-point '20 s' --interval '0.0001 %' &
    process=$!
    rows "$folder/environments.csv" 2
    sleep 0.2
    kill -INT $process
    wait $process
    echo "code $?")sh");
  INFO(stopped.error);
  CHECK(stopped.out == "code 130\n");
  CHECK_THAT(stopped.error, ContainsSubstring("interrupted, the same command goes on from here"));
}

TEST_CASE("ranks of torchrun's kind meet by TCP, and the first one writes") {
  const TemporaryFolder folder;
  const ProgramRun run = run_in(folder, R"sh(
    rank 1 3 & a=$!
    rank 2 3 & b=$!
    rank 0 3; echo "code $?"
    wait $a; echo "code $?"
    wait $b; echo "code $?")sh");
  INFO(run.error);
  CHECK(run.out == "code 0\ncode 0\ncode 0\n");
  const calibrate::MeasurementSet set = measured_in(folder);
  CHECK(set.measurements.size() == kGemmPoints);
  REQUIRE(set.environments.size() == 1);
  CHECK(set.environments[0].hosts == 1);
  CHECK(set.environments[0].devices_per_host == 3);
}

TEST_CASE("a rank that is killed or stopped ends the others, named, and rows are kept") {
  const auto [signal, words] = GENERATE(table<std::string, std::string>({
      {"KILL", "its connection has ended"},
      {"STOP", "is silent: rank 0 has waited 1000 ms for it"},
  }));
  CAPTURE(signal);
  const TemporaryFolder folder;
  const ProgramRun run = run_in(folder,
                                fmt::format(R"sh(
    wait='1 s' quick="$few --time-per-point 200ms"
    rank 0 3 & zero=$!
    rank 1 3 & one=$!
    rank 2 3 & two=$!
    victim=$(process_of $one)
    rows "$folder/gemm.csv" 3
    kill -{} $victim
    begin=$(date +%s)
    wait $zero; echo "code $?"
    wait $two; echo "code $?"
    [ $(($(date +%s) - begin)) -le 10 ] && echo in time
    kill -9 $victim
    wait)sh",
                                            signal));
  INFO(run.error);
  CHECK(run.out == "code 6\ncode 6\nin time\n");
  CHECK_THAT(run.error, ContainsSubstring("error: rank 1 (process "));
  CHECK_THAT(run.error, ContainsSubstring(words));
  CHECK_THAT(run.error, ContainsSubstring("; at gemm: m "));
  CHECK(run.error.find("error: ") == run.error.rfind("error: "));  // one speaks for all
  CHECK(measured_in(folder).measurements.size() >= 2);
}

TEST_CASE("a rank that does not come is named") {
  const TemporaryFolder folder;
  const ProgramRun run = run_in(folder, "wait='300 ms' rank 0 2");
  CHECK(run.exit_code == 6);
  CHECK_THAT(run.error, ContainsSubstring("error: rank 1 has not connected to rank 0"));
}

TEST_CASE("wrong command lines of run") {
  struct Case {
    const char* arguments;
    const char* message;
  };

  const Case wrong = GENERATE(
      Case{"run", "error: run needs a folder for its measurements\nhint: trireme-calibrate run -o"},
      Case{"run -o x --probe gem", "--probe: 'gem' is not known\nhint: did you mean 'gemm'?"},
      Case{"run -o x --grid tiny", "--grid: 'tiny' is not known"},
      Case{"run -o x --time-per-point 3", "--time-per-point: "},
      Case{"run -o x --probe mpi", "--probe mpi: needs several ranks of MPI"},
      Case{"run -o x --link tcp --rendezvous here", "--rendezvous: error: 'here': not HOST:PORT"},
      Case{"run x -o x", "too many arguments"},
      Case{"rum", "no command is named 'rum'\nhint: did you mean 'run'?"});
  const TemporaryFolder folder;
  const ProgramRun run =
      run_in(folder, fmt::format(R"sh(cd "$folder" && "$calibrate" {})sh", wrong.arguments));
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.error, ContainsSubstring(wrong.message));
}

}  // namespace
}  // namespace trireme::test
