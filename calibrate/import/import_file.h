// One file of another tool, of whatever kind, and what was read from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/imported.h"
#include "calibrate/import/topology.h"

namespace trireme::calibrate {

struct ImportedFile {
  std::string file;
  std::string kind;  // "nccl-tests log", "table of timings", "NCCL topology", ...
  ImportedLog log;
  std::optional<Topology> topology;
  std::string topology_file;  // that was written; empty before

  /// Whether anything was read.
  [[nodiscard]] bool has_anything() const { return topology || !log.measurements.empty(); }
};

/// Reads a text by what it looks like: XML, JSON, a table with a known header, or a log, in which a
/// matrix of nvidia-smi topo -m may stand beside or instead of tables of nccl-tests. Throws Error
/// (input), located, for a file that is damaged as a whole.
[[nodiscard]] ImportedFile import_text(std::string_view text,
                                       const std::string& file,
                                       const Statements& statements);

/// Gives equal keys of environments of several files numbers, so that each key names one.
void make_keys_unique(std::vector<ImportedFile>& files);

/// A paragraph for each file, for people.
[[nodiscard]] std::string summary_text(const std::vector<ImportedFile>& files);

/// One JSON document with schema_version: `files` that were read, and `errors` of those that were
/// not. `folder` is where the result was written; empty: nowhere.
[[nodiscard]] std::string summary_json(const std::vector<ImportedFile>& files,
                                       const std::vector<Error>& errors,
                                       const std::string& folder);

}  // namespace trireme::calibrate
