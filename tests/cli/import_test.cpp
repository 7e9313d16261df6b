// trireme-calibrate import: what is written, what is said, and with which exit code.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate/measurement/measurement_file.h"
#include "tests/catch.h"
#include "tests/support/nccl_log.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

ProgramRun run_import(const std::string& arguments) {
  return run_shell("\"$(dirname \"$TRIREME\")/trireme-calibrate\" import " + arguments);
}

/// Three rows of an all-reduce of 8 ranks, out of place and in place.
fs::path write_log(const TemporaryFolder& folder, const std::string& name) {
  const fs::path path = folder.path() / name;
  write_file(path, nccl_log({}));
  return path;
}

std::string quoted(const fs::path& path) {
  return "'" + path.string() + "'";
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("import writes measurements that are read back", "[cli]") {
  const TemporaryFolder folder;
  const fs::path log = write_log(folder, "a.log");
  fs::create_directory(folder.path() / "other");
  const fs::path same_name = write_log(folder, "other/a.log");
  const fs::path out = folder.path() / "measured";
  const ProgramRun run =
      run_import(fmt::format("{} {} -o {}", quoted(log), quoted(same_name), quoted(out)));
  CHECK(run.exit_code == 0);
  CHECK(run.error.empty());
  CHECK_THAT(run.out, ContainsSubstring("a.log: nccl-tests log, 6 measurements\n"));
  const calibrate::MeasurementSet set =
      calibrate::read_measurements(out, [](const std::string& sentence) { FAIL(sentence); });
  REQUIRE(set.measurements.size() == 12);
  REQUIRE(set.environments.size() == 2);
  CHECK(set.environments[0].key == "a");
  CHECK(set.environments[1].key == "a-2");
  CHECK(set.environments[0].device == "NVIDIA H100 80GB HBM3");
  CHECK(set.measurements[11].environment == "a-2");
  CHECK(files_in(out) == 2);
  CHECK(files_in(folder.path()) == 3);  // nothing is left beside the result
}

TEST_CASE("import writes a topology, and says what it does not state", "[cli]") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "machine";
  const ProgramRun run = run_import(fmt::format(
      "tests/unit/calibrate/import/topologies/a100_8gpu.xml -o {} --json", quoted(out)));
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.error, ContainsSubstring("note: a100_8gpu.yaml: "));
  CHECK_THAT(run.error, ContainsSubstring("does not state profile"));
  const Json json = Json::parse(run.out);
  CHECK(json["schema_version"] == 1);
  CHECK(json["command"] == "import");
  CHECK(json["measurements"] == 0);
  const Json& topology = json["files"][0]["topology"];
  CHECK(topology["gpus"].size() == 8);
  CHECK(topology["gpus"][5]["nvlinks"] == 12);
  CHECK(topology["gpus"][5]["nearest_path"] == "PIX");
  CHECK(topology["adapters"][4]["serves"] == Json({"GPU4", "GPU5"}));
  CHECK(topology["adapters"][4]["bytes_per_second"] == 25e9);
  CHECK(json["files"][0]["topology_file"] == "a100_8gpu.yaml");
  CHECK_THAT(read_file(out / "a100_8gpu.yaml"),
             ContainsSubstring("  gpus: 8\n  gpu: 'a100-sxm-80'\n"));
  CHECK(files_in(out) == 1);
}

TEST_CASE("a file that cannot be read costs its exit code, not the others", "[cli]") {
  const TemporaryFolder folder;
  const fs::path log = write_log(folder, "a.log");
  const fs::path nothing = folder.path() / "b.log";
  write_file(nothing, "no table here\n");
  const fs::path out = folder.path() / "out";
  const ProgramRun run = run_import(
      fmt::format("{} {} missing.log tests/unit/calibrate/import/topologies/a100_damaged.xml -o {}",
                  quoted(log),
                  quoted(nothing),
                  quoted(out)));
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.error, ContainsSubstring("missing.log: error: the file cannot be opened"));
  CHECK_THAT(run.error, ContainsSubstring("a100_damaged.xml:6:12: error: the NVLink has no count"));
  CHECK_THAT(run.out, ContainsSubstring("no row of an nccl-tests table was found"));
  CHECK(fs::exists(out / "collectives.csv"));

  const fs::path none = folder.path() / "none";
  const ProgramRun alone =
      run_import(fmt::format("{} -o {} --json", quoted(nothing), quoted(none)));
  CHECK(alone.exit_code == 3);
  CHECK_FALSE(fs::exists(none));
  CHECK(Json::parse(alone.out)["folder"].is_null());
}

TEST_CASE("import refuses command lines with the next thing to type", "[cli]") {
  const TemporaryFolder folder;
  const std::string log = quoted(write_log(folder, "a.log"));
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const ProgramRun run = run_import(arguments);
    CAPTURE(arguments);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.error, ContainsSubstring(words));
  };
  refused("", "import needs a FILE...");
  refused(log + " --collective all_gathr", "did you mean 'all_gather'?");
  refused(log + " --ranks 0", "--ranks: 0 is less than 1");
  refused(log + " --ranks 8x", "--ranks: ");
  refused(log + " " + log, "is named twice");
  refused(log + " -o " + quoted(folder.path()), "is there already");
  refused(log + " -o " + quoted(folder.path() / "no" / "where"), "the folder cannot be written");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("what logs do not say is stated on the command line", "[cli]") {
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "excerpt.log";
  std::string rows;
  for (const std::string& row : nccl_rows({})) {
    rows += row + '\n';
  }
  write_file(log, rows);
  CHECK(run_import(quoted(log)).exit_code == 3);
  const ProgramRun run = run_import(quoted(log) + " --ranks-per-node 8 --device 'NVIDIA H100'");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("6 measurements"));
}

}  // namespace
}  // namespace trireme::test
