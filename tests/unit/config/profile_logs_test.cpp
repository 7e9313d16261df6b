// The collective coefficients of the public profiles against the measurements they were fitted on,
// where those are at hand beside the repository.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/profile.h"
#include "sim/config/yaml_reader.h"
#include "sim/cost/collectives.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

namespace fs = std::filesystem;

const fs::path kMeasurements =
    fs::path(TRIREME_SOURCE_DIR) / ".." / "shared" / "reference" / "nccl";

using Row = std::map<std::string, std::string>;

/// The rows of a CSV file by column; fields may be quoted.
std::vector<Row> read_csv(const fs::path& file) {
  const auto fields = [](const std::string& line) {
    std::vector<std::string> found(1);
    bool quoted = false;
    for (const char character : line) {
      if (character == '"') {
        quoted = !quoted;
      } else if (character == ',' && !quoted) {
        found.emplace_back();
      } else {
        found.back() += character;
      }
    }
    return found;
  };
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = fields(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> values = fields(line);
    Row row;
    for (std::size_t i = 0; i < std::min(names.size(), values.size()); ++i) {
      row[names[i]] = values[i];
    }
    rows.push_back(row);
  }
  return rows;
}

ProfileSpec public_profile(const std::string& gpu) {
  const std::string name = gpu + "-public";
  const fs::path file = fs::path(TRIREME_SOURCE_DIR) / "topologies" / "profiles" / (name + ".yaml");
  return read_profile(read_yaml_file(file), name);
}

/// |predicted / measured - 1| of one row of an nccl-tests table, whose size is the whole buffer; of
/// an all-to-all what each rank holds.
double error_of(const Row& row, const cost::MachineCosts& machine, BytesPerSecond nic) {
  const Bytes payload(std::atoll(row.at("size_bytes").c_str()));
  const cost::Group group{
      std::atoll(row.at("n_gpus").c_str()),
      std::min(std::atoll(row.at("n_gpus").c_str()), std::atoll(row.at("gpus_per_node").c_str()))};
  const std::string& collective = row.at("collective");
  std::optional<Seconds> predicted;
  if (collective == "alltoall") {
    predicted = cost::all_to_all_time(payload, group, nic, machine);
  } else if (collective == "all_gather") {
    predicted = cost::all_gather_time(payload, group, nic, machine);
  } else if (collective == "reduce_scatter") {
    predicted = cost::reduce_scatter_time(payload, group, nic, machine);
  } else if (collective == "all_reduce") {
    predicted = cost::all_reduce_time(payload, ElementType::fp32, group, nic, machine);
  } else {
    predicted = cost::ring_hop_time(payload, group, nic, machine);
  }
  REQUIRE(predicted.has_value());
  return std::abs(predicted->value() / (std::stod(row.at("oop_time_us")) * 1e-6) - 1);
}

double median(std::vector<double> values) {
  REQUIRE_FALSE(values.empty());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST_CASE("collectives inside a node follow the tables they were fitted on", "[config]") {
  const fs::path file = kMeasurements / "nccl_aiconfigurator.csv";
  if (!fs::exists(file)) {
    test::skip("the measurements of collectives are not at hand");
    return;
  }
  const std::map<std::string, std::string> gpus = {{"NVIDIA A100-SXM4-80GB", "a100-sxm"},
                                                   {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                                                   {"NVIDIA H200", "h200-sxm"},
                                                   {"NVIDIA B200", "b200-sxm"}};
  std::map<std::string, std::vector<double>> large;  // by GPU and collective, from 1 MB on
  std::vector<double> small;                         // 4 KB to 1 MB, all of them
  std::vector<double> all_large;
  std::map<std::string, ProfileSpec> profiles;
  for (const auto& [measured, gpu] : gpus) {
    profiles.emplace(gpu, public_profile(gpu));
  }
  for (const Row& row : read_csv(file)) {
    const auto gpu = gpus.find(row.at("gpu"));
    if (gpu == gpus.end() || row.at("dtype") != "half") {
      continue;
    }
    const double size = std::stod(row.at("size_bytes"));
    if (size < 4096) {
      continue;
    }
    const double error = error_of(row, profiles.at(gpu->second).costs, BytesPerSecond(0));
    if (size < 1e6) {
      small.push_back(error);
    } else {
      all_large.push_back(error);
      large[gpu->second + " " + row.at("collective")].push_back(error);
    }
  }
  // Held out, all GPUs together: 4.9 % below 1 MB and 4.2 % above (fit_forms, section 1, "C1
  // joint").
  CHECK(median(small) < 0.055);
  CHECK(median(all_large) < 0.05);
  CHECK(large.size() == 16);
  for (const auto& [curve, errors] : large) {
    CAPTURE(curve);
    CHECK(median(errors) < 0.08);
  }
}

TEST_CASE("large collectives follow the logs of H100 nodes", "[config]") {
  const std::vector<std::pair<std::string, double>> logs = {
      // sizes beyond the fit: 0.9 to 2 %; over nodes, in sample and held out: 0.6 to 3 %
      {"h100_n1_g8_h002_multi5.csv", 0.03},
      {"h100_n10_g8_multi5.csv", 0.05}};
  const ProfileSpec profile = public_profile("h100-sxm");
  for (const auto& [name, bound] : logs) {
    const fs::path file = kMeasurements / "csv" / name;
    if (!fs::exists(file)) {
      test::skip("the logs of collectives are not at hand");
      return;
    }
    std::map<std::string, std::vector<double>> errors;
    for (const Row& row : read_csv(file)) {
      if (std::stod(row.at("size_bytes")) >= 256e6) {
        errors[row.at("collective")].push_back(error_of(row, profile.costs, BytesPerSecond(50e9)));
      }
    }
    CHECK(errors.size() == 5);
    for (const auto& [collective, values] : errors) {
      CAPTURE(name, collective);
      // All-reduces of 256 MB to 2 GB over nodes are up to 18 % faster than a ring: the switches of
      // a node take part. fit_forms states 3 % and 19 % (median, 90th percentile).
      CHECK(median(values) < (collective == "all_reduce" ? 0.12 : bound));
    }
  }
}

}  // namespace
}  // namespace trireme::config
