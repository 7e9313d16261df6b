#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/cli/commands.h"
#include "calibrate/cli/cpu_machine.h"
#include "calibrate/cli/run_gpu.h"
#include "calibrate/cli/run_options.h"
#include "calibrate/cli/run_probes.h"
#include "calibrate/cli/run_progress.h"
#include "calibrate/harness/cpu_environment.h"
#include "calibrate/harness/harness.h"
#include "calibrate/harness/interruption.h"
#include "calibrate/harness/tcp_link.h"
#include "calibrate/measurement/measurement_file.h"
#include "sim/core/printable.h"
#include "sim/engine/execute/transport.h"

namespace trireme::calibrate {

namespace {

namespace fs = std::filesystem;
using engine::RankFailure;

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

/// One GPU takes less than ten minutes: bursts, and with what is measured under lasting load after
/// them.
constexpr Seconds kBurstsOfOneGpu(500);
constexpr Seconds kWholeOfOneGpu(580);

/// Rows of one kind of load, which are measured apart though they are of the same points.
std::vector<Measurement> rows_of(const MeasurementSet& set, Load load) {
  std::set<std::string> keys;
  for (const Environment& environment : set.environments) {
    if (environment.load == load) {
      keys.insert(environment.key);
    }
  }
  std::vector<Measurement> rows;
  for (const Measurement& row : set.measurements) {
    if (keys.count(row.environment) == 1) {
      rows.push_back(row);
    }
  }
  return rows;
}

/// What a GPU does when it has been busy for seconds, in an environment of its own. No point begins
/// after `whole`.
HarnessResult measure_sustained(GpuMachine& gpu,
                                const RunOptions& options,
                                Seconds whole,
                                RankLink& link,
                                Environment environment,
                                MeasurementWriter* writer,
                                HarnessObserver& observer) {
  environment.key += " sustained";
  environment.load = Load::sustained;
  gpu.describe_under_load(environment);
  MeasurementSet there;
  std::vector<Measurement> rows;
  std::optional<Record> record;
  if (writer != nullptr) {
    there = already_there(options.folder);
    rows = rows_of(there, Load::sustained);
    writer->append(environment);
    record.emplace(*writer, rows, there.memory);
  }
  HarnessLimits limits = options.limits;
  limits.whole = whole;
  limits.warm_up = Seconds(3);  // of each point: until the clock has followed the power
  return measure(
      gpu.sustained_probes(), link, limits, environment.key, record ? &*record : nullptr, observer);
}

ExitCode measure_on(const RunOptions& options, const Invocation& call, Machine machine) {
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
  environment.load = Load::burst;
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
    there.measurements = rows_of(there, Load::burst);
    record.emplace(*writer, there.measurements, there.memory);
  }
  Progress progress(link.rank() == 0);
  HarnessLimits limits = options.limits;
  Seconds whole = limits.whole;
  if (gpu != nullptr && link.ranks() == 1 && call.text("time").empty()) {
    limits.whole = kBurstsOfOneGpu;
    whole = kWholeOfOneGpu;
  }
  const auto start = std::chrono::steady_clock::now();
  HarnessResult result =
      measure(probes, link, limits, environment.key, record ? &*record : nullptr, progress);
  if (gpu != nullptr && !result.interrupted && names_of_probes(call).empty()) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const Seconds left = whole - Seconds(taken.count());
    result += measure_sustained(*gpu, options, left, link, environment, writer.get(), progress);
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
ExitCode measure_or_tell(const RunOptions& options, const Invocation& call, Machine machine) {
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

ExitCode run_alone(const RunOptions& options, const Invocation& call) {
  remember_interruption(true);
  SingleRank link;
  return measure_or_tell(options, call, Machine{.link = link, .placement = {}});
}

ExitCode run_on_tcp(const RunOptions& options, const Invocation& call, const Discovery& found) {
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

ExitCode run_on_mpi(const RunOptions& options, const Invocation& call, const Discovery& found) {
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

ExitCode run_on_mpi(const RunOptions& /*options*/,
                    const Invocation& /*call*/,
                    const Discovery& /*found*/) {
  refuse("started by mpirun, and this trireme-calibrate was built where there was no MPI",
         "install OpenMPI (libopenmpi-dev, openmpi-bin) and build again");
}

#endif

}  // namespace

ExitCode run_run(const Invocation& call) {
  const RunOptions options = run_options_of(call);
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
