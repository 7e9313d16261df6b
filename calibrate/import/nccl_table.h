// A table of nccl-tests with what the log says about the run, and what follows from both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/import/imported.h"
#include "calibrate/import/nccl_row.h"

namespace trireme::calibrate {

/// "#  Rank  0 Group  0 Pid 1001 on node01 device  0 [0x07] NVIDIA A100-SXM4-40GB"
struct RankLine {
  std::int64_t rank = 0;
  std::int64_t group = 0;
  std::string host;  // empty when the line names none
  std::int64_t device = -1;
  std::string device_name;
};

/// The rank of a line of the list of devices; nullopt for any other line.
[[nodiscard]] std::optional<RankLine> parse_rank_line(const std::vector<LogToken>& tokens);

struct NcclTable {
  int first_line = 0;      // of the header above the rows
  std::string collective;  // "all_reduce", as nccl-tests names it; empty when nothing names it
  std::vector<RankLine> ranks;
  bool ranks_left_out = false;           // "..." in the list, or a line of it that is damaged
  bool ranks_end_unknown = false;        // and nothing behind it
  std::int64_t devices_per_process = 0;  // threads x GPUs of each; 0: not stated
  std::string nccl;
  std::string cuda;
  std::string date;
  bool rccl = false;
  std::optional<TableColumns> columns;
  std::vector<NcclRow> rows;
};

/// Adds the measurements of a table to `log`, or why there are none. `file` names the file in
/// messages; environments get keys that begin with `key`. The rows of a table are refused together
/// when its collective or its ranks are neither stated nor follow from the columns, and one by one
/// when their own numbers contradict each other or the ranks.
void judge_table(const NcclTable& table,
                 const std::string& file,
                 const std::string& key,
                 const Statements& statements,
                 ImportedLog& log);

}  // namespace trireme::calibrate
