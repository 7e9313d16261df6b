// Reading validation cases, and judging a prediction.
#include "sim/validation/case_file.h"

#include <memory>
#include <string>
#include <vector>

#include "sim/config/yaml_reader.h"
#include "sim/report/validation.h"
#include "sim/validation/validate.h"
#include "tests/catch.h"

namespace trireme::validation {
namespace {

/// A file with one case, of which `line` replaces the line that begins with the same key or is
/// added.
std::string with_line(const std::string& line) {
  std::vector<std::string> lines = {"name: peak",
                                    "where: table 1",
                                    "fact: a needs 6 GiB more than b",
                                    "printed: 6 GiB",
                                    "quantity: peak_memory",
                                    "plan: a",
                                    "minus: b",
                                    "sequence: 8K",
                                    "expected: 6 GiB",
                                    "tolerance: 10 %",
                                    "reason: rounding"};
  const std::string key = line.substr(0, line.find(':') + 1);
  bool replaced = false;
  for (std::string& one : lines) {
    if (one.starts_with(key)) {
      one = line;
      replaced = true;
    }
  }
  if (!replaced) {
    lines.push_back(line);
  }
  std::string text =
      "version: 1\n"
      "source: korthikanti2022\n"
      "study:\n"
      "  version: 1\n"
      "  model: ulysses-study-8-layer\n"
      "  cluster: h100-8x-nvlink\n"
      "  workload: {sequence: 16K}\n"
      "  plans: [{name: a, use: ulysses}, {name: b, use: megatron-sp}]\n"
      "cases:\n";
  for (const std::string& one : lines) {
    text += (one.starts_with("name:") ? "  - " : "    ") + one + "\n";
  }
  return text;
}

CaseFile read(const std::string& text) {
  const config::Library library{config::DataSource{}};
  return read_cases(
      config::read_yaml(std::make_shared<const config::SourceText>("cases/table.yaml", text)),
      library);
}

/// What the reader says about a case with this line.
std::string refusal_of(const std::string& line) {
  try {
    static_cast<void>(read(with_line(line)));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a validation case is read whole", "[validation]") {
  const CaseFile file = read(with_line("assumptions: [no dropout, one run]"));
  REQUIRE(file.cases.size() == 1);
  const ValidationCase& one = file.cases.front();
  CHECK(one.stated.id == "table/peak");
  CHECK(one.stated.source == "korthikanti2022");
  CHECK(one.quantity->name == "peak_memory");
  CHECK(one.stated.topic == ledger::Topic::peak_memory);
  CHECK(one.stated.dimension == ledger::Dimension::bytes);
  CHECK(one.against == Against::difference);
  CHECK(one.other_plan == "b");
  CHECK(one.sequences == std::vector<std::string>{"8K"});
  CHECK(one.stated.expected.value == 6.0 * 1024 * 1024 * 1024);
  CHECK(one.stated.expected.tolerance == Approx(0.6 * 1024 * 1024 * 1024));
  CHECK(one.stated.assumptions.size() == 2);
  CHECK_FALSE(one.stated.known_deviation.has_value());
  CHECK(one.stated.role == ledger::Role::judged);
}

TEST_CASE("a case without a sequence takes the study's, and a list is kept", "[validation]") {
  CHECK(read(with_line("sequence: [8K, 32K]")).cases[0].sequences ==
        std::vector<std::string>{"8K", "32K"});
  std::string text = with_line("role: fitted");
  const std::string line = "    sequence: 8K\n";
  text.erase(text.find(line), line.size());
  const CaseFile file = read(text);
  CHECK(file.cases[0].sequences == std::vector<std::string>{"16K"});
  CHECK(file.cases[0].stated.role == ledger::Role::fitted);
}

namespace {

/// A file with a table of two columns besides the name, and `row`.
std::string with_row(const std::string& row) {
  const std::string text = with_line("role: judged");
  return text.substr(0, text.find("cases:\n")) +
         "common: {where: table 2, fact: it holds as much, quantity: peak_memory, plan: a, "
         "tolerance: set, reason: one run}\n"
         "tables:\n"
         "  - common: {role: fitted, with: {workload.micro_batch: 2}}\n"
         "    columns: [name, plans.a.framework, expected]\n"
         "    rows:\n"
         "      - " +
         row + "\n";
}

}  // namespace

TEST_CASE("a row of a table is a case", "[validation]") {
  const CaseFile file = read(with_row("[first, deepspeed, 6 GiB]"));
  REQUIRE(file.cases.size() == 1);
  const ValidationCase& one = file.cases.front();
  CHECK(one.stated.id == "table/first");
  CHECK(one.stated.printed == "6 GiB");
  CHECK(one.stated.of_table);
  CHECK(one.stated.role == ledger::Role::fitted);
  REQUIRE(one.with.size() == 2);
  const config::StudySpec study = study_at(file, one, "8K", config::Library{config::DataSource{}});
  CHECK(study.workload.micro_batch == 2);
  CHECK(study.plans.front().framework == config::Framework::deepspeed);
}

TEST_CASE("wrong rows of a table are refused where they stand", "[validation]") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(read(with_row("[first, deepspeed]")),
                    ContainsSubstring("a row needs a value for each of the 3 columns"));
  const CaseFile file = read(with_row("[first, deepspeed, 6 GiB]"));
  ValidationCase astray = file.cases.front();
  astray.with.front().key = "plans.c.ulysses";
  CHECK_THROWS_WITH(study_at(file, astray, "8K", config::Library{config::DataSource{}}),
                    ContainsSubstring("the study has no map for 'plans.c.ulysses'"));
}

TEST_CASE("wrong cases are refused where they stand", "[validation]") {
  using Catch::Matchers::ContainsSubstring;

  struct Wrong {
    std::string line;
    std::string place;
    std::string message;
  };

  const std::vector<Wrong> wrong = {
      {"tolerence: 5 %", "table.yaml:21:5", "unknown key 'tolerence'"},
      {"quantity: peak", "table.yaml:14:15", "'peak' is no quantity"},
      {"plan: c", "table.yaml:15:11", "the study has no plan 'c'"},
      {"expected: 6 s", "table.yaml:18:15", "'6 s'"},
      {"at_most: 7 GiB", "table.yaml:21:14", "'expected' is there already"},
      {"tolerance: 10", "table.yaml:19:16", "'10'"},
      {"relative_to: b", "table.yaml:16:12", "a second plan is there already"},
      {"phases: [forward]", "table.yaml:21:13", "narrows sent_bytes only"},
      {"items: [states]", "table.yaml:21:13", "'states' is not known here"},
      {"between: b", "table.yaml:21:14", "only a crossover is between two plans"},
      {"role: tuned", "table.yaml:21:11", "'tuned' is not known here"},
  };
  for (const Wrong& one : wrong) {
    CAPTURE(one.line);
    const std::string said = refusal_of(one.line);
    CHECK_THAT(said, ContainsSubstring(one.place));
    CHECK_THAT(said, ContainsSubstring(one.message));
  }
}

TEST_CASE("a prediction is judged by its tolerance", "[validation]") {
  ledger::StatedFact asked;
  asked.expected = {ledger::Relation::equal, 100, 5, "5 %"};

  SECTION("within, at the edge and beyond") {
    CHECK(judge(asked, 105.0).verdict == ledger::FactVerdict::pass);
    CHECK(judge(asked, 95.0).verdict == ledger::FactVerdict::pass);
    CHECK(judge(asked, 106.0).verdict == ledger::FactVerdict::fail);
    CHECK(judge(asked, 106.0).error == Approx(0.06));
    CHECK(judge(asked, std::nullopt).verdict == ledger::FactVerdict::fail);
  }
  SECTION("a bound has one side, and no error while it is kept") {
    asked.expected = {ledger::Relation::at_least, 100, 0, ""};
    CHECK(judge(asked, 150.0).verdict == ledger::FactVerdict::pass);
    CHECK(judge(asked, 150.0).error == 0);
    CHECK(judge(asked, 90.0).verdict == ledger::FactVerdict::fail);
    CHECK(judge(asked, 90.0).error == Approx(-0.1));
    asked.expected.relation = ledger::Relation::at_most;
    CHECK(judge(asked, 90.0).verdict == ledger::FactVerdict::pass);
    CHECK(judge(asked, 110.0).verdict == ledger::FactVerdict::fail);
  }
  SECTION("a known deviation counts, and fails once it passes") {
    asked.known_deviation = "not modelled yet";
    CHECK(judge(asked, 120.0).verdict == ledger::FactVerdict::known_deviation);
    CHECK_FALSE(judge(asked, 120.0).failed());
    CHECK(judge(asked, 101.0).verdict == ledger::FactVerdict::stale_deviation);
    CHECK(judge(asked, 101.0).failed());
  }
}

TEST_CASE("the summary counts known deviations among the errors", "[validation]") {
  ledger::StatedFact good;
  good.topic = ledger::Topic::bytes_sent;
  good.expected = {ledger::Relation::equal, 100, 5, "5 %"};
  ledger::StatedFact bad = good;
  bad.known_deviation = "not modelled yet";
  // Errors of 1 %, 2 % and 30 %: the middle one is 2 %.
  const ledger::ValidationResult result{{judge(good, 101.0), judge(good, 98.0), judge(bad, 130.0)}};
  CHECK_THAT(report::accuracy_summary(result),
             Catch::Matchers::ContainsSubstring("| bytes sent | 3 | 2 | 1 | 2.00 % | +30.00 % |"));
}

}  // namespace trireme::validation
