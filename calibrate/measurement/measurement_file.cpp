#include "calibrate/measurement/measurement_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <map>
#include <optional>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "calibrate/measurement/columns.h"
#include "calibrate/measurement/csv.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

/// A grid of every probe is a few thousand rows of about 200 bytes.
constexpr std::int64_t kLargestFile = std::int64_t{1} << 26;

/// Of a kernel, a collective or a copy: what is outside was written in another unit, or by
/// accident.
constexpr Seconds kShortestTime(1e-12);
constexpr Seconds kLongestTime(86400);

constexpr std::string_view kMemoryFile = "memory.csv";
constexpr std::string_view kEnvironmentFile = "environments.csv";

// By place in the variant Point.
constexpr std::array<std::string_view, std::variant_size_v<Point>> kPointFiles = {
    "collectives.csv",
    "attention.csv",
    "gemm.csv",
    "memory_bound.csv",
    "launch.csv",
    "host_copy.csv",
    "interference.csv"};

class ColumnNames final : public Columns {
 public:
  void text(std::string_view column, std::string& /*value*/, Presence /*presence*/) override {
    names.emplace_back(column);
  }

  void count(std::string_view column, std::int64_t& /*value*/, std::int64_t /*least*/) override {
    names.emplace_back(column);
  }

  void seconds(std::string_view column, Seconds& /*value*/) override { names.emplace_back(column); }

  void flag(std::string_view column, bool& /*value*/) override { names.emplace_back(column); }

  void choice(std::string_view column,
              std::size_t& /*value*/,
              std::span<const std::string_view> /*words*/) override {
    names.emplace_back(column);
  }

  std::vector<std::string> names;
};

class RowText final : public Columns {
 public:
  void text(std::string_view /*column*/, std::string& value, Presence /*presence*/) override {
    fields.push_back(value);
  }

  void count(std::string_view /*column*/, std::int64_t& value, std::int64_t /*least*/) override {
    fields.push_back(std::to_string(value));
  }

  void seconds(std::string_view /*column*/, Seconds& value) override {
    fields.push_back(to_text(value.value()));
  }

  void flag(std::string_view /*column*/, bool& value) override {
    fields.emplace_back(value ? "true" : "false");
  }

  void choice(std::string_view /*column*/,
              std::size_t& value,
              std::span<const std::string_view> names) override {
    fields.emplace_back(names[value]);
  }

  std::vector<std::string> fields;
};

template <class Row>
std::string header_of(Row row) {
  ColumnNames names;
  visit(names, row);
  return join_csv(names.names);
}

template <class Row>
std::string line_of(Row row) {
  RowText text;
  visit(text, row);
  return join_csv(text.fields);
}

/// A line of a file, for errors.
struct Line {
  std::string file;
  int number = 0;
  std::string_view text;

  [[noreturn]] void fail(int column, std::string message, std::string hint = {}) const {
    throw Error(
        ErrorKind::input,
        SourceLocation{
            .file = file, .line = number, .column = column, .source_line = std::string(text)},
        std::move(message),
        std::move(hint));
  }
};

std::vector<CsvField> fields_of(const Line& line) {
  try {
    return split_csv(line.text);
  } catch (const BadText& bad) {
    line.fail(1, bad.what(), bad.hint());
  }
}

/// Fills a row from the fields of a line.
class RowReader final : public Columns {
  const CsvField& next() {
    current_ = &fields_.at(next_++);
    return *current_;
  }

  template <class Parse>
  auto parsed(std::string_view column, const Parse& parse) {
    try {
      return parse(next().text);
    } catch (const BadText& bad) {
      fail(column, bad.what(), bad.hint());
    }
  }

  [[noreturn]] void fail(std::string_view column,
                         const std::string& message,
                         const std::string& hint = {}) const {
    line_.fail(current_->column, fmt::format("{}: {}", column, message), hint);
  }

 public:
  RowReader(const Line& line, std::size_t columns) : line_(line), fields_(fields_of(line)) {
    if (fields_.size() != columns) {
      line_.fail(1,
                 fmt::format("{} fields where the header has {}", fields_.size(), columns),
                 "was the line edited or cut?");
    }
  }

  void text(std::string_view column, std::string& value, Presence presence) override {
    value = next().text;
    if (value.empty() && presence == Presence::required) {
      fail(column, "is empty");
    }
  }

  void count(std::string_view column, std::int64_t& value, std::int64_t least) override {
    value = parsed(column, parse_count);
    if (value < least) {
      fail(column, fmt::format("{} is less than {}", value, least));
    }
  }

  void seconds(std::string_view column, Seconds& value) override {
    value = Seconds(parsed(column, parse_number));
    if (value <= Seconds(0)) {
      fail(column, "a time is above zero");
    }
    if (value < kShortestTime || value > kLongestTime) {
      fail(column, "nothing that is measured takes less than a picosecond or more than a day");
    }
    places_[std::string(column)] = current_->column;
  }

  void flag(std::string_view column, bool& value) override { value = parsed(column, parse_bool); }

  void choice(std::string_view column,
              std::size_t& value,
              std::span<const std::string_view> names) override {
    const std::string& word = next().text;
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) {
      const std::vector<std::string> known(names.begin(), names.end());
      fail(column, fmt::format("{} is not known", in_quotes(word)), hint_near(word, known));
    }
    value = static_cast<std::size_t>(found - names.begin());
  }

  /// Where a column of seconds stands.
  [[nodiscard]] int place(const std::string& column) const { return places_.at(column); }

  /// Where the field that was read last stands.
  [[nodiscard]] int place() const { return current_->column; }

 private:
  const Line& line_;
  std::vector<CsvField> fields_;
  std::size_t next_ = 0;
  const CsvField* current_ = nullptr;
  std::map<std::string, int> places_;
};

void check_timing(const Line& line, const RowReader& row, const Timing& timing) {
  if (timing.lower_quartile > timing.median) {
    line.fail(row.place("lower_quartile_seconds"), "the lower quartile is above the median");
  }
  if (timing.upper_quartile < timing.median) {
    line.fail(row.place("upper_quartile_seconds"), "the upper quartile is below the median");
  }
}

/// The complete lines of a file; `header` is its first.
std::vector<Line> lines_of(const std::string& file,
                           std::string_view text,
                           const std::string& header,
                           const Warn& warn) {
  std::vector<Line> lines;
  int number = 1;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      warn(fmt::format("{}:{}: the last line is cut and left out", file, number));
      break;
    }
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.push_back({.file = file, .number = number, .text = line});
    text.remove_prefix(end + 1);
    ++number;
  }
  const std::string_view expected = std::string_view(header).substr(0, header.size() - 1);
  if (!lines.empty() && lines.front().text != expected) {
    const std::string_view found = lines.front().text;
    const auto differs =
        std::mismatch(found.begin(), found.end(), expected.begin(), expected.end()).first;
    const auto begin = found.substr(0, static_cast<std::size_t>(differs - found.begin()));
    lines.front().fail(static_cast<int>(utf8_count(begin)) + 1,
                       "not the header of this file",
                       fmt::format("the header is {}", expected));
  }
  return lines;
}

/// The text of a file of the folder; null when there is none or a killed run left it empty.
std::optional<std::string> text_of(const std::filesystem::path& path, const Warn& warn) {
  std::error_code none;
  const bool there = std::filesystem::exists(path, none);
  if (!there) {
    return std::nullopt;
  }
  if (std::filesystem::is_regular_file(path, none) && std::filesystem::file_size(path, none) == 0) {
    warn(fmt::format("{}: the file is empty", printable(path.string())));
    return std::nullopt;
  }
  return read_text_file(path, {}, kLargestFile);
}

/// Reads the rows of one file: `take(row)` gets them. False when the folder has no such file.
template <class Row, class Take>
bool read_rows(const std::filesystem::path& folder,
               std::string_view file,
               const Row& blank,
               const Warn& warn,
               const Take& take) {
  const std::filesystem::path path = folder / file;
  const std::optional<std::string> text = text_of(path, warn);
  if (!text) {
    return std::filesystem::exists(path);
  }
  ColumnNames columns;
  Row example = blank;
  visit(columns, example);
  const std::vector<Line> lines = lines_of(path.string(), *text, join_csv(columns.names), warn);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    RowReader reader(lines[i], columns.names.size());
    Row row = blank;
    visit(reader, row);
    take(lines[i], reader, std::move(row));
  }
  return true;
}

class Folder {
 public:
  Folder(const std::filesystem::path& path, const Warn& warn) : path_(path), warn_(warn) {}

  MeasurementSet read() {
    any_ |= read_rows(path_,
                      kEnvironmentFile,
                      Environment{},
                      warn_,
                      [&](const Line& line, const RowReader&, Environment row) {
                        if (!keys_.insert(row.key).second) {
                          line.fail(1, fmt::format("key: {} is there twice", in_quotes(row.key)));
                        }
                        set_.environments.push_back(std::move(row));
                      });
    read_points(std::make_index_sequence<std::variant_size_v<Point>>());
    any_ |= read_rows(path_,
                      kMemoryFile,
                      MemoryMeasurement{},
                      warn_,
                      [&](const Line& line, const RowReader& reader, MemoryMeasurement row) {
                        check_environment(line, reader, row.environment);
                        set_.memory.push_back(std::move(row));
                      });
    if (!any_) {
      throw Error(ErrorKind::input,
                  SourceLocation{.file = path_.string()},
                  "the folder holds no measurements",
                  fmt::format("name a folder with files such as {}", kPointFiles.front()));
    }
    return std::move(set_);
  }

 private:
  template <std::size_t... Places>
  void read_points(std::index_sequence<Places...> /*of Point*/) {
    (read_points_of<Places>(), ...);
  }

  template <std::size_t Place>
  void read_points_of() {
    Measurement blank;
    blank.point.emplace<Place>();
    any_ |= read_rows(path_,
                      kPointFiles[Place],
                      blank,
                      warn_,
                      [&](const Line& line, const RowReader& reader, Measurement row) {
                        check_timing(line, reader, row.timing);
                        check_environment(line, reader, row.environment);
                        set_.measurements.push_back(std::move(row));
                      });
  }

  /// The environment is the last field of a row.
  void check_environment(const Line& line, const RowReader& reader, const std::string& key) const {
    if (!keys_.contains(key)) {
      line.fail(reader.place(),
                fmt::format("environment: {} is not in {}", in_quotes(key), kEnvironmentFile),
                hint_near(key, std::vector<std::string>(keys_.begin(), keys_.end())));
    }
  }

  const std::filesystem::path& path_;
  const Warn& warn_;
  std::set<std::string> keys_;
  bool any_ = false;
  MeasurementSet set_;
};

}  // namespace

MeasurementSet read_measurements(const std::filesystem::path& folder, const Warn& warn) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) {
    throw Error(ErrorKind::input,
                SourceLocation{.file = folder.string()},
                "this is no folder",
                "name the folder that measurements were written to");
  }
  return Folder(folder, warn).read();
}

/// The files that are open for appending.
class MeasurementWriter::Files {
 public:
  explicit Files(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code failed;
    std::filesystem::create_directories(folder_, failed);
    if (failed) {
      fail(folder_, failed.message());
    }
    lock_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) {
      fail(folder_, std::generic_category().message(errno));
    }
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      ::close(lock_);
      fail(folder_,
           reason == EWOULDBLOCK ? "another run writes into it"
                                 : std::generic_category().message(reason));
    }
  }

  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  ~Files() {
    for (const auto& [file, descriptor] : open_) {
      ::close(descriptor);
    }
    ::close(lock_);
  }

  void append(std::string_view file, const std::string& header, const std::string& line) {
    bool fresh = false;
    const int descriptor = open_file(file, fresh);
    const std::string text = fresh ? header + line : line;
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size())) {
      fail(folder_ / file,
           written < 0 ? std::generic_category().message(errno) : "the disk is full");
    }
  }

 private:
  [[noreturn]] static void fail(const std::filesystem::path& path, const std::string& reason) {
    throw Error(ErrorKind::command_line,
                SourceLocation{.file = path.string()},
                fmt::format("measurements cannot be written: {}", reason),
                "name a folder that you may write to");
  }

  /// Opens a file at its first use; `fresh` when it has no header yet.
  int open_file(std::string_view file, bool& fresh) {
    if (const auto found = open_.find(file); found != open_.end()) {
      return found->second;
    }
    const std::filesystem::path path = folder_ / file;
    const int descriptor = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) {
      fail(path, std::generic_category().message(errno));
    }
    open_.emplace(file, descriptor);
    const off_t end = end_of_last_line(descriptor);
    if (end < 0 || ::ftruncate(descriptor, end) != 0) {
      fail(path, std::generic_category().message(errno));
    }
    fresh = end == 0;
    return descriptor;
  }

  /// The length of a file without a line that was cut; -1 when it cannot be read.
  static off_t end_of_last_line(int descriptor) {
    off_t end = ::lseek(descriptor, 0, SEEK_END);
    std::array<char, 4096> block{};
    while (end > 0) {
      const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(block.size()));
      const ssize_t count =
          ::pread(descriptor, block.data(), static_cast<std::size_t>(end - begin), begin);
      if (count != end - begin) {
        return -1;
      }
      const std::string_view text(block.data(), static_cast<std::size_t>(count));
      if (const std::size_t last = text.rfind('\n'); last != std::string_view::npos) {
        return begin + static_cast<off_t>(last) + 1;
      }
      end = begin;
    }
    return end;
  }

  std::filesystem::path folder_;
  int lock_ = -1;
  std::map<std::string, int, std::less<>> open_;
};

MeasurementWriter::MeasurementWriter(std::filesystem::path folder)
    : files_(std::make_unique<Files>(std::move(folder))) {}

MeasurementWriter::~MeasurementWriter() = default;

void MeasurementWriter::append(const Measurement& measurement) {
  files_->append(file_of(measurement.point), header_of(measurement), line_of(measurement));
}

void MeasurementWriter::append(const MemoryMeasurement& measurement) {
  files_->append(kMemoryFile, header_of(measurement), line_of(measurement));
}

void MeasurementWriter::append(const Environment& environment) {
  files_->append(kEnvironmentFile, header_of(environment), line_of(environment));
}

std::string_view file_of(const Point& point) {
  return kPointFiles.at(point.index());
}

std::string in_words(const Point& point) {
  ColumnNames names;
  RowText text;
  Point copy = point;
  std::visit(
      [&](auto& value) {
        visit(names, value);
        visit(text, value);
      },
      copy);
  std::string words(file_of(point).substr(0, file_of(point).find('.')));
  for (std::size_t i = 0; i < text.fields.size(); ++i) {
    words += fmt::format("{}{} {}", i == 0 ? ": " : ", ", names.names[i], text.fields[i]);
  }
  return words;
}

}  // namespace trireme::calibrate
