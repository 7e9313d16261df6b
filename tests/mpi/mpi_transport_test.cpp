#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/wait.h>

#include <fmt/format.h>

#include "tests/catch.h"

namespace trireme::test {
namespace {

struct Run {
  int exit_code = 0;
  double seconds = 0;
  std::string output;  // stdout and stderr
};

/// Runs tests/mpi/ranks/main.cpp on so many processes, as root too and on fewer cores.
Run run(int processes, const std::string& arguments) {
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "timeout --kill-after=5 60 '{}' --oversubscribe -n {} '{}' {} 2>&1",
      TRIREME_MPIRUN,
      processes,
      TRIREME_MPI_RANKS,
      arguments);
  Run result;
  const auto begin = std::chrono::steady_clock::now();
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    throw std::runtime_error("cannot start: " + command);
  }
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    result.output += buffer.data();
  }
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

/// The ranks that the program itself, not mpirun, says are lost or silent.
std::set<int> named(const std::string& output) {
  static const std::regex kName("error: rank ([0-9]+)[^\n]* is (lost|silent)");
  std::set<int> ranks;
  for (std::sregex_iterator match(output.begin(), output.end(), kName), end; match != end;
       ++match) {
    ranks.insert(std::stoi((*match)[1]));
  }
  return ranks;
}

TEST_CASE("collectives of processes give the numbers and the bytes of threads") {
  const int processes = GENERATE(4, 8);
  const Run same = run(processes, "same");
  INFO(same.output);
  CHECK(same.exit_code == 0);
  // Of each rank: reduce_scatter c, all_gather and all_to_all n c each, all_reduce n c - 1 numbers
  // for c = 1, 7, 20000, so 20008 (3 n + 1) - 3; bytes to and from n ranks; 2 totals.
  const int numbers = processes * (20008 * (3 * processes + 1) - 3 + 2 * processes + 2);
  CHECK(same.output == fmt::format("{} numbers of {} ranks are the same\n", numbers, processes));
}

TEST_CASE("a killed rank ends the run within 10 s, and is named") {
  const auto [processes, rank, how] = GENERATE(table<int, int, std::string>({
      {4, 0, ""},
      {4, 3, ""},
      {8, 5, ""},
      {8, 5, "alone"},
  }));
  CAPTURE(processes, rank, how);
  const Run killed = run(processes, fmt::format("SIGKILL {} {}", rank, how));
  INFO(killed.output);
  CHECK(named(killed.output) == std::set<int>{rank});
  CHECK_THAT(killed.output, Catch::Matchers::ContainsSubstring("its process has ended"));
  // mpirun returns the code of the process that it saw end first: the killed one or a survivor.
  CHECK((killed.exit_code == 128 + 9 || killed.exit_code == 6));
  CHECK(killed.seconds < 10);
}

TEST_CASE("a stopped rank of 4 ends the run within 10 s, and is named") {
  const Run stopped = run(4, "SIGSTOP 0");
  INFO(stopped.output);
  CHECK(named(stopped.output) == std::set<int>{0});
  CHECK_THAT(stopped.output, Catch::Matchers::ContainsSubstring("its process is stopped"));
  CHECK(stopped.exit_code == 6);
  CHECK(stopped.seconds < 10);
}

TEST_CASE("a stopped rank of 8 is named by ranks that do not wait for it") {
  const Run stopped = run(8, "SIGSTOP 6 alone");
  INFO(stopped.output);
  CHECK(named(stopped.output) == std::set<int>{6});
  CHECK(stopped.exit_code == 6);
  CHECK(stopped.seconds < 10);
}

TEST_CASE("a rank that throws ends the others, and alone says why") {
  const Run thrown = run(4, "throw 1");
  INFO(thrown.output);
  CHECK(thrown.exit_code == 1);
  CHECK(thrown.output.find("error: the weights are not finite") == thrown.output.rfind("error: "));
  CHECK_THAT(thrown.output, Catch::Matchers::ContainsSubstring("the weights are not finite"));
  CHECK(thrown.seconds < 10);
}

TEST_CASE("a rank that lives but sends nothing is named after the time for a message") {
  // Every rank but 2 waits for the one before it; so 3 waits for 2, 0 for 3, 1 for 0.
  const Run silent = run(4, "wait 2");
  INFO(silent.output);
  CHECK(named(silent.output) == std::set<int>{2});
  CHECK(silent.exit_code == 6);
}

TEST_CASE("processes that wait for each other are told so") {
  const Run cycle = run(2, "cycle 0");
  INFO(cycle.output);
  CHECK_THAT(cycle.output,
             Catch::Matchers::ContainsSubstring("which waits as well: ranks wait for each other"));
  CHECK(cycle.exit_code == 6);
}

}  // namespace
}  // namespace trireme::test
