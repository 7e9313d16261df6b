#include "sim/study/law.h"

#include "sim/config/yaml_reader.h"
#include "sim/core/error.h"
#include "tests/catch.h"

namespace trireme::study {
namespace {

config::LawSpec law(const std::string& constant) {
  std::string text = "version: 1\nstep_law:\n  constant: {value: " + constant + ", source: s}\n";
  for (const char* key :
       {"per_peak_gibibyte", "per_sent_gibibyte", "per_kilotoken", "per_kilotoken_squared"}) {
    text += std::string("  ") + key + ": {value: 1 ms, source: s}\n";
  }
  const auto source = std::make_shared<const config::SourceText>("law.yaml", text);
  return config::read_law(config::read_yaml(source), "drawn");
}

/// One row of 1 GiB held, 2 GiB sent, 4K tokens.
ledger::StudyResult one_row() {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  ledger::StudyResult result;
  ledger::PlanResult& row = result.rows.emplace_back();
  row.point.push_back({"workload.sequence", "4K", std::int64_t{4096}});
  row.numbers.emplace();
  row.numbers->memory.allocated = Bytes(kGiB);
  row.numbers->bytes.sent = Bytes(2 * kGiB);
  return result;
}

TEST_CASE("law: a row has its seconds", "[unit]") {
  ledger::StudyResult result = one_row();
  apply_law(law("5 ms"), result);
  CHECK(result.law == "drawn");
  CHECK(result.rows[0].law->value() == Approx((5 + 1 + 2 + 4 + 16) * 1e-3));
  CHECK(result.rows[0].reasons.empty());
}

TEST_CASE("law: a step of no time is no result, but a reason", "[unit]") {
  ledger::StudyResult result = one_row();
  apply_law(law("-24 ms"), result);
  CHECK_FALSE(result.rows[0].law.has_value());
  REQUIRE(result.rows[0].reasons.size() == 1);
  CHECK(result.rows[0].reasons[0].find("law drawn gives") == 0);
}

TEST_CASE("law: a coefficient beyond any step is refused where it stands", "[unit]") {
  CHECK(law("-1000000 s").law.constant == Seconds(-1e6));
  for (const char* const far : {"1000001 s", "-1e300 s"}) {
    CAPTURE(far);
    try {
      static_cast<void>(law(far));
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(to_text(error.where()).starts_with("law.yaml:3:"));
      CHECK(error.message().find("is out of range") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace trireme::study
