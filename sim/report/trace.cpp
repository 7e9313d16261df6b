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
  if (slice.critical) {
    event["args"]["critical path"] = true;
  }
  events.add(start, std::move(event));
  events.add(start,
             {{"name", "memory (MiB)"},
              {"ph", "C"},
              {"pid", slice.rank},
              {"args",
               {{"allocated", static_cast<double>(slice.allocated.value()) / kBytesPerMebibyte}}}});
}

struct ArrowEnd {
  const ledger::TimelineSlice& slice;
  std::int64_t at;  // nanoseconds
};

/// An arrow binds to the slices that enclose its ends, so slices too short to enclose one have
/// none.
bool encloses(const ArrowEnd& end) {
  return nanoseconds(end.slice.start) <= end.at && end.at < nanoseconds(end.slice.end);
}

/// Adds an arrow of the next number. Around a ring, the neighbour that came last may still wait for
/// its other neighbour when the hop starts: its slice is not there yet, and there is no arrow.
void add_arrow(std::string_view title,
               const ArrowEnd& from,
               const ArrowEnd& to,
               std::size_t& arrows,
               TraceEvents& events) {
  if (!encloses(from) || !encloses(to) || from.at > to.at) {
    return;
  }
  const auto event = [&](std::string_view phase, const ledger::TimelineSlice& slice) {
    return Json{{"name", title},
                {"cat", "wait"},
                {"ph", phase},
                {"id", arrows},
                {"pid", slice.rank},
                {"tid", slice.stream}};
  };
  events.add(from.at, event("s", from.slice));
  Json finish = event("f", to.slice);
  finish["bp"] = "e";
  events.add(to.at, std::move(finish));
  ++arrows;
}

}  // namespace

std::string to_trace(const ledger::Timeline& timeline) {
  TraceEvents events;
  name_tracks(timeline, events);
  for (const ledger::TimelineSlice& slice : timeline.slices) {
    add_slice(slice, events);
  }
  std::size_t arrows = 0;
  for (const ledger::TimelineWait& wait : timeline.waits) {
    const ledger::TimelineSlice& from = timeline.slices[wait.waited_for];
    const ledger::TimelineSlice& to = timeline.slices[wait.waiting];
    add_arrow("waits for",
              {from, nanoseconds(from.end) - 1},
              {to, nanoseconds(to.start)},
              arrows,
              events);
  }
  for (const ledger::TimelineMeeting& meeting : timeline.meetings) {
    const ledger::TimelineSlice& last = timeline.slices[meeting.last];
    const ledger::TimelineSlice& waiting = timeline.slices[meeting.waiting];
    add_arrow("waits for the last rank",
              {last, nanoseconds(last.start)},
              {waiting, nanoseconds(waiting.start)},
              arrows,
              events);
  }
  Json document;
  document["displayTimeUnit"] = "ms";
  document["otherData"] = {
      {"study", timeline.study}, {"plan", timeline.plan}, {"what_if", timeline.what_if}};
  document["traceEvents"] = events.take();
  return document.dump() + "\n";
}

}  // namespace trireme::report
