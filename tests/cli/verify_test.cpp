// trireme verify: what it prints, and its exit codes.
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

const std::string kStudy = "verify reports/ulysses-vs-megatron/study.yaml";

TEST_CASE("verify: the reference study's programs are right", "[cli]") {
  const ProgramRun run = run_trireme(kStudy + " --json");
  REQUIRE(run.exit_code == 0);
  const Json document = Json::parse(run.out);
  CHECK(document["schema_version"] == 1);
  CHECK(document["command"] == "verify");
  CHECK(document["study"] == "ulysses-vs-megatron");
  CHECK(document["transport"] == "threads");
  REQUIRE(document["rows"].size() == 3);
  for (const Json& row : document["rows"]) {
    CAPTURE(row.dump());
    CHECK(row["verdict"] == "equal");
    CHECK(row["ranks"] == 8);
    CHECK(row["steps"] == 2);
    CHECK(row["messages"].empty());
    for (const Json& error : row["errors"]) {
      CHECK(error.get<double>() <= 1e-10);
    }
    CHECK(row["peak_memory_bytes"]["counted"] == row["peak_memory_bytes"]["ledger"]);
    const Json& sent = row["sent_bytes_per_rank"];
    CHECK(sent["total"]["counted"] == sent["total"]["ledger"]);
    std::int64_t all = 0;
    for (const Json& collective : sent["by_collective"]) {
      CHECK(collective["counted"] == collective["ledger"]);
      all += collective["counted"].get<std::int64_t>();
    }
    CHECK(all == sent["total"]["counted"]);
    CHECK(all > 0);
  }
}

TEST_CASE("verify: a table, a plan alone, a trace and seconds", "[cli]") {
  const ProgramRun table = run_trireme(kStudy);
  CHECK(table.exit_code == 0);
  for (const char* plan :
       {"megatron-sp    equal", "ulysses-zero3  equal", "hybrid         equal"}) {
    CHECK_THAT(table.out, ContainsSubstring(plan));
  }
  CHECK_THAT(table.out, ContainsSubstring(" = ledger"));
  CHECK_THAT(table.error, ContainsSubstring("hybrid: executed with 3 layers, h 13, 8 heads of 3"));

  const ProgramRun trace = run_trireme(kStudy + " --plan hybrid --full-trace");
  CHECK(trace.exit_code == 0);
  // 32 tokens over 8 ranks, packed by key/value head: three of one dimension of 3 each.
  CHECK_THAT(
      trace.out,
      ContainsSubstring("forward, attention: qkv, exchanged (all_to_all), 3 times\n"
                        "    reads send buffer of the exchange to heads [B, S/8, g, a/g+2, d] "
                        "= [1, 4, 8, 3, 3]: shard of S over sequence\n"
                        "    writes qkv, exchanged [B, S, g/8, a/g+2, d] = [1, 32, 1, 3, 3]: "
                        "shard of g over sequence\n"));
  CHECK(trace.out.find("megatron-sp") == std::string::npos);

  const ProgramRun time = run_trireme(kStudy + " --plan megatron-sp --time --json");
  CHECK(time.exit_code == 0);
  const Json row = Json::parse(time.out)["rows"][0];
  CHECK(row["verdict"] == "equal");
  CHECK(row["wall_clock_seconds"]["forward"].get<double>() > 0);
  CHECK(row["wall_clock_seconds"]["recompute"] == 0);
  const Json& repeated = row["step_time_seconds"];
  CHECK(repeated["lower_quartile"].get<double>() > 0);
  CHECK(repeated["median"].get<double>() >= repeated["lower_quartile"].get<double>());
  CHECK(repeated["upper_quartile"].get<double>() >= repeated["median"].get<double>());
  CHECK(repeated["steps"].get<int>() >= 3);

  const ProgramRun csv = run_trireme(kStudy + " --csv");
  CHECK_THAT(csv.out, ContainsSubstring("plan,verdict,"));
  CHECK_THAT(csv.out, ContainsSubstring(",sent_bytes_per_rank.total.counted,"));
}

TEST_CASE("verify --full-size executes the sizes of the study, where they fit", "[cli]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "study.yaml";
  write_file(
      path,
      "version: 1\n"
      "model: {layers: 2, hidden: 16, attention: {heads: 4, kv_heads: 4, head_dim: 4, bias: "
      "none, rotary: false}, mlp: {kind: gelu, width: 64}, norm: rmsnorm, vocabulary: none}\n"
      "cluster: {use: h100-8x-nvlink, profile: h100-sxm-public}\n"
      "workload: {sequence: 48}\n"
      "plans:\n  - {name: u, ulysses: 4, data_parallel: 2, framework: generic}\n");
  const ProgramRun small = run_trireme("verify '" + path.string() + "' --full-size --time --json");
  INFO(small.error);
  REQUIRE(small.exit_code == 0);
  const Json row = Json::parse(small.out)["rows"][0];
  CHECK(row["verdict"] == "equal");
  CHECK_THAT(row["model"].get<std::string>(),
             ContainsSubstring("2 layers, h 16, 4 heads of 4, 4 of keys and values, f 64, S 48"));
  CHECK(row["step_time_seconds"]["median"].get<double>() > 0);
  // 3.6e9 parameters of 16 bytes and more each, on 8 ranks.
  const ProgramRun large = run_trireme(kStudy + " --plan megatron-sp --full-size");
  CHECK(large.exit_code == 4);
  CHECK_THAT(large.error, ContainsSubstring("plan 'megatron-sp': to execute it takes about "));
}

TEST_CASE("verify: what it refuses", "[cli]") {
  const ProgramRun transport = run_trireme(kStudy + " --transport tcp");
  CHECK(transport.exit_code == 2);
  CHECK(transport.out.empty());
  CHECK_THAT(transport.error, ContainsSubstring("--transport: 'tcp' is not known"));
  CHECK_THAT(transport.error, ContainsSubstring("threads, mpi"));
  const ProgramRun plan = run_trireme(kStudy + " --plan hybird");
  CHECK(plan.exit_code == 2);
  CHECK_THAT(plan.error, ContainsSubstring("hybrid"));
}

TEST_CASE("verify: an illegal plan is a row with its reasons", "[cli]") {
  const TemporaryFolder folder;
  const auto study = [&](const std::string& plans) {
    const auto path = folder.path() / "study.yaml";
    write_file(path,
               "version: 1\nmodel: ulysses-study-8-layer\ncluster: h100-8x-nvlink\n"
               "workload: {sequence: 8K}\nplans:\n" +
                   plans);
    return "verify '" + path.string() + "'";
  };
  const std::string bad = "  - {name: bad, ulysses: 5}\n";
  const ProgramRun alone = run_trireme(study(bad));
  CHECK(alone.exit_code == 4);  // nothing could be executed
  CHECK_THAT(alone.out, ContainsSubstring("illegal"));
  CHECK_THAT(alone.error, ContainsSubstring("plan 'bad': "));
  const ProgramRun both = run_trireme(study(bad + "  - {name: good, ulysses: 8}\n") + " --json");
  CHECK(both.exit_code == 0);
  const Json rows = Json::parse(both.out)["rows"];
  CHECK(rows[0]["verdict"] == "illegal");
  CHECK(rows[0]["errors"]["output"].is_null());
  CHECK(rows[1]["verdict"] == "equal");
}

}  // namespace
}  // namespace trireme::test
