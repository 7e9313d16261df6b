// Traces, held against the rules of Perfetto's JSON importer.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

/// What a trace says before its events: names and places of processes and threads.
struct Names {
  std::map<std::int64_t, std::string> process;
  std::map<std::int64_t, std::int64_t> process_place;
  std::map<Track, std::string> thread;
  std::map<Track, std::int64_t> thread_place;
};

struct Arrow {
  int starts = 0;
  int ends = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  Track from;
  Track to;
};

struct CheckedTrace {
  Names names;
  std::map<Track, std::vector<Span>> slices;
  std::map<std::int64_t, std::vector<double>> memory;  // by process, in MiB
  std::vector<Arrow> arrows;
};

Track track_of(const Json& event) {
  return {event["pid"].get<std::int64_t>(), event["tid"].get<std::int64_t>()};
}

/// Metadata stand once for each track, before all events.
void read_metadata(const Json& event, Names& names) {
  const std::string what = event["name"];
  const Track track = track_of(event);
  const Json& arguments = event["args"];
  bool is_new = false;
  if (what == "process_name") {
    is_new = names.process.emplace(track.first, arguments["name"]).second;
  } else if (what == "process_sort_index") {
    is_new = names.process_place.emplace(track.first, arguments["sort_index"]).second;
  } else if (what == "thread_name") {
    is_new = names.thread.emplace(track, arguments["name"]).second;
  } else if (what == "thread_sort_index") {
    is_new = names.thread_place.emplace(track, arguments["sort_index"]).second;
  }
  CAPTURE(what);
  CHECK(is_new);
}

/// Names are there for what has events, and unlike each other.
void check_names(const CheckedTrace& trace) {
  const Names& names = trace.names;
  std::set<std::string> processes;
  std::set<std::int64_t> places;
  for (const auto& [process, name] : names.process) {
    CHECK_FALSE(name.empty());
    CHECK(processes.insert(name).second);
    REQUIRE(names.process_place.count(process) == 1);
    CHECK(places.insert(names.process_place.at(process)).second);
  }
  std::set<std::pair<std::int64_t, std::string>> threads;
  std::set<std::pair<std::int64_t, std::int64_t>> thread_places;
  for (const auto& [track, name] : names.thread) {
    CHECK_FALSE(name.empty());
    CHECK(names.process.count(track.first) == 1);
    CHECK(threads.insert({track.first, name}).second);
    REQUIRE(names.thread_place.count(track) == 1);
    CHECK(thread_places.insert({track.first, names.thread_place.at(track)}).second);
  }
  for (const auto& [track, slices] : trace.slices) {
    CHECK(names.thread.count(track) == 1);
  }
}

/// A slice that encloses a time on a track, as an arrow binds to.
bool encloses(const CheckedTrace& trace, const Track& track, std::int64_t at) {
  const auto slices = trace.slices.find(track);
  return slices != trace.slices.end() &&
         std::any_of(slices->second.begin(), slices->second.end(), [&](const Span& span) {
           return span.start <= at && at < span.end;
         });
}

/// Checks order of time, metadata, nesting, labels, counters and the binding of arrows.
CheckedTrace check_trace(const Json& document) {
  CheckedTrace trace;
  std::map<std::int64_t, Arrow> arrows;
  std::int64_t before = 0;
  bool timed = false;
  for (const Json& event : document["traceEvents"]) {
    const std::string kind = event["ph"];
    CHECK_FALSE(event["name"].get<std::string>().empty());
    if (kind == "M") {
      CHECK_FALSE(timed);
      read_metadata(event, trace.names);
      continue;
    }
    timed = true;
    const std::int64_t at = nanoseconds(event["ts"]);
    CHECK(at >= before);
    before = at;
    if (kind == "C") {
      CHECK(event["args"]["allocated"].get<double>() > 0);
      trace.memory[event["pid"].get<std::int64_t>()].push_back(event["args"]["allocated"]);
      continue;
    }
    const Track track = track_of(event);
    if (kind == "X") {
      const std::int64_t end = at + nanoseconds(event["dur"]);
      CHECK(end >= at);
      if (!trace.slices[track].empty()) {  // slices of one thread must nest: here they follow
        CHECK(at >= trace.slices[track].back().end);
      }
      trace.slices[track].push_back({at, end});
      CHECK_FALSE(event["cat"].get<std::string>().empty());
      for (const char* label : {"phase", "component", "function"}) {
        CHECK_FALSE(event["args"][label].get<std::string>().empty());
      }
      continue;
    }
    const bool starts = kind == "s";
    REQUIRE((starts || kind == "f"));
    CHECK((starts || event["bp"] == "e"));
    Arrow& arrow = arrows[event["id"].get<std::int64_t>()];
    ++(starts ? arrow.starts : arrow.ends);
    (starts ? arrow.start : arrow.end) = at;
    (starts ? arrow.from : arrow.to) = track;
    CHECK((starts || arrow.starts == 1));  // the importer drops an end before its start
  }
  check_names(trace);
  for (const auto& [id, arrow] : arrows) {
    CAPTURE(id);
    CHECK(arrow.starts == 1);
    CHECK(arrow.ends == 1);
    CHECK(arrow.start <= arrow.end);
    CHECK(encloses(trace, arrow.from, arrow.start));
    CHECK(encloses(trace, arrow.to, arrow.end));
    CHECK(arrow.from != arrow.to);
    trace.arrows.push_back(arrow);
  }
  return trace;
}

TEST_CASE("trace: what Perfetto asks of it holds", "[cli]") {
  for (const std::string plan : {"megatron-sp", "ulysses-zero3", "hybrid"}) {
    CAPTURE(plan);
    const ProgramRun run = run_trireme(kStudy + " --plan " + plan);
    CHECK(run.exit_code == 0);
    const CheckedTrace trace = check_trace(Json::parse(run.out));
    REQUIRE(trace.slices.size() >= 2);  // the compute stream and a communicator of rank 0
    CHECK(trace.slices.begin()->first == Track{0, 0});
    CHECK(trace.names.thread.at({0, 0}) == "compute");
    CHECK(trace.names.process.at(0) == "rank 0 (and the 7 like it)");
    CHECK(trace.memory.size() == 1);
    CHECK_FALSE(trace.arrows.empty());
  }
}

TEST_CASE("trace: a slow rank has a process of its own, and the others wait for it", "[cli]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "study.yaml";
  write_file(path,
             "version: 1\nmodel: {use: ulysses-study-8-layer, layers: 2}\n"
             "cluster: h100-8x-nvlink\nworkload: {sequence: 8K}\n"
             "plans: [{name: u, use: ulysses-zero3}]\n"
             "what_if: {slow_ranks: [{rank: 5, factor: 1.5}]}\n");
  const ProgramRun run = run_trireme("trace '" + path.string() + "'");
  REQUIRE(run.exit_code == 0);
  CHECK(run.error.find("what if: kernels of rank 5 take 1.5 times as long") != std::string::npos);
  const Json document = Json::parse(run.out);
  CHECK(document["otherData"]["what_if"] == Json({"kernels of rank 5 take 1.5 times as long"}));
  const CheckedTrace trace = check_trace(document);
  CHECK(trace.names.process == std::map<std::int64_t, std::string>{{0, "rank 0"}, {5, "rank 5"}});
  CHECK(trace.memory.size() == 2);
  int between_ranks = 0;
  for (const Arrow& arrow : trace.arrows) {
    if (arrow.from.first != arrow.to.first) {
      ++between_ranks;
      CHECK(arrow.from.first == 5);
      CHECK(arrow.to.first == 0);
      CHECK(arrow.from.second == arrow.to.second);  // of one communicator
      CHECK(arrow.start == arrow.end);              // a collective starts on all at once
    }
  }
  CHECK(between_ranks > 0);
}

TEST_CASE("trace: around a ring no arrow ends before it starts", "[cli]") {
  // With a jitter the four ranks hop at different times, and a rank whose neighbour came last may
  // start before that neighbour does.
  const TemporaryFolder folder;
  const auto path = folder.path() / "study.yaml";
  write_file(
      path,
      "version: 1\n"
      "model: {use: ulysses-study-8-layer, layers: 1}\n"
      "cluster: {use: h100-8x-nvlink, node: {gpus: 4, nics_per_node: {value: 4, source: x}}}\n"
      "workload: {sequence: 1K}\n"
      "plans: [{name: m, tensor_parallel: 4, overlap: {tensor_parallel: ring_exchange}}]\n"
      "what_if: {jitter: {relative: 0.2, runs: 1}}\n");
  const ProgramRun run = run_trireme("trace '" + path.string() + "'");
  REQUIRE(run.exit_code == 0);
  const CheckedTrace trace = check_trace(Json::parse(run.out));
  CHECK(trace.names.process.size() == 4);
  CHECK(std::any_of(trace.arrows.begin(), trace.arrows.end(), [](const Arrow& arrow) {
    return arrow.from.first != arrow.to.first;
  }));
}

TEST_CASE("trace: compressed it is the same", "[cli]") {
  const TemporaryFolder folder;
  const std::string plain = run_trireme(kStudy + " --plan hybrid").out;
  REQUIRE_FALSE(plain.empty());
  const std::string file = (folder.path() / "hybrid.json.gz").string();
  REQUIRE(run_trireme(kStudy + " --plan hybrid -o '" + file + "'").exit_code == 0);
  const std::string compressed = read_file(file);
  CHECK(compressed.size() * 5 < plain.size());
  CHECK(run_shell("gzip -dc '" + file + "'").out == plain);
  CHECK(run_trireme(kStudy + " --plan hybrid --gzip").out == compressed);
  // Only its name asks for it: another file is text.
  const std::string text = (folder.path() / "hybrid.json").string();
  REQUIRE(run_trireme(kStudy + " --plan hybrid -o '" + text + "'").exit_code == 0);
  CHECK(read_file(text) == plain);
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
  CHECK(unknown.error.find("it knows flash3, cudnn") != std::string::npos);
  const ProgramRun illegal = run_trireme("trace '" + path.string() + "' --plan bad");
  CHECK(illegal.exit_code == 4);
  CHECK(illegal.error.find("plan 'bad' has no timeline") != std::string::npos);
}

}  // namespace
}  // namespace trireme::test
