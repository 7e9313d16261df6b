// Seconds of both engines, and studies that ask what would be.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string write_study(const TemporaryFolder& folder, const std::string& more) {
  const fs::path path = folder.path() / "study.yaml";
  write_file(path,
             "version: 1\nmodel: {use: ulysses-study-8-layer, layers: 1}\n"
             "cluster: h100-8x-nvlink\nworkload: {sequence: 8K}\n"
             "plans: [{name: m, use: megatron-sp}, {name: u, use: ulysses-zero3}]\n" +
                 more);
  return fmt::format("'{}'", path.string());
}

TEST_CASE("compare by both engines has a column and fields of each", "[cli]") {
  const TemporaryFolder folder;
  const std::string study = write_study(folder, "");
  const ProgramRun table = run_trireme("compare " + study + " --engine both");
  REQUIRE(table.exit_code == 0);
  CHECK(table.out.find("analytic step  event step") != std::string::npos);
  CHECK(table.out.find("exposed communication") != std::string::npos);
  CHECK(table.error.find("both engines") != std::string::npos);
  const Json document = Json::parse(run_trireme("compare " + study + " --engine both --json").out);
  CHECK(document["engine"] == "both");
  for (const Json& row : document["rows"]) {
    const Json& engines = row["by_engine"];
    CHECK(engines["event"]["step_time_seconds"] == row["step_time_seconds"]);
    CHECK(engines["analytic"]["step_time_seconds"].get<double>() ==
          Approx(row["step_time_seconds"].get<double>()).epsilon(1e-8));
    double split = 0;
    for (const Json& seconds : row["exposed_seconds_by_collective"]) {
      split += seconds.get<double>();
    }
    CHECK(split == Approx(row["exposed_communication_seconds"].get<double>()).epsilon(1e-7));
  }
  const std::string csv = run_trireme("sweep " + study + " --engine both --csv").out;
  CHECK(csv.find("by_engine.analytic.step_time_seconds") != std::string::npos);
  // One engine: the other's field is there, without a value.
  const Json analytic = Json::parse(run_trireme("compare " + study + " --json").out);
  CHECK(analytic["rows"][0]["by_engine"]["event"]["step_time_seconds"].is_null());
  CHECK(analytic["rows"][0]["exposed_seconds_by_collective"]["all_gather"].is_null());
}

TEST_CASE("what_if is said wherever its results are", "[cli]") {
  const TemporaryFolder folder;
  const std::string study = write_study(
      folder, "what_if: {bandwidth: {nvlink: 0.5}, jitter: {relative: 0.05, runs: 5, seed: 3}}\n");
  const std::string said = "what if: NVLink of 0.5 times its bandwidth";
  const ProgramRun table = run_trireme("compare " + study);
  REQUIRE(table.exit_code == 0);
  CHECK(table.out.find("\n" + said + "\n") != std::string::npos);
  CHECK(table.error.find("note: " + said) != std::string::npos);
  CHECK(table.error.find("event engine") != std::string::npos);  // the jitter needs it
  CHECK(table.out.find("p05") != std::string::npos);
  const Json document = Json::parse(run_trireme("compare " + study + " --json").out);
  const Json& row = document["rows"][0];
  CHECK(row["what_if"][0] == "NVLink of 0.5 times its bandwidth");
  const Json& runs = row["step_time_distribution"];
  CHECK(runs["runs"] == 5);
  CHECK(runs["p05"] < runs["p50"]);
  CHECK(runs["p50"] < runs["p95"]);
  CHECK(runs["p95"] <= runs["longest"]);
  CHECK(row["step_time_seconds"] == runs["p50"]);  // of five the third
  CHECK(run_trireme("compare " + study + " --csv").out.find("NVLink of 0.5 times") !=
        std::string::npos);
  CHECK(run_trireme("explain " + study + " --plan u").out.find(said) != std::string::npos);
  // The same seeds give the same text.
  CHECK(run_trireme("compare " + study).out == table.out);
}

TEST_CASE("the analytic engine is refused what it has not", "[cli]") {
  const TemporaryFolder folder;
  const std::string study = write_study(folder, "what_if: {slow_ranks: [{rank: 1, factor: 2}]}\n");
  const ProgramRun refused = run_trireme("compare " + study + " --engine analytic");
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.error.find("has no slow ranks and no jitter") != std::string::npos);
  CHECK(refused.error.find("hint: leave the option out") != std::string::npos);
  const ProgramRun both = run_trireme("compare " + study + " --engine both");
  CHECK(both.exit_code == 0);
  CHECK(both.error.find("its seconds are left out") != std::string::npos);
}

TEST_CASE("a sweep of a what-if has its key as a column, and its crossovers", "[cli]") {
  const TemporaryFolder folder;
  const std::string study =
      write_study(folder, "sweep: {what_if.bandwidth.nvlink: [1, 0.5, 0.25]}\n");
  const Json document = Json::parse(run_trireme("sweep " + study + " --json").out);
  REQUIRE(document["rows"].size() == 6);
  CHECK(document["rows"][2]["point"]["what_if.bandwidth.nvlink"] == 0.5);
  CHECK(document["rows"][0]["what_if"].empty());
  CHECK(document["rows"][4]["what_if"] == Json({"NVLink of 0.25 times its bandwidth"}));
  const auto step = [&](int row) {
    return document["rows"][row]["step_time_seconds"].get<double>();
  };
  CHECK(step(0) < step(2));
  CHECK(step(2) < step(4));
  const ProgramRun table = run_trireme("sweep " + study);
  CHECK(table.out.find("what_if.bandwidth.nvlink") == 0);
  CHECK(table.out.find("what if:") == std::string::npos);  // it differs from row to row
}

TEST_CASE("options with a value may stand before the command", "[cli]") {
  const TemporaryFolder folder;
  const std::string study = write_study(folder, "");
  const std::string expected = run_trireme("compare " + study + " --plan u --engine event").out;
  REQUIRE_FALSE(expected.empty());
  CHECK(run_trireme("--plan u --engine event compare " + study).out == expected);
  CHECK(run_trireme("--plan=u compare --engine=event " + study).out == expected);
  const std::string file = (folder.path() / "out.txt").string();
  CHECK(run_trireme("-o '" + file + "' compare " + study + " --plan u --engine event").exit_code ==
        0);
  CHECK(read_file(file) == expected);
  CHECK(run_trireme("--csv compare " + study).out ==
        run_trireme("compare " + study + " --csv").out);
}

TEST_CASE("report by both engines says how it was made", "[cli]") {
  const TemporaryFolder folder;
  const std::string study = write_study(folder, "");
  const fs::path to = folder.path() / "report";
  REQUIRE(run_trireme("report " + study + " --engine both -o '" + to.string() + "'").exit_code ==
          0);
  const std::string text = read_file(to / "report.md");
  CHECK(text.find("| analytic step | event step |") != std::string::npos);
  CHECK(text.find("trireme report study.yaml --engine both -o DIR") != std::string::npos);
  // Nothing but the report: no draft, and nothing that was set aside.
  REQUIRE(run_trireme("report " + study + " --engine both -o '" + to.string() + "'").exit_code ==
          0);
  for (const fs::directory_entry& entry : fs::directory_iterator(to)) {
    const std::string extension = entry.path().extension().string();
    CAPTURE(entry.path());
    CHECK((extension == ".md" || extension == ".csv" || extension == ".svg"));
  }
}

TEST_CASE("a report that cannot be written whole leaves the old one", "[cli]") {
  const TemporaryFolder folder;
  const std::string study = write_study(folder, "");
  const fs::path to = folder.path() / "report";
  fs::create_directories(to / "timeline-u.svg");
  write_file(to / "table.csv", "old\n");
  const ProgramRun run = run_trireme("report " + study + " -o '" + to.string() + "'");
  CHECK(run.exit_code == 2);
  CHECK(run.error.find("timeline-u.svg") != std::string::npos);
  CHECK(read_file(to / "table.csv") == "old\n");
  CHECK_FALSE(fs::exists(to / "report.md"));
}

TEST_CASE("a step too large for the event engine is a row with its reason", "[cli]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "study.yaml";
  write_file(path,
             "version: 1\nmodel: {use: ulysses-study-8-layer, layers: 1}\n"
             "cluster: h100-8x-nvlink\nworkload: {sequence: 8K, global_batch: 1048576}\n"
             "plans: [{name: u, use: ulysses-zero3}]\n");
  const std::string study = fmt::format("'{}'", path.string());
  const ProgramRun table = run_trireme("compare " + study + " --engine event --json");
  const Json row = Json::parse(table.out)["rows"][0];
  CHECK(row["step_time_seconds"].is_null());
  CHECK(row["peak_memory_bytes"]["allocated"] > 0);
  const std::string reason = row["reasons"].back();
  CHECK(reason.find("study.yaml:4:40: global_batch 1048576 gives each rank") != std::string::npos);
  const ProgramRun trace = run_trireme("trace " + study + " --plan u");
  CHECK(trace.exit_code == 4);
  CHECK(trace.out.empty());
  CHECK(trace.error.find("has no timeline: " + reason) != std::string::npos);
  const ProgramRun explained = run_trireme("explain " + study + " --plan u");
  CHECK(explained.exit_code == 0);
  CHECK(explained.out.find("critical path") == std::string::npos);
}

}  // namespace
}  // namespace trireme::test
