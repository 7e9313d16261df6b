#include "calibrate/cli/run_options.h"

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/cli/commands.h"
#include "calibrate/cli/run_probes.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

namespace {

template <class Parse>
auto parsed(const Invocation& call, const char* option, const char* otherwise, Parse parse) {
  const std::string text = call.text(option).empty() ? otherwise : call.text(option);
  try {
    return parse(text);
  } catch (const BadText& bad) {
    refuse(fmt::format("--{}: {}", option, bad.what()), bad.hint());
  }
}

Seconds parse_time(std::string_view text) {
  const Seconds time = parse_seconds(text);
  if (time <= Seconds(0)) {
    throw BadText("a time is above zero", "write it with its unit, such as 0.5 s");
  }
  return time;
}

std::chrono::milliseconds in_milliseconds(Seconds time) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(time.value() * 1e3));
}

}  // namespace

RunOptions run_options_of(const Invocation& call) {
  RunOptions options;
  options.folder = call.text("output");
  if (options.folder.empty()) {
    refuse("run needs a folder for its measurements", "trireme-calibrate run -o measured");
  }
  const std::string grid = call.text("grid");
  if (!grid.empty() && grid != "full" && grid != "few") {
    const std::vector<std::string> known = {"full", "few"};
    refuse(fmt::format("--grid: {} is not known", in_quotes(grid)), hint_near(grid, known));
  }
  options.grid = grid == "few" ? Grid::few : Grid::full;
  options.limits.repeats.time = parsed(call, "time-per-point", "1 s", parse_time);
  if (!call.text("time").empty()) {
    options.limits.whole = parsed(call, "time", "", parse_time);
  }
  options.limits.repeats.relative_interval = parsed(call, "interval", "2 %", parse_percentage);
  options.link.reply = in_milliseconds(parsed(call, "wait-for-ranks", "60 s", parse_time));
  options.link.connect = options.link.reply;
  return options;
}

Discovery discovery_of(const Invocation& call) {
  Discovery found = discover_ranks(variable_of_process);
  if (!found.warning.empty()) {
    note(found.warning);
  }
  if (const std::string text = call.text("rendezvous"); !text.empty()) {
    found.rendezvous = parse_rendezvous(text);
  }
  const std::string link = call.text("link");
  if (link == "single") {
    return {};
  }
  if (link == "tcp") {
    found.kind = found.ranks > 1 ? LinkKind::tcp : LinkKind::single;
    if (found.kind == LinkKind::tcp && !found.rendezvous) {
      refuse("--link tcp: where rank 0 listens is not known", "--rendezvous HOST:PORT");
    }
  } else if (link == "mpi") {
    found.kind = LinkKind::mpi;
  } else if (!link.empty() && link != "auto") {
    const std::vector<std::string> known = {"auto", "single", "mpi", "tcp"};
    refuse(fmt::format("--link: {} is not known", in_quotes(link)), hint_near(link, known));
  }
  return found;
}

void add_run_options(po::options_description& options) {
  auto add = options.add_options();
  add("output,o",
      po::value<std::string>()->value_name("FOLDER"),
      "append measurements here; points that are there are not measured again");
  const std::string probes = "measure this alone, may be repeated: " + probe_names();
  add("probe", po::value<std::vector<std::string>>()->value_name("NAME"), probes.c_str());
  add("device",
      po::value<std::string>()->value_name("KIND"),
      "gpu, cpu, or auto (default): GPUs where there are any; gpu without one ends with exit code "
      "6");
  add("study",
      po::value<std::string>()->value_name("STUDY.yaml"),
      "on GPUs: measure the matrix products of this study's plans, before the grid");
  add("grid", po::value<std::string>()->value_name("SIZE"), "which points: full (default) or few");
  add("time-per-point",
      po::value<std::string>()->value_name("TIME"),
      "repeat a point no longer than this (default 1 s)");
  add("time",
      po::value<std::string>()->value_name("TIME"),
      "begin no point after this long, such as 500 s, and say which were left out (default: "
      "500 s on one GPU, elsewhere no limit)");
  add("interval",
      po::value<std::string>()->value_name("PERCENT"),
      "or until the median is known this well, with 95 % confidence (default 2 %)");
  add("link",
      po::value<std::string>()->value_name("KIND"),
      "how ranks reach each other: auto (default: as the launcher says), single, mpi or tcp");
  add("rendezvous",
      po::value<std::string>()->value_name("HOST:PORT"),
      "where rank 0 listens for ranks that come by TCP (default: as the launcher says)");
  add("wait-for-ranks",
      po::value<std::string>()->value_name("TIME"),
      "end when a rank has not answered for this long (default 60 s)");
}

}  // namespace trireme::calibrate
