// The program where there is no GPU, and one short run where there is.
#include <string>

#include "calibrate/probe/gpu/support.h"
#include "tests/catch.h"
#include "tests/gpu/gpu.h"
#include "tests/support/run_trireme.h"

namespace trireme::calibrate::gpu {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("the program says which of NVIDIA's libraries it has", "[gpu][calibrate]") {
  const test::ProgramRun run =
      test::run_shell("$(dirname \"$TRIREME\")/trireme-calibrate --version");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("GPU: CUDA "));
  CHECK_THAT(run.out, ContainsSubstring(", NCCL "));
}

TEST_CASE("without a GPU the program starts and says so", "[gpu][calibrate]") {
  if (support().missing().empty()) {
    test::skip("there is a GPU");
    return;
  }
  const test::TemporaryFolder folder;
  const std::string output = (folder.path() / "measured").string();
  const test::ProgramRun refused =
      test::run_shell("$(dirname \"$TRIREME\")/trireme-calibrate run --device gpu -o " + output);
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.error, ContainsSubstring("error: no GPU on rank 0: "));
  CHECK_FALSE(std::filesystem::exists(output));
  const test::ProgramRun instead = test::run_shell(
      "$(dirname \"$TRIREME\")/trireme-calibrate run --probe launch --grid few -o " + output);
  CHECK(instead.exit_code == 0);
  CHECK_THAT(instead.error, ContainsSubstring("; the processors are measured"));
  CHECK(std::filesystem::exists(output + "/launch.csv"));
}

TEST_CASE("a short run on a GPU leaves measurements", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  const test::TemporaryFolder folder;
  const std::string output = (folder.path() / "measured").string();
  const test::ProgramRun run = test::run_shell(
      "$(dirname \"$TRIREME\")/trireme-calibrate run --device gpu --grid few --probe gemm "
      "--probe attention --time-per-point '0.2 s' -o " +
      output);
  INFO(run.error);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.error, ContainsSubstring("12 points measured"));
  CHECK(std::filesystem::exists(output + "/gemm.csv"));
  CHECK(std::filesystem::exists(output + "/attention.csv"));
}

}  // namespace
}  // namespace trireme::calibrate::gpu
