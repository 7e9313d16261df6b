// trireme validate: its formats and exit codes. Reading cases and judging them:
// tests/unit/validation; the cases themselves: tests/validation.
#include <filesystem>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

/// One case on the activations that Megatron sends for the reference model at 8K.
std::string case_file(const std::string& expected, const std::string& tolerance) {
  return "version: 1\n"
         "source: mine\n"
         "study:\n"
         "  version: 1\n"
         "  model: ulysses-study-8-layer\n"
         "  cluster: h100-8x-nvlink\n"
         "  workload: {sequence: 8K}\n"
         "  plans: [{name: a, use: megatron-sp}]\n"
         "cases:\n"
         "  - name: sent\n"
         "    where: my log\n"
         "    fact: a rank sends this much\n"
         "    printed: this much\n"
         "    quantity: sent_bytes\n"
         "    traffic: [activations]\n"
         "    plan: a\n"
         "    expected: " +
         expected + "\n    tolerance: " + tolerance + "\n    reason: a test\n";
}

/// validate on a file with that text.
ProgramRun validate(const std::string& text, const std::string& options = {}) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "mine.yaml";
  write_file(path, text);
  return run_trireme("validate '" + path.string() + "' " + options);
}

}  // namespace

TEST_CASE("validate prints the built-in cases from any folder", "[cli]") {
  const ProgramRun run = run_shell("cd / && \"$TRIREME\" validate");
  CHECK(run.exit_code == 0);
  CHECK(run.error.empty());
  CHECK_THAT(run.out, ContainsSubstring("blog2026ulysses-megatron_bytes/hybrid-8k"));
  CHECK_THAT(run.out, ContainsSubstring("within tolerance"));
}

TEST_CASE("validate --markdown and --svg are docs/accuracy.md and its figure", "[cli]") {
  CHECK(run_trireme("validate --markdown").out ==
        read_file(TRIREME_SOURCE_DIR "/docs/accuracy.md"));
  CHECK(run_trireme("validate --svg").out == read_file(TRIREME_SOURCE_DIR "/docs/accuracy.svg"));
}

TEST_CASE("validate --bands is topologies/accuracy/public.yaml", "[cli]") {
  CHECK(run_trireme("validate --bands").out ==
        read_file(TRIREME_SOURCE_DIR "/topologies/accuracy/public.yaml"));
}

TEST_CASE("validate --json and --csv have a row for each case", "[cli]") {
  const Json document = Json::parse(run_trireme("validate --json").out);
  CHECK(document["schema_version"] == 1);
  CHECK(document["command"] == "validate");
  CHECK(document["failed"] == 0);
  std::size_t judged = 0;
  for (const Json& topic : document["summary"]) {
    judged += topic["cases"].get<std::size_t>();
  }
  std::size_t rows = 0;
  for (const Json& row : document["rows"]) {
    rows += row["role"] == "judged" && !row["of_table"].get<bool>() ? 1U : 0U;
    CHECK(row["known_deviation"].is_null() == (row["verdict"] == "pass"));
  }
  CHECK(judged == rows);
  std::istringstream lines(run_trireme("validate --csv").out);
  std::string line;
  std::size_t counted = 0;
  while (std::getline(lines, line)) {
    ++counted;
  }
  CHECK(counted == document["rows"].size() + 1);
}

TEST_CASE("validate exits 5 when a case of mine is beyond its tolerance", "[cli]") {
  // Activations of Megatron on 8 layers at 8K: attention and MLP, 5 N (7/8) each of N = 96 MiB,
  // 8 times: 6,720 MiB.
  const ProgramRun kept = validate(case_file("6720 MiB", "exact"));
  CHECK(kept.exit_code == 0);
  CHECK_THAT(kept.out, ContainsSubstring("pass"));
  const ProgramRun missed = validate(case_file("6000 MiB", "5 %"), "--json");
  CHECK(missed.exit_code == 5);
  CHECK_THAT(missed.error, ContainsSubstring("1 of 1 cases failed"));
  CHECK(Json::parse(missed.out)["rows"][0]["error"].get<double>() == Approx(0.12));
}

TEST_CASE("validate refuses what it cannot read", "[cli]") {
  const ProgramRun wrong = validate(case_file("6720 parsecs", "exact"));
  CHECK(wrong.exit_code == 3);
  CHECK_THAT(wrong.error, ContainsSubstring("mine.yaml:17:15"));
  CHECK(run_trireme("validate --markdown --svg").exit_code == 2);
  CHECK(run_trireme("validate --svg --json").exit_code == 2);
  CHECK(run_trireme("validate missing.yaml").exit_code == 3);
}

}  // namespace trireme::test
