// Published and measured facts against predictions: every case below cases/, and the page, the
// figure and the lines of README.md that report how far off they are.
#include "sim/report/validation.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "sim/core/files.h"
#include "sim/plan/lower.h"
#include "sim/plan/parameters.h"
#include "sim/validation/validate.h"
#include "tests/catch.h"
#include "tests/support/golden.h"

namespace trireme::validation {
namespace {

const std::filesystem::path kRoot = TRIREME_SOURCE_DIR;

const ledger::ValidationResult& run_all() {
  static const ledger::ValidationResult result = [] {
    const config::Library library{config::DataSource{}};
    return validate(built_in_cases(library), library);
  }();
  return result;
}

/// Keys that items of docs/bibliography.md begin with.
std::vector<std::string> bibliography_keys() {
  constexpr std::string_view kItem = "\n- `";
  const std::string markdown = read_text_file(kRoot / "docs" / "bibliography.md");
  std::vector<std::string> keys;
  for (std::size_t at = markdown.find(kItem); at != std::string::npos;
       at = markdown.find(kItem, at)) {
    at += kItem.size();
    keys.push_back(markdown.substr(at, markdown.find('`', at) - at));
  }
  return keys;
}

}  // namespace

TEST_CASE("predictions agree with published facts", "[validation]") {
  const ledger::ValidationResult& result = run_all();
  std::cout << report::to_terminal(result, false) << std::flush;
  CHECK(result.rows.size() >= 30);
  for (const ledger::ValidationRow& row : result.rows) {
    INFO(row.stated.id << ": " << row.stated.fact);
    CHECK_FALSE(row.failed());
  }
}

TEST_CASE("every source of a case has an entry in the bibliography", "[validation]") {
  const std::vector<std::string> keys = bibliography_keys();
  for (const ledger::ValidationRow& row : run_all().rows) {
    INFO(row.stated.id << ": " << row.stated.source);
    CHECK(std::find(keys.begin(), keys.end(), row.stated.source) != keys.end());
  }
}

TEST_CASE("every lowering and way of sharding has its source in the bibliography", "[validation]") {
  const std::vector<std::string> keys = bibliography_keys();
  const auto is_known = [&](std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  for (const plan::LoweringInfo& row : plan::lowering_table()) {
    INFO(row.name << ": " << row.bibliography_key);
    CHECK(is_known(row.bibliography_key));
  }
  for (const plan::ShardingInfo& row : plan::sharding_table()) {
    INFO(row.name << ": " << row.bibliography_key);
    CHECK(is_known(row.bibliography_key));
  }
}

TEST_CASE("docs/accuracy.md and its figure are what the cases give", "[validation][golden]") {
  test::check_golden("../../docs/accuracy.md", report::accuracy_page(run_all(), "accuracy.svg"));
  test::check_golden("../../docs/accuracy.svg", report::accuracy_figure(run_all()));
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
  const std::string summary = report::accuracy_summary(run_all());
  if (std::getenv("TRIREME_UPDATE_GOLDENS") != nullptr) {
    write_file_atomically(path, text.replace(from, last - from, summary));
    return;
  }
  CHECK(text.substr(from, last - from) == summary);
}

}  // namespace trireme::validation
