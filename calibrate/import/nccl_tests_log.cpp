#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calibrate/import/keys.h"
#include "calibrate/import/log_lines.h"
#include "calibrate/import/nccl_collective.h"
#include "calibrate/import/nccl_table.h"
#include "calibrate/import/nccl_tests.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

constexpr std::size_t kMostRows = 100'000;

/// How far a table has come; what stands at an earlier stage begins the next one.
enum class Stage : std::uint8_t { nothing, version, start, options, devices, header, rows, footer };

std::string_view after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

std::optional<std::int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

/// "2.26.6" of "2.26.6+cuda12.8": the leading numbers and points.
std::string leading_version(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789.");
  return std::string(text.substr(0, std::min(end, std::size_t{20})));
}

/// "all_reduce" of ".../bin/all_reduce_perf"; empty for any other word.
std::string_view program_of(std::string_view word) {
  constexpr std::string_view kEnd = "_perf";
  const std::size_t begin = word.find_last_of("/=\"'") + 1;
  std::string_view program = word.substr(begin);
  if (program.ends_with("_mpi")) {
    program.remove_suffix(4);
  }
  if (!program.ends_with(kEnd)) {
    return {};
  }
  program.remove_suffix(kEnd.size());
  return find_nccl_collective(program) != nullptr ? program : std::string_view();
}

class LogReader {
 public:
  LogReader(const std::string& file, const Statements& statements)
      : file_(file), key_(environment_key_of(file)), statements_(statements) {}

  ImportedLog read(std::string_view text) {
    LogLines lines(text);
    while (const std::optional<LogLine> line = lines.next()) {
      too_long_ += line->too_long ? 1 : 0;
      read_line(*line);
    }
    finish_table();
    if (mixed_) {
      refuse_all();
    }
    if (log_.measurements.empty() && log_.refusal_count == 0) {
      log_.refuse({{.file = file_},
                   log_.empty_rows > 0 ? "every row is of no bytes"
                                       : "no row of an nccl-tests table was found",
                   "name a file with the output of a program such as all_reduce_perf"},
                  0);
    }
    if (too_long_ > 0) {
      log_.note(
          fmt::format("{} lines of more than {} characters are not read", too_long_, kLongestLine));
    }
    return std::move(log_);
  }

 private:
  void read_line(const LogLine& line) {
    const std::string_view text = line.text;
    const std::vector<LogToken> tokens = tokens_of(text);
    if (tokens.empty()) {
      return;
    }
    note_failure(line);
    if (read_heading(text, tokens) || read_list_of_ranks(line, tokens) ||
        read_footer(text, tokens)) {
      return;
    }
    note_program(tokens);
    if (const auto columns = parse_table_header(tokens)) {
      if (stage_ == Stage::header || (stage_ == Stage::rows && !table_.ranks.empty())) {
        note_mixed(line, tokens.front().column);
      }
      reach(Stage::header);
      interrupted_ = false;
      table_.columns = columns;
      table_.first_line = line.number;
      return;
    }
    read_row(line, tokens);
  }

  /// The first word of a run that failed.
  void note_failure(const LogLine& line) {
    const auto says = [&](std::string_view words) {
      return line.text.find(words) != std::string::npos;
    };
    const bool failed = says("Test NCCL failure") || says("Test CUDA failure") ||
                        says("Test failure") || says("exited with non-zero status");
    if (failed && !failed_) {
      failed_ = true;
      log_.note(fmt::format("line {}: a run failed: {}", line.number, in_quotes(line.raw, 120)));
    }
  }

  /// What stands above a table.
  bool read_heading(std::string_view text, const std::vector<LogToken>& tokens) {
    if (text.find("nccl-tests version") != std::string_view::npos) {
      reach(Stage::version);
      if (const auto packed = leading_number(after(text, "nccl-library="))) {
        set_nccl(nccl_version_text(*packed));
      }
      return true;
    }
    if (const std::string_view name = after(text, "Collective test starting: "); !name.empty()) {
      reach(Stage::start);
      const std::string_view word = tokens.back().text;
      const std::string_view program = program_of(word);
      table_.collective = program.empty() ? printable(word) : std::string(program);
      return true;
    }
    if (text.find("nThread ") != std::string_view::npos &&
        text.find(" nGpus ") != std::string_view::npos) {
      reach(Stage::options);
      const auto threads = leading_number(after(text, "nThread "));
      const auto devices = leading_number(after(text, " nGpus "));
      constexpr std::int64_t kMost = 1 << 16;
      if (threads && devices && *threads > 0 && *devices > 0 && *threads < kMost &&
          *devices < kMost) {
        table_.devices_per_process = *threads * *devices;
      }
      return true;
    }
    if (text.find("rccl-tests") != std::string_view::npos) {
      table_.rccl = true;
      return true;
    }
    if (const std::string_view version = after(text, "NCCL version "); !version.empty()) {
      // Other ranks may print theirs late, so the same version between rows begins no new table.
      const bool another = !table_.nccl.empty() && table_.nccl != leading_version(version);
      if (stage_ == Stage::footer || (stage_ == Stage::rows && another)) {
        finish_table();
      }
      set_nccl(leading_version(version));
      if (std::string cuda = leading_version(after(version, "+cuda")); !cuda.empty()) {
        table_.cuda = std::move(cuda);
      }
      return true;
    }
    return false;
  }

  bool read_list_of_ranks(const LogLine& line, const std::vector<LogToken>& tokens) {
    const std::string_view text = line.text;
    if (text.find("Using devices") != std::string_view::npos) {
      reach(Stage::devices);
      return true;
    }
    if (auto rank = parse_rank_line(tokens)) {
      if ((stage_ == Stage::header || stage_ == Stage::rows) && rank->rank != 0) {
        note_mixed(line, tokens.front().column);
      }
      if (stage_ > Stage::devices) {
        finish_table();
      }
      stage_ = Stage::devices;
      table_.ranks.push_back(std::move(*rank));
      table_.ranks_left_out |= std::exchange(table_.ranks_end_unknown, false);
      return true;
    }
    const bool in_list = stage_ == Stage::devices && !table_.ranks.empty();
    const bool left_out = tokens.size() <= 2 && tokens.back().text == "...";
    const bool damaged = text.find(" Rank ") != std::string_view::npos &&
                         text.find("device") != std::string_view::npos;
    if (in_list && (left_out || damaged)) {
      table_.ranks_end_unknown = true;
      return true;
    }
    return false;
  }

  bool read_footer(std::string_view text, const std::vector<LogToken>& /*tokens*/) {
    const bool out_of_bounds = text.find("Out of bounds values") != std::string_view::npos;
    if (!out_of_bounds && text.find("Avg bus bandwidth") == std::string_view::npos &&
        text.find("Collective test concluded") == std::string_view::npos) {
      return false;
    }
    if (out_of_bounds && text.find("FAILED") != std::string_view::npos) {
      log_.note("nccl-tests found wrong results in a run of this log");
    }
    if (stage_ != Stage::nothing) {
      stage_ = Stage::footer;
    }
    return true;
  }

  /// A command line before a table, as job scripts print it.
  void note_program(const std::vector<LogToken>& tokens) {
    for (const LogToken& token : tokens) {
      const std::string_view program = program_of(token.text);
      if (!program.empty()) {
        several_programs_ |= !program_.empty() && program_ != program;
        program_ = program;
      }
    }
  }

  void read_row(const LogLine& line, const std::vector<LogToken>& tokens) {
    const TableColumns* columns =
        stage_ <= Stage::rows && table_.columns ? &*table_.columns : nullptr;
    auto parsed = parse_table_row(tokens, columns, line);
    if (auto* const row = std::get_if<NcclRow>(&parsed)) {
      reach_rows();
      if (++row_count_ > kMostRows) {
        throw Error(ErrorKind::input,
                    SourceLocation{.file = file_, .line = line.number, .column = row->column},
                    fmt::format("the file has more than {} rows", kMostRows),
                    "split it");
      }
      if (interrupted_ || !follows(*row)) {
        note_mixed(line, row->column);
      }
      table_.rows.push_back(std::move(*row));
    } else if (const auto* const broken = std::get_if<BrokenRow>(&parsed)) {
      ++broken_rows_;
      log_.refuse({{.file = file_,
                    .line = line.number,
                    .column = broken->column,
                    .source_line = std::string(line.raw)},
                   broken->reason,
                   {}},
                  1);
    }
  }

  /// Whether a row can be the next one of the table at hand: the sizes of one type, reduction and
  /// root ascend, and a run of several cycles begins with the first again.
  [[nodiscard]] bool follows(const NcclRow& row) {
    const bool other = table_.rows.empty() || table_.rows.back().type != row.type ||
                       table_.rows.back().reduction != row.reduction ||
                       table_.rows.back().root != row.root;
    if (other) {
      first_size_ = row.size;
    }
    return other || row.size >= table_.rows.back().size || row.size == first_size_;
  }

  /// A line that one program cannot have written where it stands.
  void note_mixed(const LogLine& line, int column) {
    if (!mixed_) {
      mixed_ = {.file = file_,
                .line = line.number,
                .column = column,
                .source_line = std::string(line.raw)};
    }
  }

  /// Which rows, lists and headers of a mixed log belong together is not known, before the place
  /// where it shows as little as behind it.
  void refuse_all() {
    ImportedLog refused;
    refused.notes = std::move(log_.notes);
    refused.refuse({*mixed_,
                    "lines of several programs are mixed: their rows cannot be told apart",
                    "give the output of each program a file of its own"},
                   static_cast<std::int64_t>(row_count_) + broken_rows_);
    log_ = std::move(refused);
  }

  void reach_rows() {
    if (stage_ == Stage::footer) {
      finish_table();
    }
    if (stage_ < Stage::rows) {
      begin_if_new();
      stage_ = Stage::rows;
    }
  }

  /// What stands at `stage` was found: it belongs to the table at hand if that has not come so far.
  void reach(Stage stage) {
    if (stage_ >= stage) {
      finish_table();
    }
    begin_if_new();
    stage_ = stage;
  }

  void begin_if_new() {
    if (stage_ == Stage::nothing || table_.collective.empty()) {
      table_.collective = several_programs_ ? std::string() : program_;
      program_.clear();
      several_programs_ = false;
    }
  }

  void finish_table() {
    if (table_.columns && table_.rows.empty()) {
      log_.note(fmt::format("line {}: a table without a row that can be read", table_.first_line));
    }
    interrupted_ = stage_ == Stage::header || stage_ == Stage::rows;
    judge_table(table_, file_, key_, statements_, log_);
    table_ = {};
    stage_ = Stage::nothing;
  }

  void set_nccl(std::string version) {
    if (!version.empty()) {
      table_.nccl = std::move(version);
    }
  }

  const std::string& file_;
  std::string key_;
  const Statements& statements_;
  ImportedLog log_;
  NcclTable table_;
  Stage stage_ = Stage::nothing;
  std::string program_;  // of a command line that no table has taken
  bool failed_ = false;
  bool interrupted_ = false;       // a table by the heading of the next, whose header is to come
  bool several_programs_ = false;  // so that none of them is this table's
  std::size_t row_count_ = 0;
  std::int64_t broken_rows_ = 0;
  std::int64_t first_size_ = 0;          // of the series of sizes that the last row is of
  std::optional<SourceLocation> mixed_;  // where it shows first that several programs wrote
  std::int64_t too_long_ = 0;
};

}  // namespace

std::string nccl_version_text(std::int64_t packed) {
  // NCCL_VERSION_CODE of nccl.h: since 2.9 major * 10000 + minor * 100 + patch, before that
  // major * 1000 + minor * 100 + patch.
  constexpr std::int64_t kFirstWide = 20900;
  const std::int64_t unit = packed >= kFirstWide ? 10000 : 1000;
  if (packed < 2000 || packed >= 1'000'000) {
    return {};
  }
  return fmt::format("{}.{}.{}", packed / unit, packed % unit / 100, packed % 100);
}

ImportedLog read_nccl_tests_log(std::string_view text,
                                const std::string& file,
                                const Statements& statements) {
  return LogReader(file, statements).read(text);
}

}  // namespace trireme::calibrate
