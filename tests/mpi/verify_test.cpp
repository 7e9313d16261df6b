// trireme verify with ranks as processes: the bytes of threads, and their numbers to 1e-12.
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

ProgramRun on_processes(int processes, const std::string& study) {
  return run_shell(fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout --kill-after=5 60 '{}' "
      "--oversubscribe -n {} \"$TRIREME\" verify '{}' --transport mpi --json",
      TRIREME_MPIRUN,
      processes,
      study));
}

/// A study of all kinds of plans on `gpus` ranks.
std::string study_on(const TemporaryFolder& folder, int gpus) {
  const auto path = folder.path() / fmt::format("on-{}.yaml", gpus);
  write_file(path,
             fmt::format("version: 1\nmodel: llama-3.1-8b\n"
                         "cluster: {{node: {{gpus: {0}, gpu: h100-sxm, intra: nvswitch, "
                         "nic_per_gpu: {{value: 400 Gbit/s, source: test}}}}, "
                         "fabric: {{kind: rail_optimised}}, profile: h100-sxm-public}}\n"
                         "workload: {{sequence: 8K, micro_batch: 2}}\nplans:\n"
                         "  - {{name: tp, tensor_parallel: {{degree: {0}, sequence: true}}}}\n"
                         "  - {{name: uly, ulysses: {0}, zero: {{stage: 3}}}}\n"
                         "  - {{name: dp, ulysses: 2, data_parallel: {1}, zero: {{stage: 2}}}}\n"
                         "  - {{name: gather, sequence_gather: {0}}}\n",
                         gpus,
                         gpus / 2));
  return path.string();
}

TEST_CASE("verify on processes gives the bytes and the numbers of threads") {
  const TemporaryFolder folder;
  const int processes = GENERATE(4, 8);
  const std::string study = study_on(folder, processes);
  const ProgramRun mpi = on_processes(processes, study);
  const ProgramRun threads = run_trireme("verify '" + study + "' --json");
  CAPTURE(processes, mpi.error, threads.error);
  REQUIRE(mpi.exit_code == 0);
  REQUIRE(threads.exit_code == 0);
  const Json a = Json::parse(mpi.out);
  const Json b = Json::parse(threads.out);
  CHECK(a["transport"] == "mpi");
  REQUIRE(a["rows"].size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& row = a["rows"][i];
    const Json& same = b["rows"][i];
    CHECK(row["verdict"] == "equal");
    CHECK(row["sent_bytes_per_rank"] == same["sent_bytes_per_rank"]);
    CHECK(row["peak_memory_bytes"] == same["peak_memory_bytes"]);
    for (const auto& [quantity, error] : row["errors"].items()) {
      CAPTURE(quantity);
      // Both are within their own errors of one reference.
      CHECK(error.get<double>() + same["errors"][quantity].get<double>() <= 1e-12);
    }
  }
}

TEST_CASE("verify says how many processes a study needs") {
  const TemporaryFolder folder;
  const ProgramRun run = on_processes(2, study_on(folder, 4));
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.error, ContainsSubstring("the plan runs on 4 ranks, mpirun has started 2"));
}

}  // namespace
}  // namespace trireme::test
