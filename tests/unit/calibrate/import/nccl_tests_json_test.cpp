#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate/import/nccl_tests.h"
#include "sim/core/error.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

using Json = nlohmann::json;

/// One process with 8 GPUs: nccl-tests lists the first of them only.
Json document() {
  return Json::parse(R"({
    "version": 3, "start_time": "2026-01-28 01:05:57",
    "args": ["./build/all_reduce_perf", "-g", "8"], "env": ["PATH=/bin"], "nccl_version": 22902,
    "config": {"nthreads": 1, "ngpus": 8, "minimum_bytes": 8, "maximum_bytes": 8,
               "step_factor": 2, "validation": 1, "blocking_collectives": "false",
               "devices": [{"rank": 0, "group": 0, "pid": 1, "hostname": "node01", "device": 0,
                            "device_hex": "0000:1b:00", "device_info": "NVIDIA H100 80GB HBM3"}]},
    "results": [
      {"size": 8000000, "count": 2000000, "type": "float", "redop": "sum", "root": "    -1",
       "out_of_place": {"time": 100.0, "alg_bw": 80.0, "bus_bw": 140.0, "nwrong": 0.0},
       "in_place": {"time": 125.0, "alg_bw": 64.0, "bus_bw": 112.0, "nwrong": 0.0},
       "in_place_per_iter": {"times_us": [1.0, 2.0]},
       "actual_iterations": 20, "experiment_name": "x"}],
    "out_of_bounds": {"count": 0, "okay": "true"}, "end_time": "2026-01-28 01:06:00"})");
}

ImportedLog read(const Json& json, const Statements& statements = {}) {
  return read_nccl_tests_json(json.dump(), "run.json", statements);
}

std::string refusal_of(const Json& json) {
  const ImportedLog log = read(json);
  CHECK(log.measurements.empty());
  REQUIRE(log.refusals.size() == 1);
  return log.refusals.front().reason;
}

TEST_CASE("a JSON document of nccl-tests", "[import]") {
  const ImportedLog log = read(document());
  CHECK(log.refusals.empty());
  REQUIRE(log.measurements.size() == 2);
  CHECK(log.measurements[1].timing.median == Seconds(1.25e-4));
  const auto& point = std::get<CollectivePoint>(log.measurements[0].point);
  CHECK(point == CollectivePoint{.collective = CollectiveKind::all_reduce,
                                 .method = "nccl",
                                 .ranks = 8,
                                 .ranks_per_node = 8,
                                 .type = ElementType::fp32,
                                 .payload = Bytes(8000000)});
  CHECK(log.measurements[0].timing.median == Seconds(1e-4));
  REQUIRE(log.environments.size() == 1);
  CHECK(log.environments[0].date == "2026-01-28");
  CHECK(log.environments[0].nccl == "2.29.2");
  CHECK(log.environments[0].hosts == 1);
  CHECK(log.environments[0].device == "NVIDIA H100 80GB HBM3");
  CHECK(log.environments[0].key == "run");
}

TEST_CASE("processes of a JSON document are ranks of several nodes", "[import]") {
  Json json = document();
  json["config"]["ngpus"] = 4;
  Json second = json["config"]["devices"][0];
  second["rank"] = 4;
  second["hostname"] = "node02";
  json["config"]["devices"].push_back(second);
  const ImportedLog log = read(json);
  REQUIRE(log.measurements.size() == 2);
  CHECK(std::get<CollectivePoint>(log.measurements[0].point).ranks == 8);
  CHECK(std::get<CollectivePoint>(log.measurements[0].point).ranks_per_node == 4);

  json["config"]["devices"][1]["rank"] = 5;  // no process begins there
  CHECK(refusal_of(json) == "the log does not say how many ranks a node has");
}

TEST_CASE("results that contradict themselves are refused by number", "[import]") {
  Json json = document();
  json["results"][0]["out_of_place"]["alg_bw"] = 80.1;
  CHECK(refusal_of(json) == "results[0]: out-of-place: 8000000 bytes in 100 us are not 80.1 GB/s");
  json = document();
  json["results"][0]["out_of_place"]["bus_bw"] = 150.0;  // 1.875: 16 ranks
  json["results"][0].erase("in_place");
  CHECK(refusal_of(json) ==
        "results[0]: all_reduce: algorithm and bus bandwidth are not those of 8 ranks but of 16");
  json = document();
  json["results"][0]["count"] = 2000001;
  CHECK(refusal_of(json) == "results[0]: 2000001 elements of 4 bytes are not 8000000 bytes");
  json = document();
  json["results"][0]["out_of_place"]["nwrong"] = 4.0;
  CHECK(refusal_of(json) == "results[0]: the out-of-place result was wrong");
  json = document();
  json["results"][0]["out_of_place"].erase("time");
  json["results"][0]["out_of_place"]["cpu_time"] = 4.0;
  CHECK(refusal_of(json) ==
        "results[0]: the times are those of the processor that launches, not of the collective");
}

TEST_CASE("values that are none are refused by number", "[import]") {
  const auto with = [](const char* pointer, const Json& value) {
    Json json = document();
    json[Json::json_pointer(pointer)] = value;
    return refusal_of(json);
  };
  CHECK(with("/results/0/size", -8) == "results[0]: size, count or type is missing or none");
  CHECK(with("/results/0/size", 1e30) == "results[0]: size, count or type is missing or none");
  CHECK(with("/results/0/size", 18446744073709551615U) ==
        "results[0]: size, count or type is missing or none");
  CHECK(with("/results/0/type", "complex") == "results[0]: size, count or type is missing or none");
  CHECK(with("/results/0/redop", "mean") == "results[0]: 'mean' is no reduction");
  CHECK(with("/results/0/root", "first") == "results[0]: 'first' is no root");
  CHECK(with("/results/0/out_of_place/time", "nan") == "results[0]: time is missing or no number");
  CHECK(with("/results/0/out_of_place/time", -1.0) == "results[0]: time is missing or no number");
  CHECK(with("/results/0/out_of_place/nwrong", "0") ==
        "results[0]: nwrong is missing or no number");
  CHECK(with("/results/0", 5) == "results[0]: size, count or type is missing or none");
}

TEST_CASE("what is no document of nccl-tests is an error with its place", "[import]") {
  const auto error_of = [](const std::string& text) {
    try {
      static_cast<void>(read_nccl_tests_json(text, "run.json", {}));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return fmt::format("{}: {}", to_text(error.where()), error.message());
    }
    return std::string("none");
  };
  CHECK(error_of("{\"results\": [\n  {\"size\": 8,}]}") ==
        "run.json:2:14: this is no JSON from here on");
  CHECK(error_of("{\"results\": [1e999]}") == "run.json: a number in it is too large");
  CHECK(error_of("{}") == "run.json: this is no document of nccl-tests: it has no list 'results'");
  CHECK(error_of("[]") == "run.json: this is no document of nccl-tests: it has no list 'results'");
  CHECK(error_of(std::string(100, '[')) == "run.json: nested deeper than 16");
  const std::string whole = document().dump();
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    CAPTURE(cut);
    CHECK(error_of(whole.substr(0, cut)) != "none");
  }
}

}  // namespace
}  // namespace trireme::calibrate
