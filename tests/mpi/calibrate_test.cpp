// trireme-calibrate run with ranks as MPI processes.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using Catch::Matchers::ContainsSubstring;

ProgramRun run_script(const TemporaryFolder& folder, const std::string& script) {
  return run_shell(
      fmt::format("folder='{}'\n"
                  "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
                  "ranks() {{ n=$1 each=$2; shift 2; timeout --kill-after=5 60 '{}' "
                  "--oversubscribe -n $n \"${{TRIREME%/*}}/trireme-calibrate\" run -o \"$folder\" "
                  "--grid few --time-per-point $each \"$@\"; }}\n{}",
                  folder.path().string(),
                  TRIREME_MPIRUN,
                  script));
}

TEST_CASE("collectives of MPI and of the executor are verified, measured and kept") {
  const TemporaryFolder folder;
  const ProgramRun run = run_script(folder, "ranks 4 5ms --probe mpi --probe collectives");
  INFO(run.error);
  REQUIRE(run.exit_code == 0);
  const auto set = calibrate::read_measurements(folder.path(), [](const std::string&) {});
  // Groups of 2 and 4 ranks, payloads of 4 and 16 KiB: 5 kinds by MPI and 4 by the executor.
  CHECK(set.measurements.size() == 2 * 2 * (5 + 4));
  const auto of_method = [&](const std::string& method) {
    return std::count_if(
        set.measurements.begin(), set.measurements.end(), [&](const calibrate::Measurement& row) {
          return std::get<calibrate::CollectivePoint>(row.point).method == method;
        });
  };
  CHECK(of_method("mpi") == 20);
  CHECK(of_method("executor") == 16);
  REQUIRE(set.environments.size() == 1);
  CHECK(set.environments[0].devices_per_host == 4);
  CHECK_THAT(set.environments[0].mpi, ContainsSubstring("MPI"));
}

TEST_CASE("a killed or stopped rank ends a calibration, and is named with its point") {
  const auto [signal, words] = GENERATE(table<std::string, std::string>(
      {{"KILL", "its process has ended"}, {"STOP", "its process is stopped"}}));
  CAPTURE(signal);
  const TemporaryFolder folder;
  const ProgramRun run = run_script(folder, "signal=" + signal + R"sh(
    ranks 3 2s --probe gemm --interval '0.0001 %' & runs=$!
    for _ in $(seq 500); do
      [ "$(cat "$folder/gemm.csv" 2>/dev/null | wc -l)" -ge 2 ] && break
      sleep 0.02
    done
    for process in /proc/[0-9]*; do
      if tr '\0' '\n' <$process/environ 2>/dev/null | grep -qx 'OMPI_COMM_WORLD_RANK=1' &&
        tr '\0' ' ' <$process/cmdline | grep -q "calibrate run -o $folder"; then
        kill -$signal ${process#/proc/}
      fi
    done
    begin=$(date +%s)
    wait $runs
    [ $? -ne 0 ] && echo failed
    [ $(($(date +%s) - begin)) -le 10 ] && echo in time)sh");
  INFO(run.error);
  CHECK(run.out == "failed\nin time\n");
  CHECK_THAT(run.error, ContainsSubstring("error: rank 1 (process "));
  CHECK_THAT(run.error, ContainsSubstring(words));
  CHECK_THAT(run.error, ContainsSubstring("; at gemm: m "));
  const auto set = calibrate::read_measurements(folder.path(), [](const std::string&) {});
  CHECK(!set.measurements.empty());
}

}  // namespace
}  // namespace trireme::test
