// A row of an nccl-tests table, from text or JSON, before anything is concluded from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "calibrate/import/log_lines.h"
#include "calibrate/import/printed_number.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

/// What the program found when it compared the result with the expected one.
enum class DataCheck : std::uint8_t { not_done, right, wrong };

/// The out-of-place or the in-place columns.
struct NcclTiming {
  PrintedNumber time_us;
  PrintedNumber algorithm_bandwidth;  // GB/s, 10^9 bytes: size / time
  PrintedNumber bus_bandwidth;        // GB/s
  DataCheck check = DataCheck::not_done;
};

struct NcclRow {
  int line = 0;                  // 0: JSON
  int column = 0;                // of the size
  std::string_view source_line;  // of the file
  std::string name;              // "results[3]"; empty for a line
  std::int64_t size = 0;         // bytes; what it counts depends on the collective
  std::int64_t count = 0;        // elements
  ElementType type = ElementType::fp32;
  std::string reduction;             // "sum"; "none" or empty where nothing is reduced
  std::optional<std::int64_t> root;  // -1: none; nullopt: no such column
  std::optional<NcclTiming> out_of_place;
  std::optional<NcclTiming> in_place;
};

/// The columns behind size, count and type, as a table's header names them.
struct TableColumns {
  bool reduction = false;
  bool root = false;
  bool check = false;           // "#wrong", or of older versions "error"
  bool check_is_error = false;  // the largest difference instead of a count of wrong elements
  bool in_place = false;
  bool per_iteration = false;  // minimum, maximum, 99th percentile and variation of each half
  bool timestamp = false;
  bool cpu_time = false;  // time to launch, not to complete
};

/// The columns of a header line; nullopt for any other line.
[[nodiscard]] std::optional<TableColumns> parse_table_header(const std::vector<LogToken>& tokens);

/// A line that begins as a row does and does not go on as one.
struct BrokenRow {
  int column = 0;
  std::string reason;
};

struct NoRow {};

/// A line under a header, or `columns` null without one. `line` gives the row its place.
[[nodiscard]] std::variant<NoRow, BrokenRow, NcclRow> parse_table_row(
    const std::vector<LogToken>& tokens, const TableColumns* columns, const LogLine& line);

/// The element type of that name in nccl-tests of any version.
[[nodiscard]] std::optional<ElementType> nccl_type(std::string_view name);

/// Whether a word names a reduction, "none" included.
[[nodiscard]] bool is_nccl_reduction(std::string_view word);

/// Why a row cannot be right, whatever its collective: a wrong result out of place, or a bandwidth
/// that is not size over time. Empty when nothing speaks against it.
//
// EQ nccl-tests-algorithm-bandwidth:  A = S / t
//   A  algorithm_bandwidth                     [bytes/second]
//   S  size: as the table's first column has it  [bytes]
//   t  time_us, of one call                      [seconds]
// Source: nccl-tests doc/PERFORMANCE.md, "Algorithm bandwidth"
// Valid:  every collective of nccl-tests; each number is known to half of its last printed digit.
// Tests:  tests/unit/calibrate/import/nccl_row_test.cpp
[[nodiscard]] std::string fault_of(const NcclRow& row);

/// Size over time [GB/s] within the printed digits of time and algorithm bandwidth.
[[nodiscard]] Interval algorithm_bandwidth(const NcclRow& row, const NcclTiming& timing);

}  // namespace trireme::calibrate
