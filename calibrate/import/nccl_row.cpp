#include "calibrate/import/nccl_row.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

struct TypeName {
  std::string_view name;
  ElementType type;
};

// char and int are the names of nccl-tests before NCCL 2.
constexpr std::array kTypes = {TypeName{"int8", ElementType::int8},
                               TypeName{"char", ElementType::int8},
                               TypeName{"uint8", ElementType::uint8},
                               TypeName{"int32", ElementType::int32},
                               TypeName{"int", ElementType::int32},
                               TypeName{"uint32", ElementType::uint32},
                               TypeName{"int64", ElementType::int64},
                               TypeName{"uint64", ElementType::uint64},
                               TypeName{"half", ElementType::fp16},
                               TypeName{"float", ElementType::fp32},
                               TypeName{"double", ElementType::fp64},
                               TypeName{"bfloat16", ElementType::bf16},
                               TypeName{"f8e4m3", ElementType::fp8},
                               TypeName{"f8e5m2", ElementType::fp8},
                               TypeName{"fp8_e4m3", ElementType::fp8},
                               TypeName{"fp8_e5m2", ElementType::fp8}};

constexpr std::array<std::string_view, 7> kReductions = {
    "sum", "prod", "max", "min", "avg", "mulsum", "none"};

/// The largest difference that versions with an "error" column let pass: DeltaMaxValue() of their
/// src/common.cu.
double largest_error(ElementType type) {
  switch (type) {
    case ElementType::fp16:
    case ElementType::bf16:
      return 1e-2;
    case ElementType::fp32:
      return 1e-5;
    case ElementType::fp64:
      return 1e-12;
    default:
      return 0;
  }
}

bool is_whole_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_word(std::string_view text) {
  const char first = text.empty() ? '0' : text.front();
  return (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
}

/// "2026-11-30", "13:25:29", "13:25:29.123Z" and both in one.
bool is_date_or_time(std::string_view text) {
  const auto marks = std::count_if(text.begin(), text.end(), [](char c) { return c == ':'; });
  const auto dashes = std::count_if(text.begin(), text.end(), [](char c) { return c == '-'; });
  return (marks == 2 || dashes == 2) && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') ||
                  std::string_view(":-.,TZ+").find(c) != std::string::npos;
         });
}

/// Whether what stands before a row is the prefix of a launcher: "0:", "node01:", "[1,0]", "|", a
/// time, or the "stdout F" of a container's log.
bool is_launcher_prefix(const std::vector<LogToken>& tokens, std::size_t count) {
  if (count == 0) {
    return true;
  }
  const std::string_view last = tokens[count - 1].text;
  const bool of_container =
      count >= 2 && last == "F" &&
      (tokens[count - 2].text == "stdout" || tokens[count - 2].text == "stderr");
  return of_container || is_date_or_time(last) ||
         std::string_view(":]>|").find(last.back()) != std::string::npos;
}

/// Where the element type of a row stands: behind two whole numbers. tokens.size() when nowhere.
std::size_t find_type(const std::vector<LogToken>& tokens) {
  for (std::size_t i = 2; i < tokens.size(); ++i) {
    if (nccl_type(tokens[i].text) && is_whole_number(tokens[i - 1].text) &&
        is_whole_number(tokens[i - 2].text)) {
      return i;
    }
  }
  return tokens.size();
}

/// Two whole numbers and a word that begins as a type and goes on as something else.
bool has_type_run_together(const std::vector<LogToken>& tokens) {
  for (std::size_t i = 2; i < tokens.size(); ++i) {
    const bool begins = std::any_of(kTypes.begin(), kTypes.end(), [&](const TypeName& type) {
      return tokens[i].text.starts_with(type.name);
    });
    if (begins && is_whole_number(tokens[i - 1].text) && is_whole_number(tokens[i - 2].text)) {
      return true;
    }
  }
  return false;
}

/// A type, and behind it numbers with a fraction: the rest of a row whose beginning is elsewhere.
bool is_rest_of_row(const std::vector<LogToken>& tokens) {
  const auto type = std::find_if(tokens.begin(), tokens.end(), [](const LogToken& token) {
    return nccl_type(token.text).has_value();
  });
  const auto fractions = std::count_if(type, tokens.end(), [](const LogToken& token) {
    return token.text.find('.') != std::string_view::npos && parse_printed_number(token.text);
  });
  return fractions >= 3;
}

/// How many numbers a row has behind type and reduction.
struct FieldCounts {
  std::size_t before = 0;  // root
  std::size_t half = 0;    // out of place, or in place
};

FieldCounts field_counts(const TableColumns& columns) {
  constexpr std::size_t kBandwidths = 3;    // time, algorithm, bus
  constexpr std::size_t kPerIteration = 4;  // minimum, maximum, 99th percentile, variation
  return {columns.root ? std::size_t{1} : 0,
          kBandwidths + (columns.check ? 1 : 0) + (columns.per_iteration ? kPerIteration : 0)};
}

/// The columns of a whole row that stands without a header: 9 numbers with a root, 8 without.
std::optional<TableColumns> columns_of_headless(std::size_t fields) {
  constexpr std::size_t kWithRoot = 9;
  if (fields != kWithRoot && fields != kWithRoot - 1) {
    return std::nullopt;
  }
  TableColumns columns;
  columns.root = fields == kWithRoot;
  columns.check = true;
  columns.in_place = true;
  return columns;
}

/// Reads the numbers of a row, one after the other; the first problem is kept.
class FieldReader {
 public:
  FieldReader(const std::vector<LogToken>& tokens, std::size_t first)
      : tokens_(tokens), next_(first) {}

  std::optional<std::int64_t> root() {
    const LogToken& token = tokens_[next_++];
    const std::string_view digits = token.text.starts_with('-') ? token.text.substr(1) : token.text;
    if (!is_whole_number(digits) || digits.size() > 9) {
      fail(token, fmt::format("{} is no root", in_quotes(token.text)));
      return std::nullopt;
    }
    const std::int64_t value = std::stoll(std::string(digits));
    return digits.size() == token.text.size() ? value : -value;
  }

  NcclTiming timing(const TableColumns& columns, ElementType type) {
    NcclTiming timing;
    timing.time_us = number("time");
    timing.algorithm_bandwidth = number("algorithm bandwidth");
    timing.bus_bandwidth = number("bus bandwidth");
    if (columns.check) {
      timing.check = check(columns, type);
    }
    next_ += columns.per_iteration ? 4 : 0;
    return timing;
  }

  [[nodiscard]] const std::optional<BrokenRow>& problem() const { return problem_; }

 private:
  PrintedNumber number(std::string_view what) {
    const LogToken& token = tokens_[next_++];
    const std::optional<PrintedNumber> value = parse_printed_number(token.text);
    if (!value) {
      fail(token, fmt::format("{}: {} is no number", what, in_quotes(token.text)));
    }
    return value.value_or(PrintedNumber{});
  }

  DataCheck check(const TableColumns& columns, ElementType type) {
    const LogToken& token = tokens_[next_];
    if (token.text == "N/A") {
      ++next_;
      return DataCheck::not_done;
    }
    const double allowed = columns.check_is_error ? largest_error(type) : 0;
    return number("wrong").value <= allowed ? DataCheck::right : DataCheck::wrong;
  }

  void fail(const LogToken& token, std::string reason) {
    if (!problem_) {
      problem_ = {token.column, std::move(reason)};
    }
  }

  const std::vector<LogToken>& tokens_;
  std::size_t next_;
  std::optional<BrokenRow> problem_;
};

/// Removes a date and a time at the end; false when they are not there.
bool take_timestamp(std::size_t first, std::size_t& end, const std::vector<LogToken>& tokens) {
  constexpr std::size_t kWords = 2;
  if (end < first + kWords || !is_date_or_time(tokens[end - 1].text) ||
      !is_date_or_time(tokens[end - kWords].text)) {
    return false;
  }
  end -= kWords;
  return true;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  try {
    return parse_count(text);
  } catch (const BadText&) {
    return std::nullopt;
  }
}

std::variant<NoRow, BrokenRow, NcclRow> parse_fields(const std::vector<LogToken>& tokens,
                                                     std::size_t type_at,
                                                     const TableColumns* columns,
                                                     const LogLine& line) {
  const LogToken& size_token = tokens[type_at - 2];
  const auto broken = [&](std::string reason) { return BrokenRow{size_token.column, reason}; };
  NcclRow row;
  row.line = line.number;
  row.column = size_token.column;
  row.source_line = line.raw;
  row.type = *nccl_type(tokens[type_at].text);
  const std::optional<std::int64_t> size = whole_number(size_token.text);
  const std::optional<std::int64_t> count = whole_number(tokens[type_at - 1].text);
  if (!size || !count) {
    return broken("size or count is no number of bytes or elements");
  }
  row.size = *size;
  row.count = *count;

  std::size_t first = type_at + 1;
  if (first < tokens.size() && is_nccl_reduction(tokens[first].text)) {
    row.reduction = tokens[first].text;
    ++first;
  }
  std::size_t end = tokens.size();
  if (columns != nullptr && columns->timestamp && !take_timestamp(first, end, tokens)) {
    return broken("the row ends before its time of day");
  }
  const std::size_t fields = end - first;
  const std::optional<TableColumns> guessed =
      columns == nullptr ? columns_of_headless(fields) : *columns;
  if (!guessed) {
    return broken("no header above says which columns these are");
  }
  const auto [before, half] = field_counts(*guessed);
  const bool whole = fields == before + (guessed->in_place ? 2 : 1) * half;
  const bool only_out_of_place = guessed->in_place && fields == before + half;
  if (!whole && !only_out_of_place) {
    return broken(fmt::format("{} numbers behind the type where the header has {}",
                              fields,
                              before + (guessed->in_place ? 2 : 1) * half));
  }
  // A file that ends here may have lost the last digits, or the in-place half.
  if (!line.ended && (!whole || !guessed->check || guessed->timestamp || guessed->per_iteration)) {
    return broken("the file ends within the row");
  }

  FieldReader reader(tokens, first);
  if (guessed->root) {
    row.root = reader.root();
  }
  row.out_of_place = reader.timing(*guessed, row.type);
  if (whole && guessed->in_place) {
    row.in_place = reader.timing(*guessed, row.type);
  }
  if (reader.problem()) {
    return *reader.problem();
  }
  return row;
}

std::string fault_of_timing(const NcclRow& row, const NcclTiming& timing, std::string_view half) {
  if (!(timing.time_us.value > 0)) {
    return fmt::format("the {} time is zero", half);
  }
  if (algorithm_bandwidth(row, timing).empty()) {
    return fmt::format("{}: {} bytes in {} us are not {} GB/s",
                       half,
                       row.size,
                       to_text(timing.time_us.value),
                       to_text(timing.algorithm_bandwidth.value));
  }
  return {};
}

}  // namespace

std::optional<ElementType> nccl_type(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.name == name) {
      return type.type;
    }
  }
  return std::nullopt;
}

bool is_nccl_reduction(std::string_view word) {
  return std::find(kReductions.begin(), kReductions.end(), word) != kReductions.end();
}

std::optional<TableColumns> parse_table_header(const std::vector<LogToken>& tokens) {
  const auto is = [&](std::size_t i, std::string_view word) {
    return i < tokens.size() && tokens[i].text == word;
  };
  std::size_t at = 0;
  while (at < tokens.size() && !(is(at, "size") && is(at + 1, "count") && is(at + 2, "type"))) {
    ++at;
  }
  if (at == tokens.size()) {
    return std::nullopt;
  }
  TableColumns columns;
  int times = 0;
  for (at += 3; at < tokens.size(); ++at) {
    columns.reduction |= is(at, "redop");
    columns.root |= is(at, "root");
    columns.check |= is(at, "#wrong") || is(at, "wrong") || is(at, "error");
    columns.check_is_error |= is(at, "error");
    columns.per_iteration |= is(at, "i_min");
    columns.timestamp |= is(at, "timestamp");
    columns.cpu_time |= is(at, "cputime");
    times += is(at, "time") || is(at, "cputime") ? 1 : 0;
  }
  columns.in_place = times > 1;
  return times == 0 ? std::nullopt : std::optional(columns);
}

std::variant<NoRow, BrokenRow, NcclRow> parse_table_row(const std::vector<LogToken>& tokens,
                                                        const TableColumns* columns,
                                                        const LogLine& line) {
  const std::size_t type_at = find_type(tokens);
  if (type_at == tokens.size()) {
    if (has_type_run_together(tokens) || is_rest_of_row(tokens)) {
      return BrokenRow{tokens.front().column, "part of a row, mixed with other output"};
    }
    return NoRow{};
  }
  if (!is_launcher_prefix(tokens, type_at - 2)) {
    return BrokenRow{tokens.front().column, "a row behind something that no launcher prints"};
  }
  for (std::size_t i = type_at + 1; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (is_word(text) && text != "N/A" && !(i == type_at + 1 && is_nccl_reduction(text))) {
      return BrokenRow{tokens[i].column,
                       fmt::format("the row is broken by other output: {}", in_quotes(text))};
    }
  }
  return parse_fields(tokens, type_at, columns, line);
}

Interval algorithm_bandwidth(const NcclRow& row, const NcclTiming& timing) {
  constexpr double kBytesPerMicrosecondInGigabytes = 1e-3;
  const double amount = static_cast<double>(row.size) * kBytesPerMicrosecondInGigabytes;
  const Interval by_time =
      with_rounding({amount / timing.time_us.range.high, amount / timing.time_us.range.low});
  return intersection(by_time, with_rounding(timing.algorithm_bandwidth.range));
}

std::string fault_of(const NcclRow& row) {
  std::string fault;
  if (row.out_of_place) {
    if (row.out_of_place->check == DataCheck::wrong) {
      return "the out-of-place result was wrong";
    }
    fault = fault_of_timing(row, *row.out_of_place, "out-of-place");
  }
  if (fault.empty() && row.in_place) {
    fault = fault_of_timing(row, *row.in_place, "in-place");
  }
  return fault;
}

}  // namespace trireme::calibrate
