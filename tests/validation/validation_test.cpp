// Published and measured facts against predictions: every case below cases/, and the page and the
// lines of README.md that report how far off they are.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "sim/core/files.h"
#include "tests/catch.h"
#include "tests/support/golden.h"
#include "tests/validation/case_file.h"
#include "tests/validation/outcome.h"

namespace trireme::validation {
namespace {

const std::filesystem::path kRoot = TRIREME_SOURCE_DIR;

struct Run {
  std::vector<CaseFile> files;
  std::vector<Outcome> outcomes;  // point into `files`
};

Run run_all() {
  const config::Library library{config::DataSource{}};
  Run run;
  const std::vector<std::string> keys =
      bibliography_keys(read_text_file(kRoot / "docs" / "bibliography.md"));
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(kRoot / "tests" / "validation" / "cases")) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    run.files.push_back(read_case_file(path, library, keys));
  }
  for (const CaseFile& file : run.files) {
    const std::vector<Outcome> outcomes = evaluate_cases(file, library);
    run.outcomes.insert(run.outcomes.end(), outcomes.begin(), outcomes.end());
  }
  return run;
}

}  // namespace

TEST_CASE("predictions agree with published facts", "[validation]") {
  const Run run = run_all();
  std::cout << outcome_table(run.outcomes) << '\n' << accuracy_summary(run.outcomes) << std::flush;
  CHECK(run.outcomes.size() >= 30);
  for (const Outcome& outcome : run.outcomes) {
    INFO(outcome.id << " (" << to_text(outcome.asked->location) << "): " << outcome.asked->fact);
    CHECK_FALSE(outcome.failed());
  }
}

TEST_CASE("docs/accuracy.md is what the cases give", "[validation][golden]") {
  test::check_golden("../../docs/accuracy.md", accuracy_page(run_all().outcomes));
}

TEST_CASE("README.md shows the current validation error", "[validation][golden]") {
  const std::string begin = "<!-- accuracy: begin -->\n";
  const std::string end = "<!-- accuracy: end -->";
  const std::filesystem::path path = kRoot / "README.md";
  std::string text = read_text_file(path);
  const std::size_t first = text.find(begin);
  const std::size_t last = text.find(end);
  REQUIRE(first != std::string::npos);
  REQUIRE(last != std::string::npos);
  const std::size_t from = first + begin.size();
  const std::string summary = accuracy_summary(run_all().outcomes);
  if (std::getenv("TRIREME_UPDATE_GOLDENS") != nullptr) {
    write_file_atomically(path, text.replace(from, last - from, summary));
    return;
  }
  CHECK(text.substr(from, last - from) == summary);
}

}  // namespace trireme::validation
