#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "calibrate/cli/commands.h"
#include "calibrate/cli/cpu_machine.h"
#include "calibrate/cli/run_gpu.h"
#include "calibrate/harness/cpu_environment.h"
#include "calibrate/harness/harness.h"
#include "calibrate/harness/interruption.h"
#include "calibrate/harness/rank_discovery.h"
#include "calibrate/harness/rank_link.h"
#include "calibrate/harness/tcp_link.h"
#include "calibrate/measurement/measurement_file.h"
#include "calibrate/probe/cpu/executor_kernels.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/engine/execute/transport.h"
#include "sim/units/text.h"
#if TRIREME_WITH_MPI
#include "calibrate/harness/mpi_link.h"
#include "calibrate/probe/cpu/executor_collectives.h"
#include "calibrate/probe/cpu/mpi_collectives.h"
#endif

namespace trireme::calibrate {

namespace po = boost::program_options;

namespace {

namespace fs = std::filesystem;
using engine::RankFailure;

/// What the run is at, for messages from any thread.
class Current {
 public:
  void set(std::string what) {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
  }

  [[nodiscard]] std::string during() {
    const std::lock_guard lock(mutex_);
    return what_.empty() ? "" : "; at " + what_;
  }

 private:
  std::mutex mutex_;
  std::string what_;
};

Current& current() {
  static Current value;
  return value;
}

void say_failure(const std::string& reason) {
  say(
      fmt::format("trireme-calibrate: error: {}{}\nhint: what was measured is kept; the same "
                  "command goes on from there\n",
                  reason,
                  current().during()));
}

// ---- probes ----

/// What a rank has to measure with.
struct Machine {
  RankLink& link;
  Placement placement;
#if TRIREME_WITH_MPI
  engine::MpiCalls* mpi = nullptr;  // null without ranks of MPI

  [[nodiscard]] std::string mpi_name() const {
    return mpi == nullptr ? "" : mpi_library();
  }
#else
  [[nodiscard]] static std::string mpi_name() {
    return {};
  }
#endif
};

struct ProbeRow {
  const char* name;
  const char* summary;
  std::unique_ptr<Probe> (*make)(const Machine& machine, Grid grid);  // null: not on this machine
};

template <std::unique_ptr<Probe> (*make)(Grid grid)>
std::unique_ptr<Probe> on_any(const Machine& /*machine*/, Grid grid) {
  return make(grid);
}

#if TRIREME_WITH_MPI

template <auto make>
std::unique_ptr<Probe> on_mpi(const Machine& machine, Grid grid) {
  const bool several = machine.mpi != nullptr && machine.mpi->ranks() > 1;
  return several ? make(*machine.mpi, machine.placement.ranks_per_host, grid) : nullptr;
}

#endif

constexpr std::array kProbes = {
    ProbeRow{"launch", "the executor's own time for an operation", on_any<executor_launch>},
    ProbeRow{"gemm", "matrix products: forward and both gradients", on_any<executor_gemm>},
    ProbeRow{"attention", "flash attention, forward and backward", on_any<executor_attention>},
    ProbeRow{"memory-bound", "norms, pointwise kernels, Adam", on_any<executor_memory_bound>},
    ProbeRow{"host-copy", "copies in memory", on_any<host_copies>},
#if TRIREME_WITH_MPI
    ProbeRow{
        "collectives", "collectives as step programs execute them", on_mpi<executor_collectives>},
    ProbeRow{"mpi", "the MPI library's own collectives", on_mpi<mpi_collectives>},
#endif
};

std::vector<std::string> names_of_probes(const Invocation& call) {
  return call.values.count("probe") == 0 ? std::vector<std::string>()
                                         : call.values["probe"].as<std::vector<std::string>>();
}

std::vector<std::unique_ptr<Probe>> chosen_probes(const Invocation& call,
                                                  const Machine& machine,
                                                  Grid grid) {
  const std::vector<std::string> names = names_of_probes(call);
  std::vector<std::string> known;
  for (const ProbeRow& row : kProbes) {
    known.emplace_back(row.name);
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse(fmt::format("--probe: {} is not known", in_quotes(name)), hint_near(name, known));
    }
  }
  std::vector<std::unique_ptr<Probe>> probes;
  for (const ProbeRow& row : kProbes) {
    const bool asked = std::find(names.begin(), names.end(), row.name) != names.end();
    if (!names.empty() && !asked) {
      continue;
    }
    std::unique_ptr<Probe> probe = row.make(machine, grid);
    if (probe) {
      probes.push_back(std::move(probe));
    } else if (asked) {
      refuse(fmt::format("--probe {}: needs several ranks of MPI", row.name),
             "mpirun -n 8 trireme-calibrate run ...");
    }
  }
  return probes;
}

// ---- progress ----

/// A line on a terminal that is written over; nothing elsewhere.
class Progress final : public HarnessObserver {
 public:
  explicit Progress(bool speaks)
      : shows_(speaks && ::isatty(STDERR_FILENO) != 0), start_(Clock::now()) {}

  ~Progress() override { clear(); }

  void begin(const Point& point, std::int64_t at, std::int64_t of) override {
    current().set(in_words(point));
    if (!shows_) {
      return;
    }
    clear();
    ++begun_;
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    const double each =
        elapsed.count() / static_cast<double>(std::max<std::int64_t>(begun_ - 1, 1));
    const std::string left =
        begun_ == 1
            ? ""
            : fmt::format(", about {} left", minutes(each * static_cast<double>(of - at + 1)));
    constexpr std::size_t kWidth = 79;
    say(fmt::format("[{}/{}{}] {}", at, of, left, in_words(point)).substr(0, kWidth));
    dirty_ = true;
  }

  void left_out(const Point& point, const std::string& reason) override {
    clear();
    note(fmt::format("left out: {}: {}", in_words(point), printable(reason)));
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::string minutes(double seconds) {
    const auto whole = static_cast<std::int64_t>(seconds);
    return whole < 60 ? fmt::format("{} s", whole)
                      : fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }

  void clear() {
    if (dirty_) {
      say("\r\x1b[K");
      dirty_ = false;
    }
  }

  bool shows_;
  bool dirty_ = false;
  std::int64_t begun_ = 0;
  Clock::time_point start_;
};

// ---- options ----

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

struct Options {
  fs::path folder;
  Grid grid = Grid::full;
  HarnessLimits limits;
  LinkLimits link;
};

Options options_of(const Invocation& call) {
  Options options;
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

// ---- the run ----

/// What the folder holds from earlier runs; nothing when it is new.
MeasurementSet already_there(const fs::path& folder) {
  std::error_code none;
  if (!fs::exists(folder / "environments.csv", none)) {
    return {};
  }
  return read_measurements(folder, [](const std::string& sentence) { note(sentence); });
}

/// A key that no row has, as a second may hold two short runs.
std::string free_key(const MeasurementSet& there, const std::string& date) {
  std::set<std::string> taken;
  for (const Environment& environment : there.environments) {
    taken.insert(environment.key);
  }
  std::string key = date;
  for (int number = 2; taken.contains(key); ++number) {
    key = fmt::format("{} ({})", date, number);
  }
  return key;
}

void refuse_another_device(const MeasurementSet& there,
                           const Environment& now,
                           const fs::path& folder) {
  for (const Environment& before : there.environments) {
    if (before.source == now.source && before.device != now.device) {
      refuse(fmt::format("{} holds measurements of another device: {} and not {}",
                         in_quotes(folder.string(), 200),
                         in_quotes(before.device),
                         in_quotes(now.device)),
             "name another folder");
    }
  }
}

std::string in_words(const HarnessResult& result) {
  std::string text = fmt::format("{} points measured", result.measured);
  if (result.skipped > 0) {
    text += fmt::format(", {} were there", result.skipped);
  }
  if (result.left_out > 0) {
    text += fmt::format(", {} left out", result.left_out);
  }
  if (result.unsettled > 0) {
    text += fmt::format("; of {} the time was up before the median was settled", result.unsettled);
  }
  return text + (result.interrupted ? "; interrupted, the same command goes on from here" : "");
}

/// With what is measured under lasting load after it, one GPU takes less than ten minutes.
constexpr Seconds kWholeOfOneGpu(500);

/// Where rows of lasting load are told from those of short bursts of the same points.
constexpr std::string_view kSustained = " sustained";

/// Rows of one kind of load.
std::vector<Measurement> rows_of(const MeasurementSet& set, bool sustained) {
  std::vector<Measurement> rows;
  for (const Measurement& row : set.measurements) {
    if (row.environment.ends_with(kSustained) == sustained) {
      rows.push_back(row);
    }
  }
  return rows;
}

/// What a GPU does when it has been busy for seconds, in an environment of its own.
HarnessResult measure_sustained(GpuMachine& gpu,
                                const Options& options,
                                RankLink& link,
                                Environment environment,
                                MeasurementWriter* writer,
                                HarnessObserver& observer) {
  environment.key += kSustained;
  gpu.describe_under_load(environment);
  MeasurementSet there;
  std::vector<Measurement> rows;
  std::optional<Record> record;
  if (writer != nullptr) {
    there = already_there(options.folder);
    rows = rows_of(there, true);
    writer->append(environment);
    record.emplace(*writer, rows, there.memory);
  }
  HarnessLimits limits = options.limits;
  limits.warm_up = Seconds(3);  // of each point: until the clock has followed the power
  return measure(
      gpu.sustained_probes(), link, limits, environment.key, record ? &*record : nullptr, observer);
}

ExitCode measure_on(const Options& options, const Invocation& call, Machine machine) {
  RankLink& link = machine.link;
  machine.placement = find_placement(link);
  if (!machine.placement.uniform) {
    refuse("the hosts have different numbers of ranks, or ranks that alternate",
           "start as many ranks on each host, filling one after the other");
  }
  const std::unique_ptr<GpuMachine> gpu = take_gpu(
      call,
      {.call_limit = options.link.reply, .layers = {}, .few_points = options.grid == Grid::few},
      link,
      machine.placement);
  const auto probes = gpu != nullptr ? named_probes(gpu->probes(), names_of_probes(call))
                                     : chosen_probes(call, machine, options.grid);
  Environment environment = cpu_environment(machine.placement, machine.mpi_name());
  if (gpu != nullptr) {
    gpu->describe(environment);
  }
  MeasurementSet there;
  std::unique_ptr<MeasurementWriter> writer;
  std::optional<Record> record;
  if (link.rank() == 0) {
    writer = std::make_unique<MeasurementWriter>(options.folder);
    there = already_there(options.folder);
    refuse_another_device(there, environment, options.folder);
    environment.key = free_key(there, environment.date);
    writer->append(environment);
    there.measurements = rows_of(there, false);
    record.emplace(*writer, there.measurements, there.memory);
  }
  Progress progress(link.rank() == 0);
  HarnessLimits limits = options.limits;
  if (gpu != nullptr && link.ranks() == 1 && call.text("time").empty()) {
    limits.whole = kWholeOfOneGpu;
  }
  HarnessResult result =
      measure(probes, link, limits, environment.key, record ? &*record : nullptr, progress);
  if (gpu != nullptr && !result.interrupted && names_of_probes(call).empty()) {
    result += measure_sustained(*gpu, options, link, environment, writer.get(), progress);
  }
  current().set({});
  if (link.rank() == 0) {
    if (gpu == nullptr) {
      write_cpu_machine(options.folder, environment);
    }
    note(fmt::format("{}: {}", printable(options.folder.string()), in_words(result)));
  }
  return result.interrupted ? ExitCode::interrupted : ExitCode::done;
}

/// As measure_on; another rank's failure is said by one of those that live, and ends all.
ExitCode measure_or_tell(const Options& options, const Invocation& call, Machine machine) {
  try {
    return measure_on(options, call, machine);
  } catch (const WrongResult& wrong) {
    machine.link.fail(wrong.what());
    throw Error(ErrorKind::device,
                SourceLocation{.file = "trireme-calibrate"},
                fmt::format("rank {}: a wrong result: {}{}",
                            machine.link.rank(),
                            wrong.what(),
                            current().during()));
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    machine.link.fail(error.what());
    throw;
  }
}

ExitCode run_alone(const Options& options, const Invocation& call) {
  remember_interruption(true);
  SingleRank link;
  return measure_or_tell(options, call, Machine{.link = link, .placement = {}});
}

ExitCode run_on_tcp(const Options& options, const Invocation& call, const Discovery& found) {
  remember_interruption(true);
  try {
    const auto link =
        connect_by_tcp(found.rank, found.ranks, *found.rendezvous, found.token, options.link);
    return measure_or_tell(options, call, Machine{.link = *link, .placement = {}});
  } catch (const RankFailure& failure) {
    if (found.rank == 0 || failure.rank() == 0) {  // else rank 0 says it
      say_failure(failure.what());
    }
    return ExitCode::device;
  }
}

#if TRIREME_WITH_MPI

ExitCode run_on_mpi(const Options& options, const Invocation& call, const Discovery& found) {
  remember_interruption(false);
  try {
    return engine::run_mpi_calls(
        {.receive = options.link.reply},
        [](const RankFailure& failure) { say_failure(failure.what()); },
        [&](engine::MpiCalls& mpi) {
          if (found.ranks > 1 && mpi.ranks() == 1) {
            refuse(fmt::format("the launcher has started {} ranks and MPI knows of one each",
                               found.ranks),
                   "use the mpirun of the MPI that this was built with, or srun --mpi=pmix");
          }
          MpiLink link(mpi);
          return measure_or_tell(
              options, call, Machine{.link = link, .placement = {}, .mpi = &mpi});
        });
  } catch (const RankFailure& failure) {
    say_failure(failure.what());
    return ExitCode::device;
  }
}

#else

ExitCode run_on_mpi(const Options& /*options*/,
                    const Invocation& /*call*/,
                    const Discovery& /*found*/) {
  refuse("started by mpirun, and this trireme-calibrate was built where there was no MPI",
         "install OpenMPI (libopenmpi-dev, openmpi-bin) and build again");
}

#endif

/// What --link and --rendezvous make of what the launcher has left.
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

std::string probe_names() {
  std::string names;
  for (const ProbeRow& row : kProbes) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

}  // namespace

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

ExitCode run_run(const Invocation& call) {
  const Options options = options_of(call);
  const Discovery found = discovery_of(call);
  switch (found.kind) {
    case LinkKind::mpi:
      return run_on_mpi(options, call, found);
    case LinkKind::tcp:
      return run_on_tcp(options, call, found);
    case LinkKind::single:
      break;
  }
  return run_alone(options, call);
}

}  // namespace trireme::calibrate
