#include "calibrate/fit/law_fit.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "sim/config/law.h"
#include "sim/config/study_file.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/error.h"
#include "sim/study/evaluate.h"
#include "sim/study/law.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

namespace fs = std::filesystem;

const fs::path kReport = fs::path(TRIREME_SOURCE_DIR) / "reports" / "ulysses-vs-megatron";

config::LawSpec example_law() {
  return config::read_law(config::read_yaml_file(kReport / "law.yaml"), "law");
}

/// The steps of the example study as the example law has them, at six lengths: of the two plans of
/// one framework, whose memory grows with the tokens alone.
std::vector<StepRow> example_rows() {
  const config::StudyFile study = config::StudyFile::read(kReport / "study.yaml", {});
  ledger::StudyResult result = study::sweep(study, "", [](std::size_t, std::size_t) {});
  study::apply_law(example_law(), result);
  std::vector<StepRow> rows;
  for (const ledger::PlanResult& row : result.rows) {
    REQUIRE(row.law.has_value());
    if (row.plan == "ulysses-zero3") {
      continue;
    }
    rows.push_back({Tokens(std::get<std::int64_t>(row.point.front().value)),
                    row.numbers->memory.allocated,
                    row.numbers->bytes.sent,
                    *row.law});
  }
  return rows;
}

TEST_CASE("the example law comes back from the rows that it generates", "[calibrate]") {
  const std::vector<StepRow> rows = example_rows();
  REQUIRE(rows.size() == 12);
  const LawFit fit = fit_law(rows);
  CHECK(fit.law.constant.value() == Approx(5.40e-3).epsilon(1e-6));
  CHECK(fit.law.per_peak_gibibyte.value() == Approx(2.80e-3).epsilon(1e-6));
  CHECK(fit.law.per_sent_gibibyte.value() == Approx(1.49e-3).epsilon(1e-6));
  CHECK(fit.law.per_kilotoken.value() == Approx(4.94e-3).epsilon(1e-6));
  CHECK(fit.law.per_kilotoken_squared.value() == Approx(0.14157e-3).epsilon(1e-6));
  CHECK(fit.r_squared == Approx(1).epsilon(1e-9));
  CHECK(fit.mean_absolute_error.value() < 1e-9);
  // memory, bytes and tokens grow together
  CHECK(fit.condition_number > 30);
  CHECK(fit.collinear());
}

TEST_CASE("a fitted law is a file that is read back", "[calibrate]") {
  const std::string text = law_yaml(fit_law(example_rows()), "measured");
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("no coefficient stands for one cause"));
  const config::LawSpec law = config::read_law(
      config::read_yaml(std::make_shared<const config::SourceText>("law.yaml", text)), "law");
  CHECK(law.law.per_kilotoken_squared.value() == Approx(0.14157e-3).epsilon(1e-5));
  CHECK(law.coefficients.size() == 5);
  CHECK(law.coefficients.front().samples == 12);
}

/// Sizes that vary apart, so that nothing is collinear: seconds by hand.
StepRow step(std::int64_t kilotokens, std::int64_t peak_gib, std::int64_t sent_gib, double ms) {
  return {
      Tokens(kilotokens * 1024), Bytes(peak_gib << 30), Bytes(sent_gib << 30), Seconds(ms * 1e-3)};
}

TEST_CASE("a law of sizes that vary apart has standard errors and no warning", "[calibrate]") {
  // 300 + M + 2 W + 3 S - S^2 in ms, and 1 ms more and less in turn for noise
  std::vector<StepRow> rows;
  double sign = 1;
  for (const std::int64_t s : {1, 8, 16}) {
    for (const std::int64_t m : {1, 8}) {
      for (const std::int64_t w : {1, 8}) {
        const double exact = 300.0 + static_cast<double>(m + 2 * w + 3 * s - s * s);
        rows.push_back(step(s, m, w, exact + sign));
        rows.push_back(step(s, m, w, exact - sign));
        sign = -sign;
      }
    }
  }
  const LawFit fit = fit_law(rows);
  CHECK(fit.rows == 24);
  // the pairs cancel: the coefficients are exact, and each row is 1 ms off
  CHECK(fit.law.per_peak_gibibyte.value() == Approx(1e-3).epsilon(1e-9));
  CHECK(fit.law.per_sent_gibibyte.value() == Approx(2e-3).epsilon(1e-9));
  CHECK(fit.law.per_kilotoken_squared.value() == Approx(-1e-3).epsilon(1e-9));
  CHECK(fit.mean_absolute_error.value() == Approx(1e-3).epsilon(1e-9));
  // sigma^2 = 24 / 19 ms^2; M stands apart from the rest: sum (M - 4.5)^2 = 24 * 3.5^2 = 294
  CHECK(fit.standard_errors.at(1).value() ==
        Approx(std::sqrt(24.0 / 19 / 294) * 1e-3).epsilon(1e-9));
  CHECK(fit.condition_number > 1);
  CHECK(fit.condition_number < 30);
  CHECK_FALSE(fit.collinear());
}

TEST_CASE("rows that cannot tell a law are refused", "[calibrate]") {
  std::vector<StepRow> rows(5, step(1, 1, 1, 1));
  CHECK_THROWS_WITH(fit_law(rows), Catch::Matchers::Contains("5 rows"));
  // memory always twice the bytes sent
  rows.clear();
  for (std::int64_t i = 1; i <= 8; ++i) {
    rows.push_back(step(i * i, 2 * i, i, 1));
  }
  CHECK_THROWS_WITH(fit_law(rows), Catch::Matchers::Contains("depend on each other exactly"));
}

TEST_CASE("measured steps are read from CSV with located errors", "[calibrate]") {
  const std::string header = "plan,sequence_tokens,peak_bytes,sent_bytes,step_seconds\n";
  const auto rows = read_step_rows(header + "u,8192,1073741824,0,0.25\n\nm,16384,5,7,1\n", "s.csv");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].sequence == Tokens(8192));
  CHECK(rows[0].peak == Bytes(1073741824));
  CHECK(rows[1].sent == Bytes(7));
  CHECK(rows[0].step == Seconds(0.25));
  const auto refused = [&](const std::string& text, int line, int column) {
    try {
      (void)read_step_rows(text, "s.csv");
      FAIL("the rows were accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK(error.where().line == line);
      CHECK(error.where().column == column);
    }
  };
  refused("sequence_tokens,peak_bytes,step_seconds\n", 1, 1);
  refused(header + "u,8192,x,0,0.25\n", 2, 8);
  refused(header + "u,8192,1,0,-1\n", 2, 12);
  refused(header + "u,8192,1,0\n", 2, 1);
  refused(header + "u,8192,1,0,nan\n", 2, 12);
}

}  // namespace
}  // namespace trireme::calibrate
