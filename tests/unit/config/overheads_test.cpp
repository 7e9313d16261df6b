#include "sim/config/overheads.h"

#include <memory>
#include <string>

#include "sim/config/study_spec.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/error.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

std::vector<OverheadsSpec> read(const std::string& rows) {
  return read_overheads(
      read_yaml(std::make_shared<const SourceText>("t.yaml", "version: 1\nframeworks:\n" + rows)));
}

const std::string kRow =
    "  - framework: nanotron\n"
    "    in_situ: {value: 1.28, spread: [1.1, 1.4], samples: 5, source: s}\n"
    "    host_per_operation: {value: 122 us, source: s}\n";

TEST_CASE("a row of overheads is read with its provenance", "[config]") {
  const auto rows = read(kRow);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].framework == Framework::nanotron);
  CHECK(rows[0].overheads.in_situ == 1.28);
  CHECK(rows[0].overheads.host_per_operation.value() == Approx(122e-6));
  REQUIRE(rows[0].coefficients.size() == 2);
  CHECK(rows[0].coefficients[0].spread_high == "1.4");
  CHECK(rows[0].coefficients[0].samples == 5);
}

TEST_CASE("overheads that cannot be are refused", "[config]") {
  CHECK_THROWS_AS(read(kRow + kRow), Error);  // a framework twice
  CHECK_THROWS_AS(read("  - framework: nanotron\n"
                       "    in_situ: {value: 0.9, source: s}\n"
                       "    host_per_operation: {value: 1 us, source: s}\n"),
                  Error);  // kernels do not get faster
  CHECK_THROWS_AS(read("  - framework: nanotron\n"
                       "    in_situ: {value: 1.5, spread: [1.1, 1.4], source: s}\n"
                       "    host_per_operation: {value: 1 us, source: s}\n"),
                  Error);  // outside of its spread
}

TEST_CASE("generic adds nothing", "[config]") {
  const cost::FrameworkOverheads none = framework_overheads(Framework::generic);
  CHECK(none.in_situ == 1);
  CHECK(none.host_per_operation == Seconds(0));
}

}  // namespace
}  // namespace trireme::config
