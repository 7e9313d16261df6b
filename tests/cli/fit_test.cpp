// trireme-calibrate fit and show as processes: what is written, what is said, with which exit code.
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "sim/cost/gemm.h"
#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

ProgramRun run_calibrate(const std::string& arguments) {
  return run_shell("\"$(dirname \"$TRIREME\")/trireme-calibrate\" " + arguments);
}

calibrate::Environment environment(const std::string& key, const std::string& device) {
  calibrate::Environment result;
  result.key = key;
  result.date = "2026-11-30";
  result.source = "measured";
  result.device = device;
  result.processors = 132;
  return result;
}

/// Matrix products that take as long as form G1 says with t0 3 us, 700 TFLOP/s, k0 100, 2.5 TB/s.
void add_products(calibrate::MeasurementWriter& writer, const std::string& key) {
  const cost::GemmCosts costs{.start = Seconds(3e-6),
                              .rate = FlopsPerSecond(700e12),
                              .inner_overhead = 100,
                              .bandwidth = BytesPerSecond(2.5e12)};
  for (const std::int64_t m : {64, 512, 4096, 16384}) {
    for (const std::int64_t n : {256, 1024, 4096, 16384}) {
      for (const std::int64_t k : {512, 8192}) {
        const calibrate::GemmPoint point{.m = m, .n = n, .k = k};
        const Seconds time = cost::gemm_time(m, n, k, point.type, false, costs);
        writer.append(calibrate::Measurement{point, {time, time, time, 9, true}, key});
      }
    }
  }
}

fs::path measured_products(const TemporaryFolder& folder) {
  fs::path measured = folder.path() / "measured";
  calibrate::MeasurementWriter writer(measured);
  writer.append(environment("e1", "NVIDIA H100"));
  add_products(writer, "e1");
  return measured;
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("fit writes a profile whole, and says what it explains", "[cli]") {
  const TemporaryFolder folder;
  const fs::path measured = measured_products(folder);
  const fs::path profile = folder.path() / "profile.yaml";
  const std::string fit = fmt::format("fit '{}' --gpu h100-sxm", measured.string());
  const ProgramRun written = run_calibrate(fmt::format("{} -o '{}'", fit, profile.string()));
  INFO(written.error);
  CHECK(written.exit_code == 0);
  CHECK(written.error.empty());
  CHECK_THAT(written.out, ContainsSubstring("gemm"));
  CHECK_THAT(read_file(profile), ContainsSubstring("P: {value: 700 TFLOP/s"));
  CHECK(files_in(folder.path()) == 2);  // nothing is left beside the result
  SECTION("to stdout without -o, and the words to stderr") {
    const ProgramRun printed = run_calibrate(fit);
    CHECK(printed.exit_code == 0);
    CHECK(printed.out == read_file(profile));
    CHECK(printed.error == written.out);
  }
  SECTION("again, the same") {
    const std::string first = read_file(profile);
    CHECK(run_calibrate(fmt::format("{} -o '{}'", fit, profile.string())).exit_code == 0);
    CHECK(read_file(profile) == first);
  }
  SECTION("show prints it, and draws the measurements beside it") {
    const fs::path figure = folder.path() / "fit.svg";
    const ProgramRun shown = run_calibrate(fmt::format(
        "show '{}' '{}' --svg '{}'", profile.string(), measured.string(), figure.string()));
    INFO(shown.error);
    CHECK(shown.exit_code == 0);
    CHECK_THAT(shown.out, ContainsSubstring("gemm.P"));
    CHECK_THAT(shown.out, ContainsSubstring("matrix products"));
    CHECK_THAT(read_file(figure), ContainsSubstring("</svg>\n"));
  }
}

TEST_CASE("measurements that are none leave the profile of before as it is", "[cli]") {
  struct Case {
    const char* damage;  // of gemm.csv, as a shell does it
    const char* message;
  };

  const Case wrong = GENERATE(
      Case{"sed -i '4s/,forward,/,sideways,/' $file", "gemm.csv:4:"},
      Case{"sed -i '4s/^64,/-64,/' $file", "gemm.csv:4:1: error: "},
      Case{"sed -i '4s/[^,]*$/nowhere/' $file", "gemm.csv:4:"},
      Case{"sed -i '4s/.*/64,256/' $file", "gemm.csv:4:"},
      Case{"sed -i '4s/^/\"/' $file", "gemm.csv:4:1: error: a quote is not closed"},
      Case{"sed -i '1s/m,n/n,m/' $file", "gemm.csv:1:"},
      Case{"head -c 70000 /dev/zero >$file", "gemm.csv: error: the file is not a text file"},
      Case{"rm $file", "there are no measurements"});
  const TemporaryFolder folder;
  const fs::path measured = measured_products(folder);
  const fs::path profile = folder.path() / "profile.yaml";
  write_file(profile, "of before\n");
  REQUIRE(run_shell(fmt::format("file='{}'; {}", (measured / "gemm.csv").string(), wrong.damage))
              .exit_code == 0);
  const ProgramRun run = run_calibrate(
      fmt::format("fit '{}' --gpu h100-sxm -o '{}'", measured.string(), profile.string()));
  CAPTURE(wrong.damage);
  CHECK(run.exit_code == 3);
  CHECK(run.out.empty());
  CHECK_THAT(run.error, ContainsSubstring(wrong.message));
  CHECK(read_file(profile) == "of before\n");
  CHECK(files_in(folder.path()) == 2);
}

TEST_CASE("a last row that was cut is dropped with a word", "[cli]") {
  const TemporaryFolder folder;
  const fs::path measured = measured_products(folder);
  REQUIRE(
      run_shell(fmt::format("truncate -s -20 '{}'", (measured / "gemm.csv").string())).exit_code ==
      0);
  const ProgramRun run = run_calibrate(fmt::format(
      "fit '{}' --gpu h100-sxm -o '{}'", measured.string(), (folder.path() / "p.yaml").string()));
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.error, ContainsSubstring("gemm.csv"));
}

TEST_CASE("measurements of two devices are fitted one at a time", "[cli]") {
  const TemporaryFolder folder;
  const fs::path measured = measured_products(folder);
  {
    calibrate::MeasurementWriter writer(measured);
    writer.append(environment("e2", "NVIDIA H200"));
    add_products(writer, "e2");
  }
  const std::string fit = fmt::format("fit '{}' --gpu h100-sxm", measured.string());
  const ProgramRun both = run_calibrate(fit);
  CHECK(both.exit_code == 3);
  CHECK_THAT(both.error, ContainsSubstring("'NVIDIA H100', 'NVIDIA H200'"));
  CHECK_THAT(both.error, ContainsSubstring("--device"));
  CHECK(run_calibrate(fit + " --device 'NVIDIA H200'").exit_code == 0);
  const ProgramRun none = run_calibrate(fit + " --device 'NVIDIA H20'");
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.error, ContainsSubstring("did you mean 'NVIDIA H200'?"));
}

TEST_CASE("wrong command lines of fit and show", "[cli]") {
  struct Case {
    const char* arguments;
    int exit_code;
    const char* message;
  };

  const Case wrong = GENERATE(
      Case{"fit --gpu h100-sxm", 2, "no folder of measurements is given"},
      Case{"fit measured", 2, "no --gpu is given"},
      Case{"fit measured --gpu h100-sxn", 3, "did you mean 'h100-sxm'?"},
      Case{"fit nowhere --gpu h100-sxm", 3, "nowhere: error: this is no folder"},
      Case{"fit measured --gpu h100-sxm --seed x", 2, "--seed: "},
      Case{"fit measured --gpu h100-sxm --kernel flash", 2, "is not MEASURED=PROFILE"},
      Case{"fit measured --gpu h100-sxm -o nowhere/profile.yaml", 2, "nowhere/profile.yaml"},
      Case{"fit measured --law steps.csv", 2, "--law takes the steps of its file alone"},
      Case{"fit --law nowhere.csv", 3, "nowhere.csv: error: "},
      Case{"fit --law steps.csv --gpu h100-sxm", 2, "--gpu says nothing of a law"},
      Case{"fit --law steps.csv --accept-slow-fabric", 2, "--accept-slow-fabric says nothing"},
      Case{"fit measured --gpu h100-sxm --kernel egien=flash2", 3, "'egien'"},
      Case{"show", 2, "PROFILE.yaml"},
      Case{"show h100-sxm-publik", 3, "did you mean 'h100-sxm-public'?"},
      Case{"show h100-sxm-public --svg fit.svg", 2, "no folder of them is given"},
      Case{"show h100-sxm-public --kernel eigen=flash2", 2, "--kernel is of measurements"},
      Case{"show h100-sxm-public nowhere", 3, "this is no folder"});
  const TemporaryFolder folder;
  static_cast<void>(measured_products(folder));
  const ProgramRun run = run_shell(fmt::format(
      "calibrate=\"$(dirname \"$TRIREME\")/trireme-calibrate\"; cd '{}' && \"$calibrate\" {}",
      folder.path().string(),
      wrong.arguments));
  CAPTURE(wrong.arguments, run.error);
  CHECK(run.exit_code == wrong.exit_code);
  CHECK(run.out.empty());
  CHECK_THAT(run.error, ContainsSubstring(wrong.message));
  CHECK(files_in(folder.path()) == 1);
}

}  // namespace
}  // namespace trireme::test
