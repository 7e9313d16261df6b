// The commands on memory: max-seq and memory.
#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStudy = "reports/ulysses-vs-megatron/study.yaml";

std::string study_with(const TemporaryFolder& folder, const std::string& plans) {
  const auto path = folder.path() / "study.yaml";
  write_file(path,
             "version: 1\nmodel: llama-3.1-8b\ncluster: h100-8x-nvlink\n"
             "workload: {sequence: 8K}\nplans:\n" +
                 plans);
  return " '" + path.string() + "'";
}

TEST_CASE("max-seq has the same lengths as table, JSON and CSV", "[cli]") {
  const ProgramRun json = run_trireme(std::string("max-seq ") + kStudy + " --json");
  CHECK(json.exit_code == 0);
  const Json document = Json::parse(json.out);
  CHECK(document["schema_version"] == 1);
  CHECK(document["command"] == "max-seq");
  REQUIRE(document["rows"].size() == 3);
  const ProgramRun csv = run_trireme(std::string("max-seq ") + kStudy + " --csv");
  const ProgramRun table = run_trireme(std::string("max-seq ") + kStudy);
  CHECK(table.error.find("note: the sweep is ignored") != std::string::npos);
  for (const Json& row : document["rows"]) {
    const std::string plan = row["plan"];
    const std::string fits = std::to_string(row["longest_that_fits"].get<std::int64_t>());
    CHECK(csv.out.find("\n" + plan + "," + row["step_tokens"].dump() + "," + fits + ",") !=
          std::string::npos);
    CHECK(row["longest_that_is_tight"] > row["longest_that_fits"]);
    CHECK(row["first_beyond"] ==
          row["longest_that_fits"].get<std::int64_t>() + row["step_tokens"].get<std::int64_t>());
    CHECK(row["memory_beyond"]["allocated"] < row["capacity_bytes"]);
    CHECK(row["memory_beyond"]["reserved_high"].get<std::int64_t>() +
              row["memory_beyond"]["outside"].get<std::int64_t>() >
          row["capacity_bytes"].get<std::int64_t>());
    CHECK(table.out.find("\n" + plan + ": ") != std::string::npos);
  }
}

TEST_CASE("max-seq exits with 4 where no plan has a length", "[cli]") {
  const TemporaryFolder folder;
  const ProgramRun run = run_trireme("max-seq" + study_with(folder, "  - {name: u, ulysses: 5}\n"));
  CHECK(run.exit_code == 4);
  CHECK(run.out.find("u is legal at no length; ") != std::string::npos);
  CHECK(run_trireme("max-seq no-such-file.yaml").exit_code == 3);
  CHECK(run_trireme(std::string("max-seq ") + kStudy + " --plan nobody").exit_code == 2);
}

TEST_CASE("memory has every instant, and its highest is the peak", "[cli]") {
  const std::string call = std::string("memory ") + kStudy + " --plan hybrid";
  const Json document = Json::parse(run_trireme(call + " --json").out);
  CHECK(document["command"] == "memory");
  CHECK(document["verdict"] == "fits");
  std::int64_t highest = 0;
  for (const Json& at : document["instants"]) {
    highest = std::max(highest, at["allocated"].get<std::int64_t>());
  }
  CHECK(highest == document["peak"]["allocated"].get<std::int64_t>());
  std::int64_t at_peak = 0;
  for (const Json& entry : document["at_peak"]) {
    at_peak += entry["bytes"].get<std::int64_t>();
  }
  CHECK(at_peak == highest);
  const std::string csv = run_trireme(call + " --csv").out;
  CHECK(csv.starts_with("phase,micro_batch,layer,chunk,component,operation,allocated,parameters,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') ==
        static_cast<std::ptrdiff_t>(document["instants"].size() + 1));
  const std::string table = run_trireme(call).out;
  CHECK(table.find("<- peak") != std::string::npos);
  CHECK(table.find("cuda context") != std::string::npos);
}

TEST_CASE("memory of a plan that cannot run exits with 4", "[cli]") {
  const TemporaryFolder folder;
  const std::string study =
      study_with(folder, "  - {name: u, ulysses: 5}\n  - {name: big, sequence_gather: 8}\n");
  const ProgramRun illegal = run_trireme("memory" + study + " --plan u");
  CHECK(illegal.exit_code == 4);
  CHECK(illegal.out == "u is illegal\n");
  CHECK(illegal.error.find("note: u is illegal: ") != std::string::npos);
  const ProgramRun large = run_trireme("memory" + study + " --plan big");
  CHECK(large.exit_code == 4);
  CHECK(large.out.find("\nbig: does not fit\n") != std::string::npos);
}

}  // namespace
}  // namespace trireme::test
