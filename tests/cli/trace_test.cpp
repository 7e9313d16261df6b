// Traces, held against the rules of Perfetto's JSON importer.
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using Json = nlohmann::json;
using Track = std::pair<std::int64_t, std::int64_t>;  // process and thread

const std::string kStudy = "trace reports/ulysses-vs-megatron/study.yaml";

std::int64_t nanoseconds(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

struct Span {
  std::int64_t start;
  std::int64_t end;
};

/// Checks order of time, metadata, nesting and the binding of arrows; returns the slices by track.
std::map<Track, std::vector<Span>> check_trace(const Json& trace) {
  std::set<std::string> metadata;
  std::map<Track, std::vector<Span>> slices;
  std::map<std::int64_t, int> arrow_ends;
  std::int64_t before = 0;
  for (const Json& event : trace["traceEvents"]) {
    const std::string kind = event["ph"];
    if (kind == "M") {
      metadata.insert(event["name"].get<std::string>());
      continue;
    }
    const std::int64_t at = nanoseconds(event["ts"]);
    CHECK(at >= before);
    before = at;
    if (kind == "C") {
      CHECK(event["args"]["allocated"].get<double>() > 0);
      continue;
    }
    const Track track{event["pid"].get<std::int64_t>(), event["tid"].get<std::int64_t>()};
    CHECK_FALSE(event["name"].get<std::string>().empty());
    if (kind == "X") {
      const std::int64_t end = at + nanoseconds(event["dur"]);
      if (!slices[track].empty()) {  // slices of one thread must nest: here they follow
        CHECK(at >= slices[track].back().end);
      }
      slices[track].push_back({at, end});
      CHECK_FALSE(event["args"]["component"].get<std::string>().empty());
    }
  }
  CHECK(metadata == std::set<std::string>{
                        "process_name", "process_sort_index", "thread_name", "thread_sort_index"});
  for (const Json& event : trace["traceEvents"]) {
    const std::string kind = event["ph"];
    if (kind != "s" && kind != "f") {
      continue;
    }
    const std::int64_t at = nanoseconds(event["ts"]);
    bool enclosed = false;
    for (const Span& span : slices[{event["pid"], event["tid"]}]) {
      enclosed = enclosed || (span.start <= at && at < span.end);
    }
    CHECK(enclosed);
    CHECK((kind == "s" || event["bp"] == "e"));
    arrow_ends[event["id"].get<std::int64_t>()] += kind == "s" ? 1 : -1;
  }
  for (const auto& [id, balance] : arrow_ends) {
    CHECK(balance == 0);
  }
  return slices;
}

TEST_CASE("trace: what Perfetto asks of it holds", "[cli]") {
  for (const std::string plan : {"megatron-sp", "ulysses-zero3", "hybrid"}) {
    CAPTURE(plan);
    const ProgramRun run = run_trireme(kStudy + " --plan " + plan);
    CHECK(run.exit_code == 0);
    const auto slices = check_trace(Json::parse(run.out));
    REQUIRE(slices.size() >= 2);  // the compute stream and a communicator of rank 0
    CHECK(slices.begin()->first == Track{0, 0});
  }
}

TEST_CASE("trace: it lasts as long as the event engine's step", "[cli]") {
  const Json trace = Json::parse(run_trireme(kStudy + " --plan megatron-sp").out);
  std::int64_t last = 0;
  double most = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      last = std::max(last, nanoseconds(event["ts"]) + nanoseconds(event["dur"]));
    } else if (event["ph"] == "C") {
      most = std::max(most, event["args"]["allocated"].get<double>());
    }
  }
  const Json row = Json::parse(run_trireme("compare reports/ulysses-vs-megatron/study.yaml --json "
                                           "--engine event --plan megatron-sp")
                                   .out)["rows"][0];
  CHECK(static_cast<double>(last) ==
        Approx(row["step_time_seconds"].get<double>() * 1e9).epsilon(1e-8));
  CHECK(most * 1048576 == Approx(row["peak_memory_bytes"]["allocated"].get<double>()));
}

TEST_CASE("trace: a plan without seconds has none", "[cli]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "study.yaml";
  write_file(path,
             "version: 1\nmodel: ulysses-study-8-layer\ncluster: h200-8x-nvlink\n"
             "workload: {sequence: 8K}\nplans: [{name: u, ulysses: 8}, {name: bad, ulysses: 5}]\n");
  const ProgramRun unknown = run_trireme("trace '" + path.string() + "' --plan u");
  CHECK(unknown.exit_code == 4);
  CHECK(unknown.out.empty());
  CHECK(unknown.error.find("kernel flash2") != std::string::npos);
  CHECK(unknown.error.find("it knows cudnn") != std::string::npos);
  const ProgramRun illegal = run_trireme("trace '" + path.string() + "' --plan bad");
  CHECK(illegal.exit_code == 4);
  CHECK(illegal.error.find("plan 'bad' has no timeline") != std::string::npos);
}

}  // namespace
}  // namespace trireme::test
