#include "calibrate/measurement/measurement_file.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "calibrate/measurement/csv.h"
#include "sim/core/error.h"
#include "sim/units/text.h"
#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::calibrate {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::TemporaryFolder;

const std::string kEnvironments =
    "key,date,source,hosts,host_names,device,devices_per_host,processors,device_memory_bytes,"
    "clocks,power,load,driver,cuda,nccl,cudnn,mpi,compiler,commit\n"
    "e1,2026-11-30,measured,1,,CPU,1,1,0,,,burst,,,,,,,\n";
const std::string kGemmHeader =
    "m,n,k,pass,type,fp32_accumulation,median_seconds,lower_quartile_seconds,"
    "upper_quartile_seconds,samples,settled,environment\n";
const std::string kGemmRow = "64,32,16,forward,bf16,false,0.5,0.25,0.75,9,true,e1\n";

std::vector<std::string> warnings;

MeasurementSet read(const TemporaryFolder& folder) {
  warnings.clear();
  return read_measurements(folder.path(),
                           [](const std::string& sentence) { warnings.push_back(sentence); });
}

/// The error of a folder with one environment and this gemm.csv, or a text without one.
std::string error_of(const std::string& gemm) {
  const TemporaryFolder folder;
  test::write_file(folder.path() / "environments.csv", kEnvironments);
  test::write_file(folder.path() / "gemm.csv", gemm);
  try {
    read(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

Timing timing(double median) {
  return {.median = Seconds(median),
          .lower_quartile = Seconds(median / 2),
          .upper_quartile = Seconds(median * 2),
          .samples = 11,
          .settled = false};
}

TEST_CASE("every kind of point is read back as it was written") {
  const CollectivePoint collective{.collective = CollectiveKind::all_to_all,
                                   .method = "nccl, \"grouped\" \\ split",
                                   .ranks = 16,
                                   .ranks_per_node = 8,
                                   .type = ElementType::fp32,
                                   .payload = Bytes(1 << 20)};
  const GemmPoint gemm{.m = 1,
                       .n = 2,
                       .k = 3,
                       .pass = GemmPass::weight_gradient,
                       .type = ElementType::fp8,
                       .fp32_accumulation = true};
  const std::vector<Point> points = {
      collective,
      AttentionPoint{.kernel = "cudnn",
                     .pass = Pass::backward,
                     .sequences = 2,
                     .query_tokens = Tokens(128),
                     .key_tokens = Tokens(256),
                     .heads = 8,
                     .kv_heads = 2,
                     .head_dim = 64,
                     .causal = false,
                     .type = ElementType::fp16},
      gemm,
      MemoryBoundPoint{.kind = cost::PointwiseClass::adam, .kernel = "adam", .moved = Bytes(4096)},
      LaunchPoint{.kernel = "empty"},
      HostCopyPoint{
          .direction = CopyDirection::device_to_host, .pinned = false, .amount = Bytes(7)},
      InterferencePoint{
          .collective = collective, .gemm = gemm, .collective_timed = true, .together = true}};
  REQUIRE(points.size() == std::variant_size_v<Point>);
  const TemporaryFolder folder;
  {
    MeasurementWriter writer(folder.path());
    Environment environment;
    environment.key = "e1";
    environment.date = "2026-11-30";
    environment.source = "measured";
    writer.append(environment);
    for (const Point& point : points) {
      writer.append(Measurement{.point = point, .timing = timing(0.1), .environment = "e1"});
    }
    writer.append(MemoryMeasurement{.stage = "context", .used = Bytes(5), .environment = "e1"});
  }
  const MeasurementSet set = read(folder);
  CHECK(warnings.empty());
  REQUIRE(set.measurements.size() == points.size());
  for (const Point& point : points) {
    const auto found = std::find_if(set.measurements.begin(),
                                    set.measurements.end(),
                                    [&](const Measurement& row) { return row.point == point; });
    INFO(in_words(point));
    REQUIRE(found != set.measurements.end());
    CHECK(found->timing.median == Seconds(0.1));
    CHECK(found->timing.lower_quartile == Seconds(0.05));
    CHECK(found->timing.upper_quartile == Seconds(0.2));
    CHECK(found->timing.samples == 11);
    CHECK_FALSE(found->timing.settled);
  }
  REQUIRE(set.memory.size() == 1);
  CHECK(set.memory[0].used == Bytes(5));
  REQUIRE(set.environments.size() == 1);
  CHECK(set.environments[0].date == "2026-11-30");
}

TEST_CASE("a file cut at any byte gives whole rows and nothing else") {
  const std::string whole = kGemmHeader + kGemmRow + kGemmRow;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const TemporaryFolder folder;
    test::write_file(folder.path() / "environments.csv", kEnvironments);
    test::write_file(folder.path() / "gemm.csv", whole.substr(0, length));
    CAPTURE(length);
    // Rows count once their line has ended.
    const std::size_t rows = length == whole.size()                           ? 2
                             : length >= kGemmHeader.size() + kGemmRow.size() ? 1
                                                                              : 0;
    REQUIRE(read(folder).measurements.size() == rows);
    const bool cut = whole.substr(0, length).empty() || whole[length - 1] != '\n';
    REQUIRE(warnings.size() == (cut ? 1U : 0U));
  }
}

TEST_CASE("a writer goes on behind the last whole row") {
  const TemporaryFolder folder;
  test::write_file(folder.path() / "environments.csv", kEnvironments);
  test::write_file(folder.path() / "gemm.csv", kGemmHeader + kGemmRow + kGemmRow.substr(0, 20));
  {
    MeasurementWriter writer(folder.path());
    writer.append(Measurement{
        .point = GemmPoint{.m = 7, .n = 8, .k = 9}, .timing = timing(1), .environment = "e1"});
  }
  CHECK(test::read_file(folder.path() / "gemm.csv") ==
        kGemmHeader + kGemmRow + "7,8,9,forward,bf16,false,1,0.5,2,11,false,e1\n");
}

TEST_CASE("one writer has a folder") {
  const TemporaryFolder folder;
  const MeasurementWriter writer(folder.path());
  CHECK_THROWS_WITH(MeasurementWriter(folder.path()), ContainsSubstring("another run writes"));
}

TEST_CASE("what is no measurement is refused where it stands") {
  struct Case {
    std::string gemm;
    const char* message;
  };

  const auto row = [](const std::string& text) { return kGemmHeader + kGemmRow + text + "\n"; };
  const Case wrong = GENERATE_COPY(
      Case{row("64,32,16,forward,bf16,false,0.5,0.25,0.75,9,true"),
           "gemm.csv:3:1: error: 11 fields where the header has 12"},
      Case{row("0,32,16,forward,bf16,false,0.5,0.25,0.75,9,true,e1"),
           "gemm.csv:3:1: error: m: 0 is less than 1"},
      Case{row("64,3x,16,forward,bf16,false,0.5,0.25,0.75,9,true,e1"), "gemm.csv:3:4: error: n: "},
      Case{row("64,32,16,foward,bf16,false,0.5,0.25,0.75,9,true,e1"),
           "gemm.csv:3:10: error: pass: 'foward' is not known\n"},
      Case{row("64,32,16,forward,bf16,no,0.5,0.25,0.75,9,true,e1"),
           "gemm.csv:3:23: error: fp32_accumulation: "},
      Case{row("64,32,16,forward,bf16,false,-0.5,0.25,0.75,9,true,e1"),
           "gemm.csv:3:29: error: median_seconds: a time is above zero"},
      Case{row("64,32,16,forward,bf16,false,nan,0.25,0.75,9,true,e1"),
           "gemm.csv:3:29: error: median_seconds: "},
      Case{row("64,32,16,forward,bf16,false,0.5,0.25,1e300,9,true,e1"),
           "gemm.csv:3:38: error: upper_quartile_seconds: nothing that is measured takes less"},
      Case{row("64,32,16,forward,bf16,false,0.5,1e-300,0.75,9,true,e1"),
           "gemm.csv:3:33: error: lower_quartile_seconds: nothing that is measured takes less"},
      Case{row("64,32,16,forward,bf16,false,0.5,0.6,0.75,9,true,e1"),
           "gemm.csv:3:33: error: the lower quartile is above the median"},
      Case{row("64,32,16,forward,bf16,false,0.5,0.25,0.4,9,true,e1"),
           "gemm.csv:3:38: error: the upper quartile is below the median"},
      Case{row("64,32,16,forward,bf16,false,0.5,0.25,0.75,9,true,e2"),
           "gemm.csv:3:50: error: environment: 'e2' is not in environments.csv"},
      Case{row("64,32,16,\"forward,bf16,false,0.5,0.25,0.75,9,true,e1"),
           "gemm.csv:3:1: error: a quote is not closed"},
      Case{row("64,32,16,forward\\n,bf16,false,0.5,0.25,0.75,9,true,e1"), "gemm.csv:3:"},
      Case{"m,n,k,pass,typ\n", "gemm.csv:1:15: error: not the header of this file"});
  CHECK_THAT(error_of(wrong.gemm), ContainsSubstring(wrong.message));
  CHECK(error_of(kGemmHeader + kGemmRow) == "read");
}

TEST_CASE("a folder without measurements is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read(folder), ContainsSubstring("the folder holds no measurements"));
  CHECK_THROWS_WITH(read_measurements(folder.path() / "nowhere", [](const std::string&) {}),
                    ContainsSubstring("this is no folder"));
}

TEST_CASE("fields of a line know where they begin") {
  const auto fields = split_csv("ä,\"b,\"\"c\",,d\r");
  REQUIRE(fields.size() == 4);
  CHECK(fields[1].text == "b,\"c");
  CHECK(fields[1].column == 3);
  CHECK(fields[2].text.empty());
  CHECK(fields[3].column == 12);
  CHECK(split_csv("a,").size() == 2);
  CHECK(split_csv("a\\")[0].text == "a\\");
  CHECK_THROWS_AS(split_csv("a\"b"), BadText);
  CHECK_THROWS_AS(split_csv("\"a\"b"), BadText);
}

}  // namespace
}  // namespace trireme::calibrate
