// The reports in the repository are what the studies beside them give.
#include "tests/catch.h"
#include "tests/support/golden.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

TEST_CASE("the report on Ulysses and Megatron is fresh", "[cli][golden]") {
  const TemporaryFolder folder;
  const ProgramRun run = run_trireme("report reports/ulysses-vs-megatron/study.yaml -o '" +
                                     folder.path().string() + "'");
  REQUIRE(run.exit_code == 0);
  for (const char* file : {"table.csv",
                           "report.md",
                           "timeline-megatron-sp.svg",
                           "timeline-ulysses-zero3.svg",
                           "timeline-hybrid.svg"}) {
    check_golden(std::string("../../reports/ulysses-vs-megatron/") + file,
                 read_file(folder.path() / file));
  }
}

}  // namespace
}  // namespace trireme::test
