#include "calibrate/import/import_file.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate/import/nccl_tests.h"
#include "calibrate/import/text_place.h"
#include "calibrate/import/timing_table.h"
#include "sim/core/error.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

// Notes and refusals that one file shows; the document of --json has all that are kept.
constexpr std::size_t kShownRefusals = 5;

/// A file of one kind is at most so large; the largest kind is checked where the file is read.
void check_size(std::string_view text, std::int64_t largest, const std::string& file) {
  if (static_cast<std::int64_t>(text.size()) > largest) {
    throw Error(ErrorKind::input,
                SourceLocation{.file = file},
                fmt::format("the file is larger than {} bytes", largest),
                "is this the file that you meant?");
  }
}

void import_log(std::string_view text,
                const std::string& file,
                const Statements& statements,
                ImportedFile& imported) {
  imported.kind = "nccl-tests log";
  imported.log = read_nccl_tests_log(text, file, statements);
  if (!has_topology_matrix(text)) {
    return;
  }
  const bool only_matrix = imported.log.measurements.empty() && imported.log.refused_rows == 0;
  if (only_matrix) {
    imported.log = {};
    imported.kind = "nvidia-smi topo -m";
  }
  try {
    imported.topology = read_topology_matrix(text, file);
  } catch (const Error& error) {
    if (only_matrix) {
      throw;
    }
    imported.log.refuse({error.where(), error.message(), error.hint()}, 0);
  }
}

std::string counted(std::int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string paragraph(const ImportedFile& file) {
  std::string text =
      fmt::format("{}: {}, {}",
                  printable(file.file),
                  file.kind,
                  counted(static_cast<std::int64_t>(file.log.measurements.size()), "measurement"));
  if (file.log.refused_rows > 0) {
    text += fmt::format(", {} refused", counted(file.log.refused_rows, "row"));
  }
  if (file.log.empty_rows > 0) {
    text += fmt::format(", {} of no bytes left out", counted(file.log.empty_rows, "row"));
  }
  text += '\n';
  for (std::size_t i = 0; i < std::min(kShownRefusals, file.log.refusals.size()); ++i) {
    const Refusal& refusal = file.log.refusals[i];
    text += fmt::format("  {}: {}{}\n",
                        to_text(refusal.where),
                        refusal.reason,
                        refusal.hint.empty() ? "" : fmt::format(" (hint: {})", refusal.hint));
  }
  const auto shown = static_cast<std::int64_t>(kShownRefusals);
  if (file.log.refusal_count > shown) {
    text += fmt::format("  and {} more\n", file.log.refusal_count - shown);
  }
  for (const std::string& note : file.log.notes) {
    text += fmt::format("  {}\n", note);
  }
  if (file.topology) {
    const std::string topology = summary_text(*file.topology);
    std::size_t begin = 0;
    while (begin < topology.size()) {
      const std::size_t end = topology.find('\n', begin);
      text += "  " + topology.substr(begin, end + 1 - begin);
      begin = end + 1;
    }
  }
  return text;
}

using Json = nlohmann::ordered_json;

Json json_of(const SourceLocation& where, const std::string& reason, const std::string& hint) {
  Json json;
  json["line"] = where.line == 0 ? Json() : Json(where.line);
  json["column"] = where.line == 0 ? Json() : Json(where.column);
  json["reason"] = printable(reason);
  json["hint"] = printable(hint);
  return json;
}

Json json_of(const Topology& topology) {
  Json json;
  json["kind"] = topology.kind;
  json["nvlink_wiring"] = name(topology.wiring);
  Json gpus = Json::array();
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) {
    const TopologyGpu& gpu = topology.gpus[i];
    Json entry;
    entry["name"] = gpu.name;
    entry["bus_id"] = gpu.bus_id;
    entry["numa_node"] = gpu.numa ? Json(*gpu.numa) : Json();
    entry["nvlinks"] = gpu.links ? Json(*gpu.links) : Json();
    entry["chip_to_chip"] = gpu.chip_to_chip;
    const auto path = topology.near_path(i);
    entry["nearest_path"] = path ? Json(name(*path)) : Json();
    entry["nearest_adapters"] = Json::array();
    for (const std::size_t nic : gpu.near_nics) {
      entry["nearest_adapters"].push_back(topology.nics[nic].name);
    }
    gpus.push_back(std::move(entry));
  }
  json["gpus"] = std::move(gpus);
  Json nics = Json::array();
  for (std::size_t i = 0; i < topology.nics.size(); ++i) {
    const TopologyNic& nic = topology.nics[i];
    Json entry;
    entry["name"] = nic.name;
    entry["bus_id"] = nic.bus_id;
    entry["bytes_per_second"] = nic.rate ? Json(nic.rate->value()) : Json();
    entry["serves"] = Json::array();
    for (const std::size_t gpu : topology.gpus_near(i)) {
      entry["serves"].push_back(topology.gpus[gpu].name);
    }
    nics.push_back(std::move(entry));
  }
  json["adapters"] = std::move(nics);
  json["notes"] = topology.notes;
  return json;
}

Json json_of(const ImportedFile& file) {
  Json json;
  json["file"] = printable(file.file);
  json["kind"] = file.kind;
  json["measurements"] = file.log.measurements.size();
  json["refused_rows"] = file.log.refused_rows;
  json["empty_rows"] = file.log.empty_rows;
  Json refusals = Json::array();
  for (const Refusal& refusal : file.log.refusals) {
    refusals.push_back(json_of(refusal.where, refusal.reason, refusal.hint));
  }
  json["refusals"] = std::move(refusals);
  json["refusal_count"] = file.log.refusal_count;
  json["notes"] = file.log.notes;
  json["topology"] = file.topology ? json_of(*file.topology) : Json();
  json["topology_file"] = file.topology_file.empty() ? Json() : Json(file.topology_file);
  return json;
}

}  // namespace

ImportedFile import_text(std::string_view text,
                         const std::string& file,
                         const Statements& statements) {
  text = without_byte_order_mark(text);
  ImportedFile imported;
  imported.file = file;
  if (looks_like_xml(text)) {
    check_size(text, kLargestTopology, file);
    imported.kind = "NCCL topology";
    imported.topology = read_topology_xml(text, file);
  } else if (looks_like_json(text)) {
    check_size(text, kLargestJson, file);
    imported.kind = "nccl-tests JSON";
    imported.log = read_nccl_tests_json(text, file, statements);
  } else if (looks_like_timing_table(text)) {
    imported.kind = "table of timings";
    imported.log = read_timing_table(text, file, statements);
  } else {
    import_log(text, file, statements, imported);
  }
  return imported;
}

void make_keys_unique(std::vector<ImportedFile>& files) {
  std::set<std::string> taken;
  for (ImportedFile& file : files) {
    std::map<std::string, std::string> renamed;
    for (Environment& environment : file.log.environments) {
      const std::string before = environment.key;
      for (int number = 2; !taken.insert(environment.key).second; ++number) {
        environment.key = fmt::format("{}-{}", before, number);
      }
      renamed[before] = environment.key;
    }
    for (Measurement& measurement : file.log.measurements) {
      measurement.environment = renamed.at(measurement.environment);
    }
  }
}

std::string summary_text(const std::vector<ImportedFile>& files) {
  std::string text;
  for (const ImportedFile& file : files) {
    text += paragraph(file);
  }
  return text;
}

std::string summary_json(const std::vector<ImportedFile>& files,
                         const std::vector<Error>& errors,
                         const std::string& folder) {
  Json json;
  json["schema_version"] = 1;
  json["command"] = "import";
  json["folder"] = folder.empty() ? Json() : Json(printable(folder));
  std::size_t measurements = 0;
  Json list = Json::array();
  for (const ImportedFile& file : files) {
    measurements += file.log.measurements.size();
    list.push_back(json_of(file));
  }
  json["measurements"] = measurements;
  json["files"] = std::move(list);
  json["errors"] = Json::array();
  for (const Error& error : errors) {
    json["errors"].push_back(json_of(error.where(), error.message(), error.hint()));
    json["errors"].back()["file"] = printable(error.where().file);
  }
  return json.dump(2) + '\n';
}

}  // namespace trireme::calibrate
