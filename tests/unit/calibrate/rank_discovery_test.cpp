#include "calibrate/harness/rank_discovery.h"

#include <map>
#include <string>

#include "sim/core/error.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

using Catch::Matchers::ContainsSubstring;
using Variables = std::map<std::string, std::string>;

Discovery discover(const Variables& variables) {
  return discover_ranks([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST_CASE("a process of its own is one rank") {
  CHECK(discover({}).kind == LinkKind::single);
  CHECK(discover({}).ranks == 1);
}

TEST_CASE("torchrun comes before MPI and Slurm, and its agent keeps the port") {
  const Variables torchrun = {{"RANK", "3"},
                              {"WORLD_SIZE", "8"},
                              {"MASTER_ADDR", "node1"},
                              {"MASTER_PORT", "29500"},
                              {"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"SLURM_PROCID", "0"}};
  const Discovery found = discover(torchrun);
  CHECK(found.kind == LinkKind::tcp);
  CHECK(found.rank == 3);
  CHECK(found.ranks == 8);
  REQUIRE(found.rendezvous);
  CHECK(found.rendezvous->host == "node1");
  CHECK(found.rendezvous->port == 29500);
  Variables with_agent = torchrun;
  with_agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(discover(with_agent).rendezvous->port == 29501);
}

TEST_CASE("launchers of MPI are known by their variables") {
  const Discovery open_mpi =
      discover({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK(open_mpi.kind == LinkKind::mpi);
  CHECK(open_mpi.ranks == 4);
  // Slurm with PMIx: how many, MPI alone knows.
  const Discovery pmix = discover({{"PMIX_RANK", "2"}, {"SLURM_PROCID", "2"}});
  CHECK(pmix.kind == LinkKind::mpi);
  CHECK(pmix.ranks == 0);
  CHECK(discover({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).kind == LinkKind::mpi);
  CHECK(discover({{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}}).kind ==
        LinkKind::mpi);
}

TEST_CASE("a step of Slurm meets at its first host, a shell of salloc runs alone") {
  const Variables step = {{"SLURM_PROCID", "1"},
                          {"SLURM_NTASKS", "16"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "123456"},
                          {"SLURM_STEP_NODELIST", "gpu[07-08,11]"}};
  const Discovery found = discover(step);
  CHECK(found.kind == LinkKind::tcp);
  CHECK(found.ranks == 16);
  CHECK(found.rendezvous->host == "gpu07");
  CHECK(found.rendezvous->port == 20000 + 123456 % 20000);
  CHECK(found.token == "123456.0");
  const Discovery shell = discover({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}});
  CHECK(shell.kind == LinkKind::single);
  CHECK_THAT(shell.warning, ContainsSubstring("has 16 tasks"));
}

TEST_CASE("variables that are wrong are named") {
  CHECK_THROWS_WITH(discover({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), ContainsSubstring("RANK"));
  CHECK_THROWS_WITH(discover({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                    ContainsSubstring("rank 2 of 2 ranks"));
  CHECK_THROWS_WITH(discover({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
                    ContainsSubstring("MASTER_ADDR and MASTER_PORT are not"));
  CHECK_THROWS_WITH(
      discover(
          {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
      ContainsSubstring("70000 is more than"));
}

TEST_CASE("the first host of Slurm's lists") {
  CHECK(first_host("node1") == "node1");
  CHECK(first_host("node1,node2") == "node1");
  CHECK(first_host("gpu[03-06,9],login1") == "gpu03");
  CHECK(first_host("gpu[9]") == "gpu9");
  CHECK(first_host("r[1-2]n") == "r1n");
  CHECK(first_host("login1,gpu[3-6]") == "login1");
  CHECK(first_host("").empty());
}

TEST_CASE("a rendezvous is a host and a port") {
  CHECK(parse_rendezvous("node1:29500").host == "node1");
  CHECK(parse_rendezvous("[::1]:80").host == "::1");
  CHECK(parse_rendezvous("[::1]:80").port == 80);
  for (const char* wrong : {"node1", ":80", "node1:0", "node1:65536", "node1:x"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_rendezvous(wrong), Error);
  }
}

}  // namespace
}  // namespace trireme::calibrate
