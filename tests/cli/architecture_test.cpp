// docs/architecture.md says for every field of the JSON where it is computed.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kRoot = TRIREME_SOURCE_DIR;

struct DocumentedField {
  std::string path;  // `*` stands for any one name
  std::string file;
  std::string function;
};

/// The text between the `number`th pair of backquotes of a line, from 0; empty when there is none.
std::string quoted(const std::string& line, int number) {
  std::size_t at = 0;
  for (int i = 0; i <= number; ++i) {
    const std::size_t open = line.find('`', at);
    const std::size_t close = open == std::string::npos ? open : line.find('`', open + 1);
    if (close == std::string::npos) {
      return "";
    }
    if (i == number) {
      return line.substr(open + 1, close - open - 1);
    }
    at = close + 1;
  }
  return "";
}

/// The rows "| `path` | `file:function` |" of the section "Where is it computed".
std::vector<DocumentedField> documented_fields() {
  std::istringstream page(read_file(kRoot / "docs" / "architecture.md"));
  std::vector<DocumentedField> fields;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) {
      inside = line == "## Where is it computed";
    }
    const std::string place = quoted(line, 1);
    const std::size_t colon = place.find(':');
    if (inside && line.starts_with("| `") && colon != std::string::npos) {
      fields.push_back({quoted(line, 0), place.substr(0, colon), place.substr(colon + 1)});
    }
  }
  return fields;
}

/// Paths of all leaves: names joined by '.', items of a list as "[]". An empty list has none.
void collect_paths(const Json& value, const std::string& path, std::set<std::string>& paths) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      collect_paths(child, path.empty() ? key : path + '.' + key, paths);
    }
  } else if (value.is_array() && (value.empty() || value.front().is_structured())) {
    for (const Json& item : value) {
      collect_paths(item, path + "[]", paths);
    }
  } else {
    paths.insert(path);
  }
}

std::vector<std::string> words(const std::string& path) {
  std::vector<std::string> found;
  std::istringstream text(path);
  for (std::string word; std::getline(text, word, '.');) {
    found.push_back(word);
  }
  return found;
}

bool matches(const std::string& pattern, const std::string& path) {
  if (pattern == path) {
    return true;
  }
  const std::vector<std::string> wanted = words(pattern);
  const std::vector<std::string> given = words(path);
  if (!wanted.empty() && wanted.back() == "**") {  // everything below: names with dots
    return given.size() >= wanted.size() &&
           std::equal(wanted.begin(), wanted.end() - 1, given.begin());
  }
  return wanted.size() == given.size() &&
         std::equal(wanted.begin(), wanted.end(), given.begin(), [](const auto& w, const auto& g) {
           return w == "*" || w == g;
         });
}

std::set<std::string> paths_of_documents() {
  const TemporaryFolder folder;
  const fs::path study = folder.path() / "study.yaml";
  // A crossover, a memory wall, a failed requirement and an illegal plan: every field has a value.
  write_file(study,
             "version: 1\nmodel: ulysses-study-8-layer\ncluster: h100-8x-nvlink\n"
             "workload: {sequence: 8K}\n"
             "plans:\n  - {name: m, use: megatron-sp}\n  - {name: u, use: ulysses-zero3}\n"
             "  - {name: bad, ulysses: 5}\n"
             "require: [{plan: bad, fits: true}]\n"
             "what_if: {bandwidth: {nvlink: 0.5}}\n"
             "sweep: {workload.sequence: [8K, 256K, 1M]}\n");
  std::set<std::string> paths;
  const std::string law = (kRoot / "reports" / "ulysses-vs-megatron" / "law.yaml").string();
  for (const std::string& call :
       {std::string("compare"), "compare --law '" + law + "'", std::string("sweep")}) {
    const ProgramRun run = run_trireme(call + " '" + study.string() + "' --json");
    REQUIRE(run.exit_code == 4);
    collect_paths(Json::parse(run.out), "", paths);
  }
  for (const char* options : {"", " --plan u --full-trace --time"}) {
    const ProgramRun run = run_trireme("verify '" + study.string() + "' --json" + options);
    REQUIRE(run.exit_code == 0);
    collect_paths(Json::parse(run.out), "", paths);
  }
  return paths;
}

TEST_CASE("every field of compare, sweep and verify has a row that names an existing function",
          "[cli]") {
  const std::vector<DocumentedField> fields = documented_fields();
  REQUIRE(fields.size() > 20);
  const std::set<std::string> paths = paths_of_documents();
  REQUIRE(paths.count("crossovers[].at") == 1);
  for (const std::string& path : paths) {
    CAPTURE(path);
    CHECK(std::any_of(fields.begin(), fields.end(), [&](const DocumentedField& field) {
      return matches(field.path, path);
    }));
  }
  for (const DocumentedField& field : fields) {
    CAPTURE(field.path, field.file, field.function);
    CHECK(std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
      return matches(field.path, path);
    }));
    REQUIRE(fs::exists(kRoot / field.file));
    CHECK(read_file(kRoot / field.file).find(field.function + "(") != std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::test
