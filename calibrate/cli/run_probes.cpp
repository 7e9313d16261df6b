#include "calibrate/cli/run_probes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#if TRIREME_WITH_MPI
#include "calibrate/probe/cpu/executor_collectives.h"
#include "calibrate/probe/cpu/mpi_collectives.h"
#endif

namespace trireme::calibrate {

namespace {

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

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Throws Error (command line) for a name that is not known.
void check_names(const std::vector<std::string>& names, const std::vector<std::string>& known) {
  for (const std::string& name : names) {
    if (!has(known, name)) {
      refuse(fmt::format("--probe: {} is not known", in_quotes(name)), hint_near(name, known));
    }
  }
}

}  // namespace

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
  check_names(names, known);
  std::vector<std::unique_ptr<Probe>> probes;
  for (const ProbeRow& row : kProbes) {
    if (!names.empty() && !has(names, row.name)) {
      continue;
    }
    std::unique_ptr<Probe> probe = row.make(machine, grid);
    if (probe) {
      probes.push_back(std::move(probe));
    } else if (!names.empty()) {
      refuse(fmt::format("--probe {}: needs several ranks of MPI", row.name),
             "mpirun -n 8 trireme-calibrate run ...");
    }
  }
  return probes;
}

std::vector<std::unique_ptr<Probe>> named_probes(std::vector<std::unique_ptr<Probe>> all,
                                                 const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const auto& probe : all) {
    known.emplace_back(probe->name());
  }
  check_names(names, known);
  if (!names.empty()) {
    std::erase_if(all, [&](const auto& probe) { return !has(names, probe->name()); });
  }
  return all;
}

std::string probe_names() {
  std::string names;
  for (const ProbeRow& row : kProbes) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

}  // namespace trireme::calibrate
