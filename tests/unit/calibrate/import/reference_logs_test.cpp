// Logs of nccl-tests as they come in real life, where they are at hand beside the repository: an
// expected verdict for each, and rows that equal the tables which others took from them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/import/nccl_tests.h"
#include "calibrate/import/printed_number.h"
#include "sim/core/files.h"
#include "sim/core/vocabulary.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

namespace fs = std::filesystem;

const fs::path kReference = fs::path(TRIREME_SOURCE_DIR) / ".." / "shared" / "reference" / "nccl";

/// What comes of a log with what a person has to state beside it.
struct Verdict {
  std::string log;
  std::string collective;
  std::int64_t ranks = 0;
  std::int64_t ranks_per_node = 0;
  std::size_t measurements = 0;
  std::int64_t refused_rows = 0;
  std::int64_t empty_rows = 0;
  std::string reason;  // of the first refusal; empty: none
};

const std::vector<Verdict> kVerdicts = {
    {"a100_x8_sendrecv_liplus",
     "",
     0,
     0,
     0,
     4,
     0,
     "the log does not say how many ranks there were"},
    {"a100_x8_sendrecv_liplus", "", 8, 8, 4, 0, 0, ""},
    {"a100pcie_n1_g2_alltoall_big", "", 0, 0, 23, 0, 0, ""},
    {"a100pcie_n2_g1_alltoall_big", "", 0, 0, 15, 0, 0, ""},
    {"a100pcie_n2_g1_alltoall_big_gdroff", "", 0, 0, 23, 0, 0, ""},
    {"a100pcie_n2_g1_alltoall_small1024", "", 0, 0, 1023, 0, 1, ""},
    {"a100pcie_x8_all_gather_oop_only", "", 0, 0, 22, 0, 0, ""},
    {"a100pcie_x8_reduce_scatter_oop_only", "", 0, 0, 22, 0, 0, ""},
    {"alps_gh200_n128_g512_ofi1130", "", 0, 0, 60, 0, 0, ""},
    {"alps_gh200_n1_g4_ofi1130", "", 0, 0, 60, 0, 0, ""},
    {"alps_gh200_n32_g128_ofi1130", "", 0, 0, 60, 0, 0, ""},
    {"alps_gh200_n512_g2048_ofi1130", "", 0, 0, 58, 1, 0, "the out-of-place result was wrong"},
    {"alps_gh200_n512_g2048_ofi192", "", 0, 0, 58, 1, 0, "the out-of-place result was wrong"},
    {"alps_gh200_n8_g32_ofi1130", "", 0, 0, 58, 1, 0, "the out-of-place result was wrong"},
    {"aws_p4d_a100_n2_efa_eks", "", 0, 0, 60, 0, 0, ""},
    {"aws_p4de_a100_n2_allreduce",
     "",
     0,
     0,
     0,
     29,
     0,
     "the log does not say how many ranks a node has"},
    {"aws_p4de_a100_n2_allreduce", "", 0, 8, 58, 0, 0, ""},
    {"aws_p5_h100_n2_allreduce",
     "",
     0,
     0,
     0,
     32,
     0,
     "the log does not say how many ranks a node has"},
    {"aws_p5_h100_n2_allreduce", "", 0, 8, 64, 0, 0, ""},
    {"aws_p5_h100_n2_v2203", "", 0, 0, 64, 0, 0, ""},
    {"aws_topology_readme3", "", 0, 0, 0, 3, 0, "the log does not say how many ranks a node has"},
    {"aws_topology_readme3", "", 0, 8, 6, 0, 0, ""},
    {"coreweave_gb200_1440g_allreduce", "", 0, 0, 12, 0, 0, ""},
    {"coreweave_gb200_144g_allreduce",
     "",
     0,
     0,
     0,
     6,
     0,
     "the columns are those of no collective of 144 ranks, but of all_reduce of 128"},
    {"coreweave_gb200_144g_allreduce",
     "all_reduce",
     144,
     0,
     0,
     6,
     0,
     "all_reduce: algorithm and bus bandwidth are not those of 144 ranks but of 128"},
    {"coreweave_gb200_72g_allreduce", "", 0, 0, 10, 0, 0, ""},
    {"cscs_gh200_n2_slow", "", 0, 0, 50, 0, 0, ""},
    {"cscs_gh200_sarus", "", 0, 0, 16, 0, 0, ""},
    {"dranet_b200_n2_g16_allgather", "", 0, 0, 48, 0, 0, ""},
    {"dranet_b200_n2_g1_allgather", "", 0, 0, 52, 0, 2, ""},
    {"dstack_a3high_n2_allgather",
     "",
     0,
     0,
     0,
     11,
     0,
     "the log does not say how many ranks a node has"},
    {"dstack_a3high_n2_allgather", "", 0, 8, 22, 0, 0, ""},
    {"dstack_b200_a4_n2_allreduce",
     "",
     0,
     0,
     0,
     11,
     0,
     "the log does not say how many ranks a node has"},
    {"dstack_b200_a4_n2_allreduce", "", 0, 8, 22, 0, 0, ""},
    {"dstack_lambda_b200_n2_allreduce",
     "",
     0,
     0,
     0,
     29,
     0,
     "the log does not say how many ranks a node has"},
    {"dstack_lambda_b200_n2_allreduce", "", 0, 8, 58, 0, 0, ""},
    {"dstack_nebius_h100_n2_allreduce",
     "",
     0,
     0,
     0,
     31,
     0,
     "the log does not say how many ranks a node has"},
    {"dstack_nebius_h100_n2_allreduce", "", 0, 8, 62, 0, 0, ""},
    {"gcp_a3high_h100_allgather",
     "",
     0,
     0,
     0,
     10,
     0,
     "the log does not name its collective, which can be all_gather, alltoall"},
    {"gcp_a3high_h100_allgather", "all_gather", 0, 8, 20, 0, 0, ""},
    {"gcp_a3mega_ztan_n2_allreduce", "", 0, 0, 62, 0, 0, ""},
    {"gcp_a3ultra_placeholder", "", 0, 0, 0, 6, 0, "the row is broken by other output: 'XXXXX'"},
    {"h100_c00_n2_g1", "", 0, 0, 20, 0, 0, ""},
    {"h100_c00_n2_g4_fail", "", 0, 0, 10, 0, 0, ""},
    {"h100_n10_g1_multi5", "", 0, 0, 80, 0, 0, ""},
    {"h100_n10_g8_multi5", "", 0, 0, 80, 0, 0, ""},
    {"h100_n1_g4_h002_multi5", "", 0, 0, 80, 0, 0, ""},
    {"h100_n1_g4_h007_multi5", "", 0, 0, 80, 0, 0, ""},
    {"h100_n1_g8_h002_multi5", "", 0, 0, 80, 0, 0, ""},
    {"h100_n2_g1_pair_a2a_sendrecv", "", 0, 0, 6, 0, 0, ""},
    {"h100_n2_g2_pair_a2a_sendrecv", "", 0, 0, 6, 0, 0, ""},
    {"h100_n2_g8_pair_a2a_sendrecv", "", 0, 0, 6, 0, 0, ""},
    {"h100_smoke_n2_g1", "", 0, 0, 15, 0, 0, ""},
    {"oci_b300_n1_all_reduce", "", 0, 0, 2, 0, 0, ""},
    {"oci_b300_n1_alltoall", "", 0, 0, 1, 0, 0, ""},
    {"oci_b300_n2_all_reduce", "", 0, 0, 0, 2, 0, "the log does not say how many ranks a node has"},
    {"oci_b300_n2_all_reduce", "", 0, 8, 4, 0, 0, ""},
    {"oci_b300_n2_alltoall", "", 0, 0, 0, 1, 0, "the log does not say how many ranks a node has"},
    {"oci_b300_n2_alltoall", "", 0, 8, 1, 0, 0, ""},
    {"oci_gb200_g128_alltoall", "", 0, 0, 0, 2, 0, "the columns are those of no collective"},
    {"oci_gb200_g128_alltoall",
     "all_to_all",
     128,
     4,
     0,
     2,
     0,
     "107374124 elements of 4 bytes from each of 128 ranks are not 4294967296 bytes"},
    {"oci_gb200_g4_alltoall", "", 0, 0, 0, 2, 0, "the columns are those of no collective"},
    {"oci_gb200_g4_alltoall",
     "all_to_all",
     4,
     4,
     0,
     2,
     0,
     "107374124 elements of 4 bytes from each of 4 ranks are not 4294967296 bytes"},
    {"oci_gb200_g64_all_reduce", "", 0, 0, 0, 2, 0, "the columns are those of no collective"},
    {"oci_gb200_g64_all_reduce",
     "all_reduce",
     64,
     4,
     2,
     1,
     0,
     "107374124 elements of 4 bytes are not 4294967296 bytes"},
    {"oci_gb200_g64_alltoall", "", 0, 0, 0, 2, 0, "the columns are those of no collective"},
    {"oci_gb200_g64_alltoall",
     "all_to_all",
     64,
     4,
     0,
     2,
     0,
     "107374124 elements of 4 bytes from each of 64 ranks are not 4294967296 bytes"},
    {"oci_gb300_L170_all_reduce", "", 0, 0, 4, 0, 0, ""},
    {"oci_gb300_L195_all_reduce", "", 0, 0, 4, 0, 0, ""},
    {"oci_gb300_L247_all_reduce", "", 0, 0, 4, 0, 0, ""},
    {"oci_gb300_L357_alltoall", "", 0, 0, 2, 0, 0, ""},
    {"oci_mi355x_n1_alltoall", "", 0, 0, 2, 0, 0, ""},
    {"oke_a100_4g_allreduce", "", 0, 0, 8, 0, 0, ""},
    {"polaris_a100_n128_nccl218_env1_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n256_nccl221_env4_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n256_nccl221_env5_all_gather", "", 0, 0, 34, 0, 12, ""},
    {"polaris_a100_n256_nccl221_env5_alltoall", "", 0, 0, 19, 0, 10, ""},
    {"polaris_a100_n2_nccl218_env5_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n2_nccl218_env5_alltoall", "", 0, 0, 26, 0, 3, ""},
    {"polaris_a100_n2_nccl221_env5_all_gather", "", 0, 0, 48, 0, 5, ""},
    {"polaris_a100_n540_nccl218_env5_all_gather", "", 0, 0, 30, 0, 14, ""},
    {"polaris_a100_n540_nccl218_env5_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n540_nccl218_env5_alltoall", "", 0, 0, 17, 0, 12, ""},
    {"polaris_a100_n540_nccl221_env5_all_gather", "", 0, 0, 30, 0, 14, ""},
    {"polaris_a100_n540_nccl221_env5_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n540_nccl221_env5_alltoall", "", 0, 0, 17, 0, 12, ""},
    {"polaris_a100_n8_nccl218_env3_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n8_nccl218_env5_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n8_nccl221_env3_all_gather", "", 0, 0, 44, 0, 7, ""},
    {"polaris_a100_n8_nccl221_env3_alltoall", "", 0, 0, 24, 0, 5, ""},
    {"polaris_a100_n8_nccl221_env5_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"polaris_a100_n8_nccl221_env5_alltoall", "", 0, 0, 24, 0, 5, ""},
    {"rtx3090_4n_interleaved_midrow",
     "",
     0,
     0,
     0,
     4,
     0,
     "the row is broken by other output: 'node05:1001:1017'"},
    {"sophia_a100_n2_fail_all_reduce",
     "",
     0,
     0,
     0,
     0,
     0,
     "no row of an nccl-tests table was found"},
    {"sophia_a100_n2_ok_all_gather", "", 0, 0, 46, 0, 6, ""},
    {"sophia_a100_n2_ok_all_reduce", "", 0, 0, 58, 0, 0, ""},
    {"sophia_a100_n2_ok_alltoall", "", 0, 0, 25, 0, 4, ""},
    {"superbench_a100x8_all_gather", "", 0, 0, 58, 0, 5, ""},
    {"superbench_a100x8_alltoall", "", 0, 0, 29, 0, 5, ""},
    {"superbench_a100x8_broadcast",
     "",
     0,
     0,
     0,
     32,
     2,
     "broadcast is not a collective that a plan uses"},
    {"superbench_a100x8_reduce", "", 0, 0, 0, 32, 2, "reduce is not a collective that a plan uses"},
    {"superbench_a100x8_reduce_scatter", "", 0, 0, 58, 0, 5, ""},
    {"v100_2n_allgather_2gpu", "", 0, 0, 52, 0, 2, ""},
    {"v100_2n_allgather_truncated", "", 0, 0, 48, 0, 2, ""},
};

Statements statements_of(const Verdict& verdict) {
  Statements statements;
  statements.collective = verdict.collective;
  statements.ranks = verdict.ranks;
  statements.ranks_per_node = verdict.ranks_per_node;
  return statements;
}

ImportedLog read(const Verdict& verdict) {
  const fs::path path = kReference / "logs" / (verdict.log + ".txt");
  return read_nccl_tests_log(
      read_text_file(path, {}, kLargestLog), path.string(), statements_of(verdict));
}

std::string collective_of(const std::string& program) {
  static const std::map<std::string, std::string> kNames = {{"alltoall", "all_to_all"},
                                                            {"sendrecv", "send_recv"}};
  const auto found = kNames.find(program);
  return found == kNames.end() ? program : found->second;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char character : line) {
    if (character == '"') {
      quoted = !quoted;
    } else if (character == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += character;
    }
  }
  return fields;
}

struct Table {
  std::multiset<std::tuple<std::string, std::int64_t, bool, double>> timings;  // bool: in place
  std::string ranks;
  std::string ranks_per_node;
};

Table read_table(const std::string& log) {
  std::ifstream in(kReference / "csv" / (log + ".csv"));
  std::string line;
  std::getline(in, line);
  std::map<std::string, std::size_t> place;
  for (const std::string& name : fields_of(line)) {
    place.emplace(name, place.size());
  }
  Table table;
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = fields_of(line);
    const auto field = [&](const char* name) { return fields.at(place.at(name)); };
    table.ranks = field("n_gpus");
    table.ranks_per_node = field("gpus_per_node");
    for (const bool in_place : {false, true}) {
      const std::string time = field(in_place ? "ip_time_us" : "oop_time_us");
      if (!time.empty()) {
        table.timings.emplace(collective_of(field("collective")),
                              std::stoll(field("size_bytes")),
                              in_place,
                              with_moved_point(std::stod(time), -6));
      }
    }
  }
  return table;
}

TEST_CASE("every log at hand has the verdict that is expected of it", "[import]") {
  if (!fs::exists(kReference)) {
    test::skip("the logs are not at hand");
    return;
  }
  for (const Verdict& verdict : kVerdicts) {
    CAPTURE(verdict.log, verdict.ranks, verdict.ranks_per_node);
    const ImportedLog log = read(verdict);
    CHECK(log.measurements.size() == verdict.measurements);
    CHECK(log.refused_rows == verdict.refused_rows);
    CHECK(log.empty_rows == verdict.empty_rows);
    CHECK((log.refusals.empty() ? std::string() : log.refusals.front().reason) == verdict.reason);
  }
}

TEST_CASE("no log at hand is without a verdict", "[import]") {
  if (!fs::exists(kReference)) {
    test::skip("the logs are not at hand");
    return;
  }
  std::set<std::string> named;
  for (const Verdict& verdict : kVerdicts) {
    named.insert(verdict.log);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(kReference / "logs")) {
    CAPTURE(entry.path().filename().string());
    CHECK(named.contains(entry.path().stem().string()));
  }
}

TEST_CASE("rows equal the tables that others took from the same logs", "[import]") {
  if (!fs::exists(kReference)) {
    test::skip("the logs are not at hand");
    return;
  }
  std::size_t compared = 0;
  for (const Verdict& verdict : kVerdicts) {
    if (verdict.measurements == 0 || !fs::exists(kReference / "csv" / (verdict.log + ".csv"))) {
      continue;
    }
    CAPTURE(verdict.log);
    Table table = read_table(verdict.log);
    for (const Measurement& measurement : read(verdict).measurements) {
      const auto& point = std::get<CollectivePoint>(measurement.point);
      const auto found = table.timings.find({std::string(name(point.collective)),
                                             point.payload.value(),
                                             point.method.ends_with(" in place"),
                                             measurement.timing.median.value()});
      CAPTURE(point.payload.value(), point.method, measurement.timing.median.value());
      CHECK(found != table.timings.end());
      CHECK(std::to_string(point.ranks) == table.ranks);
      CHECK(std::to_string(point.ranks_per_node) == table.ranks_per_node);
      if (found != table.timings.end()) {
        table.timings.erase(found);
        ++compared;
      }
    }
    // What is left was refused, is of no bytes, or in place where NCCL does not work in place.
    for (const auto& [collective, size, in_place, time] : table.timings) {
      CAPTURE(collective, size, in_place, time);
      CHECK((size == 0 || verdict.refused_rows > 0 ||
             (in_place && (collective == "all_to_all" || collective == "send_recv"))));
    }
  }
  CHECK(compared > 3800);
}

}  // namespace
}  // namespace trireme::calibrate
