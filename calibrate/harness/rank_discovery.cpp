#include "calibrate/harness/rank_discovery.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "sim/core/error.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

constexpr std::int64_t kLargestPort = 65535;
constexpr std::int64_t kMostRanks = 1 << 20;

[[noreturn]] void fail(const std::string& name, const std::string& message) {
  throw Error(ErrorKind::command_line,
              SourceLocation{.file = name},
              message,
              "start with torchrun, mpirun or srun, or unset what an earlier one has left");
}

/// A number from an environment variable.
std::int64_t number(const std::string& name, const std::string& text, std::int64_t most) {
  std::int64_t value = 0;
  try {
    value = parse_count(text);
  } catch (const BadText& bad) {
    fail(name, fmt::format("the environment variable is no number: {}", bad.what()));
  }
  if (value > most) {
    fail(name, fmt::format("{} is more than {}", value, most));
  }
  return value;
}

/// Rank and number of ranks; `ranks_name` may be null where a launcher does not say.
void read_place(const GetVariable& variable,
                const char* rank_name,
                const char* ranks_name,
                Discovery& found) {
  found.rank = number(rank_name, *variable(rank_name), kMostRanks);
  found.ranks = 0;
  const auto ranks = ranks_name == nullptr ? std::nullopt : variable(ranks_name);
  if (ranks) {
    found.ranks = number(ranks_name, *ranks, kMostRanks);
    if (found.rank >= found.ranks) {
      fail(rank_name, fmt::format("rank {} of {} ranks", found.rank, found.ranks));
    }
  }
}

Discovery of_torchrun(const GetVariable& variable) {
  Discovery found{.kind = LinkKind::tcp, .launcher = "torchrun"};
  read_place(variable, "RANK", "WORLD_SIZE", found);
  if (found.ranks == 1) {
    found.kind = LinkKind::single;
    return found;
  }
  const auto host = variable("MASTER_ADDR");
  const auto port = variable("MASTER_PORT");
  if (!host || host->empty() || !port) {
    fail("MASTER_ADDR", "RANK is set, and MASTER_ADDR and MASTER_PORT are not");
  }
  std::int64_t at = number("MASTER_PORT", *port, kLargestPort - 1);
  // torchrun's own agent listens at that port then.
  if (variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") {
    ++at;
  }
  found.rendezvous = Rendezvous{*host, static_cast<std::uint16_t>(at)};
  found.token = variable("TORCHELASTIC_RUN_ID").value_or("");
  return found;
}

Discovery of_slurm(const GetVariable& variable) {
  const auto ranks = variable("SLURM_NTASKS");
  if (!variable("SLURM_STEP_ID")) {
    Discovery alone;
    if (ranks && *ranks != "1") {
      alone.warning = fmt::format(
          "the Slurm job has {} tasks and this process was not started by srun: it runs alone",
          printable(*ranks));
    }
    return alone;
  }
  Discovery found{.kind = LinkKind::tcp, .launcher = "srun"};
  read_place(variable, "SLURM_PROCID", "SLURM_NTASKS", found);
  if (found.ranks == 1) {
    found.kind = LinkKind::single;
    return found;
  }
  const std::string host = first_host(variable("SLURM_STEP_NODELIST").value_or(""));
  if (host.empty()) {
    fail("SLURM_STEP_NODELIST", "SLURM_PROCID is set, and SLURM_STEP_NODELIST is not");
  }
  // Jobs that share a host must not meet: as many ports as there are, by the number of the job.
  constexpr std::int64_t kFirstPort = 20000;
  constexpr std::int64_t kPorts = 20000;
  const std::int64_t job =
      number("SLURM_JOB_ID", variable("SLURM_JOB_ID").value_or("0"), std::int64_t{1} << 40);
  found.rendezvous = Rendezvous{host, static_cast<std::uint16_t>(kFirstPort + job % kPorts)};
  found.token = fmt::format("{}.{}", job, *variable("SLURM_STEP_ID"));
  return found;
}

struct MpiVariables {
  const char* rank;
  const char* ranks;
};

constexpr std::array kMpiVariables = {MpiVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                      MpiVariables{"PMIX_RANK", nullptr},
                                      MpiVariables{"PMI_RANK", "PMI_SIZE"},
                                      MpiVariables{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};

}  // namespace

std::optional<std::string> variable_of_process(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Discovery discover_ranks(const GetVariable& variable) {
  if (variable("RANK") && variable("WORLD_SIZE")) {
    return of_torchrun(variable);
  }
  for (const MpiVariables& names : kMpiVariables) {
    if (variable(names.rank)) {
      Discovery found{.kind = LinkKind::mpi, .launcher = "mpirun"};
      read_place(variable, names.rank, names.ranks, found);
      return found;
    }
  }
  if (variable("SLURM_PROCID") || variable("SLURM_NTASKS")) {
    return of_slurm(variable);
  }
  return {};
}

Rendezvous parse_rendezvous(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::command_line,
                SourceLocation{.file = "--rendezvous"},
                fmt::format("{}: {}", in_quotes(text), why),
                "write the host of rank 0 and a free port, such as node1:29500");
  };
  if (colon == std::string::npos || colon == 0) {
    refuse("not HOST:PORT");
  }
  std::int64_t port = 0;
  try {
    port = parse_count(text.substr(colon + 1));
  } catch (const BadText& bad) {
    refuse(bad.what());
  }
  if (port < 1 || port > kLargestPort) {
    refuse("a port is from 1 to 65535");
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {  // an IPv6 address
    host = host.substr(1, host.size() - 2);
  }
  return {host, static_cast<std::uint16_t>(port)};
}

std::string first_host(const std::string& slurm_list) {
  const std::string_view list(slurm_list);
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) {
    return std::string(list.substr(0, comma));
  }
  const std::string_view numbers = list.substr(bracket + 1);
  const std::size_t first_end = numbers.find_first_of("-,]");
  const std::size_t close = numbers.find(']');
  std::string host(list.substr(0, bracket));
  host += numbers.substr(0, first_end);
  if (close != std::string_view::npos) {
    const std::string_view rest = numbers.substr(close + 1);
    host += rest.substr(0, rest.find(','));
  }
  return host;
}

}  // namespace trireme::calibrate
