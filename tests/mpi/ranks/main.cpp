// A rank of the tests of MPI processes: mpirun starts this program.
//
//   trireme_mpi_ranks same             collectives give what they give on threads
//   trireme_mpi_ranks SIGNAL R         rank R sends SIGNAL to itself, the others go on without end
//   trireme_mpi_ranks SIGNAL R alone   as before, but the others compute and exchange nothing
//   trireme_mpi_ranks throw R          rank R throws
//   trireme_mpi_ranks wait R           rank R goes on without sending what the others wait for
//   trireme_mpi_ranks cycle 0          all ranks wait for each other

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/execute/message_collectives.h"
#include "sim/engine/execute/mpi_transport.h"
#include "sim/engine/execute/thread_transport.h"

namespace trireme::engine {
namespace {

/// What a rank holds after all collectives, then its bytes to and from every rank and in total.
std::vector<double> all_collectives(Transport& transport) {
  const std::int64_t ranks = transport.ranks();
  MessageGroup group{.ranks = std::vector<std::int64_t>(static_cast<std::size_t>(ranks)),
                     .position = transport.rank()};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  WireCount count;
  Carrier carrier{.transport = transport,
                  .count = count,
                  .account = {},
                  .type = ElementType::bf16,
                  .gpus_per_node = 4};
  std::vector<double> all;
  // The last is too long for MPI to send it without the receiver's help.
  for (const std::int64_t chunk : {1, 7, 20'000}) {
    std::vector<double> whole;
    for (std::int64_t i = 0; i < chunk * ranks; ++i) {
      whole.push_back(1.0 / static_cast<double>(1 + i + 11 * transport.rank()));
    }
    std::vector<double> shard(static_cast<std::size_t>(chunk));
    reduce_scatter(carrier, group, whole, shard, Combine::sum);
    std::vector<double> gathered(whole.size());
    all_gather(carrier, group, shard, gathered);
    std::vector<double> exchanged(whole.size());
    all_to_all(carrier, group, whole, exchanged);
    std::vector<double> odd(whole.begin(), whole.end() - 1);
    all_reduce(carrier, group, odd, Combine::sum);
    for (const std::vector<double>& values : {shard, gathered, exchanged, odd}) {
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  for (std::int64_t peer = 0; peer < ranks; ++peer) {
    all.push_back(static_cast<double>(count.sent_to[peer].value()));
    all.push_back(static_cast<double>(count.received_from[peer].value()));
  }
  all.push_back(static_cast<double>(count.ledger.sent.value()));
  all.push_back(
      static_cast<double>(count.ledger.sent_by_link[ledger::index(LinkClass::nic)].value()));
  return all;
}

/// Rank 0 compares every rank's outcome with that of a thread, to the last bit.
ExitCode same_as_threads(Transport& transport) {
  const std::vector<double> own = all_collectives(transport);
  if (transport.rank() != 0) {
    transport.send(0, own);
    return ExitCode::done;
  }
  ThreadNetwork network(transport.ranks(), std::chrono::seconds(60));
  std::vector<std::vector<double>> expected(static_cast<std::size_t>(transport.ranks()));
  run_ranks(network, [&](std::int64_t rank, Transport& endpoint) {
    expected[static_cast<std::size_t>(rank)] = all_collectives(endpoint);
  });
  std::size_t compared = 0;
  for (std::int64_t rank = 0; rank < transport.ranks(); ++rank) {
    const std::vector<double>& of_thread = expected[static_cast<std::size_t>(rank)];
    std::vector<double> of_process = own;
    if (rank != 0) {
      of_process.resize(of_thread.size());
      transport.receive(rank, of_process);
    }
    if (of_process != of_thread) {
      fmt::print("rank {} differs\n", rank);
      return ExitCode::bound_missed;
    }
    compared += of_process.size();
  }
  fmt::print("{} numbers of {} ranks are the same\n", compared, transport.ranks());
  return ExitCode::done;
}

[[noreturn]] void exchange_without_end(Transport& transport) {
  while (true) {
    all_collectives(transport);
  }
}

[[noreturn]] void compute_without_end() {
  volatile double x = 1;
  while (true) {
    x = x * 1.0000001;
  }
}

ExitCode run(Transport& transport, const std::vector<std::string>& arguments) {
  static const std::map<std::string, int> kSignals = {
      {"SIGKILL", SIGKILL}, {"SIGSTOP", SIGSTOP}, {"SIGSEGV", SIGSEGV}};
  const std::string& what = arguments.at(0);
  if (what == "same") {
    return same_as_threads(transport);
  }
  all_collectives(transport);
  const bool chosen = transport.rank() == std::stoll(arguments.at(1));
  if (what == "throw" && chosen) {
    throw std::domain_error("the weights are not finite");
  }
  if (what == "cycle") {
    std::vector<double> message(1);
    transport.receive((transport.rank() + 1) % transport.ranks(), message);
  }
  if (what == "wait" && chosen) {
    compute_without_end();
  }
  if (chosen && kSignals.contains(what)) {
    raise(kSignals.at(what));
  }
  if (arguments.size() > 2) {
    compute_without_end();
  }
  exchange_without_end(transport);
}

}  // namespace
}  // namespace trireme::engine

int main(int argc, char** argv) {
  using trireme::engine::RankFailure;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const trireme::ExitCode code = trireme::engine::run_mpi_rank(
        {.receive = std::chrono::seconds(6)},
        [](const RankFailure& failure) { fmt::print(stderr, "error: {}\n", failure.what()); },
        [&](trireme::engine::Transport& transport) {
          return trireme::engine::run(transport, arguments);
        });
    return static_cast<int>(code);
  } catch (const RankFailure& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return static_cast<int>(trireme::ExitCode::device);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(trireme::ExitCode::bug);
  }
}
