// Which rank of how many this process is, from what its launcher left in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trireme::calibrate {

/// How the ranks can reach each other: not at all, by MPI, or by TCP through rank 0.
enum class LinkKind : std::uint8_t { single, mpi, tcp };

/// Where rank 0 listens.
struct Rendezvous {
  std::string host;
  std::uint16_t port = 0;
};

struct Discovery {
  LinkKind kind = LinkKind::single;
  std::string launcher;  // "torchrun", "mpirun", "srun"; empty for a process of its own
  std::int64_t rank = 0;
  std::int64_t ranks = 1;                  // with MPI: 0 when only MPI itself knows
  std::optional<Rendezvous> rendezvous{};  // of TCP
  std::string token{};                     // names the run: a stray process of another is refused
  std::string warning{};                   // one sentence; empty for none
};

/// The value of an environment variable, empty text included.
using GetVariable = std::function<std::optional<std::string>(const char* name)>;

[[nodiscard]] std::optional<std::string> variable_of_process(const char* name);

/// The first that is set of: RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK, PMIX_RANK,
/// PMI_RANK, MV2_COMM_WORLD_RANK (an MPI's launcher), SLURM_PROCID in a job step (srun). Throws
/// Error (command line) for a variable that is no number or does not fit the others.
[[nodiscard]] Discovery discover_ranks(const GetVariable& variable);

/// "HOST:PORT" as --rendezvous takes it. Throws Error (command line).
[[nodiscard]] Rendezvous parse_rendezvous(const std::string& text);

/// The first host of a list such as "gpu[03-06,9],login1". Empty for an empty list.
[[nodiscard]] std::string first_host(const std::string& slurm_list);

}  // namespace trireme::calibrate
