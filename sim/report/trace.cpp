#include "sim/report/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trireme::report {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kNanosecondsPerMicrosecond = 1e3;
constexpr double kBytesPerMebibyte = 1024.0 * 1024.0;

std::int64_t nanoseconds(Seconds time) {
  return std::llround(time.value() * kNanosecondsPerSecond);
}

double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / kNanosecondsPerMicrosecond;
}

/// Events in order of time; those of one instant stay in the order in which they were added.
class TraceEvents {
 public:
  void add_metadata(Json event) { metadata_.push_back(std::move(event)); }

  void add(std::int64_t at, Json event) {
    event["ts"] = microseconds(at);
    timed_.emplace_back(at, std::move(event));
  }

  [[nodiscard]] Json take() {
    std::stable_sort(timed_.begin(), timed_.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
    Json events = std::move(metadata_);
    for (auto& [at, event] : timed_) {
      events.push_back(std::move(event));
    }
    return events;
  }

 private:
  Json metadata_ = Json::array();
  std::vector<std::pair<std::int64_t, Json>> timed_;
};

void name_tracks(const ledger::Timeline& timeline, TraceEvents& events) {
  const auto metadata =
      [&](std::string_view what, std::int64_t rank, std::size_t stream, Json arguments) {
        events.add_metadata({{"name", what},
                             {"ph", "M"},
                             {"pid", rank},
                             {"tid", stream},
                             {"args", std::move(arguments)}});
      };
  for (const std::int64_t rank : timeline.drawn) {
    const bool stands_for_all = timeline.drawn.size() == 1 && timeline.ranks > 1;
    metadata(
        "process_name",
        rank,
        0,
        {{"name",
          stands_for_all ? fmt::format("rank {} (and the {} like it)", rank, timeline.ranks - 1)
                         : fmt::format("rank {}", rank)}});
    metadata("process_sort_index", rank, 0, {{"sort_index", rank}});
    for (std::size_t stream = 0; stream < timeline.streams.size(); ++stream) {
      metadata("thread_name", rank, stream, {{"name", timeline.streams[stream]}});
      metadata("thread_sort_index", rank, stream, {{"sort_index", stream}});
    }
  }
}

void add_slice(const ledger::TimelineSlice& slice, TraceEvents& events) {
  const std::int64_t start = nanoseconds(slice.start);
  Json event = {{"name", slice.operation},
                {"cat", name(slice.phase)},
                {"ph", "X"},
                {"pid", slice.rank},
                {"tid", slice.stream},
                {"dur", microseconds(nanoseconds(slice.end) - start)},
                {"args",
                 {{"phase", name(slice.phase)},
                  {"component", name(slice.component)},
                  {"function", slice.function}}}};
  if (!slice.where.empty()) {
    event["args"]["where"] = slice.where;
  }
  events.add(start, std::move(event));
  events.add(start,
             {{"name", "memory (MiB)"},
              {"ph", "C"},
              {"pid", slice.rank},
              {"args",
               {{"allocated", static_cast<double>(slice.allocated.value()) / kBytesPerMebibyte}}}});
}

/// An arrow binds to the slices that enclose its ends, so slices too short to enclose one have
/// none.
void add_arrow(const ledger::TimelineSlice& from,
               const ledger::TimelineSlice& to,
               std::size_t id,
               TraceEvents& events) {
  const std::int64_t last = nanoseconds(from.end) - 1;
  const std::int64_t first = nanoseconds(to.start);
  if (last < nanoseconds(from.start) || nanoseconds(to.end) <= first) {
    return;
  }
  const auto end = [&](std::string_view phase, const ledger::TimelineSlice& slice) {
    return Json{{"name", "waits for"},
                {"cat", "wait"},
                {"ph", phase},
                {"id", id},
                {"pid", slice.rank},
                {"tid", slice.stream}};
  };
  events.add(last, end("s", from));
  Json finish = end("f", to);
  finish["bp"] = "e";
  events.add(first, std::move(finish));
}

}  // namespace

std::string to_trace(const ledger::Timeline& timeline) {
  TraceEvents events;
  name_tracks(timeline, events);
  for (const ledger::TimelineSlice& slice : timeline.slices) {
    add_slice(slice, events);
  }
  for (std::size_t i = 0; i < timeline.waits.size(); ++i) {
    const ledger::TimelineWait& wait = timeline.waits[i];
    add_arrow(timeline.slices[wait.waited_for], timeline.slices[wait.waiting], i, events);
  }
  Json document;
  document["displayTimeUnit"] = "ms";
  document["otherData"] = {{"study", timeline.study}, {"plan", timeline.plan}};
  document["traceEvents"] = events.take();
  return document.dump() + "\n";
}

}  // namespace trireme::report
