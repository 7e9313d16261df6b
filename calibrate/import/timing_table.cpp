#include "calibrate/import/timing_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "calibrate/import/keys.h"
#include "calibrate/import/nccl_collective.h"
#include "calibrate/import/nccl_row.h"
#include "calibrate/import/printed_number.h"
#include "calibrate/measurement/csv.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

enum class TableKind : std::uint8_t { collectives, attention, products };

struct Layout {
  TableKind kind;
  std::vector<std::string_view> columns;
};

const std::array<Layout, 3>& layouts() {
  static const std::array<Layout, 3> kLayouts = {
      {{TableKind::collectives,
        {"collective", "n_gpus", "gpus_per_node", "size_bytes", "dtype", "oop_time_us"}},
       {TableKind::attention,
        {"kernel",
         "dtype",
         "pass",
         "causal",
         "head_dim",
         "heads",
         "kv_heads",
         "batch",
         "seq",
         "time_ms"}},
       {TableKind::products, {"dtype", "m", "n", "k", "time_us"}}}};
  return kLayouts;
}

std::string_view line_at(std::string_view text, std::size_t begin) {
  return text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> texts;
  for (CsvField& field : split_csv(line)) {
    texts.push_back(std::move(field.text));
  }
  return texts;
}

/// The names of the columns; empty for a line that is no CSV.
std::vector<std::string> header_of(std::string_view text) {
  try {
    return fields_of(line_at(text, 0));
  } catch (const BadText&) {
    return {};
  }
}

bool has(const std::vector<std::string>& header, std::string_view column) {
  return std::find(header.begin(), header.end(), column) != header.end();
}

/// The layout of which a header has more than half of the columns, and not all.
const Layout* nearly_layout_of(const std::vector<std::string>& header) {
  for (const Layout& layout : layouts()) {
    const auto found = static_cast<std::size_t>(
        std::count_if(layout.columns.begin(), layout.columns.end(), [&](std::string_view column) {
          return has(header, column);
        }));
    if (2 * found > layout.columns.size()) {
      return &layout;
    }
  }
  return nullptr;
}

const Layout* layout_of(const std::vector<std::string>& header) {
  for (const Layout& layout : layouts()) {
    if (std::all_of(layout.columns.begin(), layout.columns.end(), [&](std::string_view column) {
          return has(header, column);
        })) {
      return &layout;
    }
  }
  return nullptr;
}

constexpr std::array<std::pair<std::string_view, ElementType>, 12> kTypes = {
    {{"bf16", ElementType::bf16},
     {"bfloat16", ElementType::bf16},
     {"fp16", ElementType::fp16},
     {"float16", ElementType::fp16},
     {"half", ElementType::fp16},
     {"fp32", ElementType::fp32},
     {"float32", ElementType::fp32},
     {"float", ElementType::fp32},
     {"fp64", ElementType::fp64},
     {"double", ElementType::fp64},
     {"fp8", ElementType::fp8},
     {"int8", ElementType::int8}}};

/// A row by the names of its columns.
class Row {
 public:
  Row(const std::vector<std::string>& header, std::vector<std::string> fields)
      : header_(header), fields_(std::move(fields)) {}

  /// Empty when there is no such column.
  [[nodiscard]] std::string text(std::string_view column) const {
    const auto found = std::find(header_.begin(), header_.end(), column);
    const auto place = static_cast<std::size_t>(found - header_.begin());
    return found == header_.end() || place >= fields_.size() ? "" : fields_[place];
  }

  /// Throws BadText that names the column.
  template <class Parse>
  auto parsed(std::string_view column, Parse parse) const {
    try {
      return parse(text(column));
    } catch (const BadText& bad) {
      throw BadText(fmt::format("{}: {}", column, bad.what()), bad.hint());
    }
  }

  [[nodiscard]] std::int64_t count(std::string_view column) const {
    const std::int64_t value = parsed(column, parse_count);
    constexpr std::int64_t kMost = std::int64_t{1} << 50;
    if (value < 1 || value > kMost) {
      throw BadText(fmt::format("{}: {} is out of range", column, value), "");
    }
    return value;
  }

  [[nodiscard]] Seconds seconds(std::string_view column, double unit) const {
    const double value = parsed(column, parse_non_negative_number) * unit;
    constexpr double kMost = 1e6;
    if (!(value > 0 && value < kMost)) {
      throw BadText(fmt::format("{}: {} is no time", column, in_quotes(text(column))), "");
    }
    return Seconds(value);
  }

  [[nodiscard]] ElementType type() const {
    const std::string word = text("dtype");
    for (const auto& [name, type] : kTypes) {
      if (name == word) {
        return type;
      }
    }
    throw BadText(fmt::format("dtype: {} is not known", in_quotes(word)), "");
  }

 private:
  const std::vector<std::string>& header_;
  std::vector<std::string> fields_;
};

/// Throws BadText when the bandwidths of a row, where they are, are not those of its size, time and
/// ranks, or the result was wrong.
void check_bandwidths(const Row& row,
                      const NcclCollective& collective,
                      const CollectivePoint& point) {
  const auto number = [&](std::string_view column) {
    return parse_printed_number(row.text(column));
  };
  const auto time = number("oop_time_us");
  const auto algorithm = number("oop_algbw_GBps");
  const auto bus = number("oop_busbw_GBps");
  NcclRow printed;
  printed.size = point.payload.value();
  if (time && algorithm) {
    printed.out_of_place =
        NcclTiming{.time_us = *time, .algorithm_bandwidth = *algorithm, .bus_bandwidth = {}};
    if (std::string fault = fault_of(printed); !fault.empty()) {
      throw BadText(fault, "");
    }
  }
  if (time && algorithm && bus) {
    printed.out_of_place->bus_bandwidth = *bus;
    if (!bandwidths_agree(collective, printed, point.ranks)) {
      throw BadText(fmt::format("{}: algorithm and bus bandwidth are not those of {} ranks",
                                collective.name,
                                point.ranks),
                    "");
    }
  }
  // "0|N/A": of the result out of place, then of the one in place
  const std::string wrong = row.text("wrong");
  const std::string_view out_of_place = std::string_view(wrong).substr(0, wrong.find('|'));
  if (out_of_place.find_first_of("123456789") != std::string_view::npos &&
      out_of_place.find_first_not_of("0123456789") == std::string_view::npos) {
    throw BadText("the out-of-place result was wrong", "");
  }
}

CollectivePoint collective_of(const Row& row) {
  CollectivePoint point;
  const NcclCollective* const collective = find_nccl_collective(row.text("collective"));
  if (collective == nullptr || !collective->kind) {
    throw BadText(fmt::format("collective: no plan uses {}", in_quotes(row.text("collective"))),
                  "");
  }
  point.collective = *collective->kind;
  point.method = "nccl";
  point.ranks = row.count("n_gpus");
  point.ranks_per_node = std::min(point.ranks, row.count("gpus_per_node"));
  if (point.ranks % point.ranks_per_node != 0) {
    throw BadText(
        fmt::format("{} ranks do not fill nodes of {}", point.ranks, point.ranks_per_node), "");
  }
  if (point.ranks == 1) {
    throw BadText("one rank sends to itself: that measures no link", "");
  }
  point.type = row.type();
  point.payload = Bytes(row.count("size_bytes"));
  check_bandwidths(row, *collective, point);
  return point;
}

AttentionPoint attention_of(const Row& row) {
  AttentionPoint point;
  point.kernel = row.text("kernel");
  const std::string pass = row.text("pass");
  if (point.kernel.empty()) {
    throw BadText("kernel: it is not named", "");
  }
  if (pass != "fwd" && pass != "bwd") {
    throw BadText(fmt::format("pass: {} is neither fwd nor bwd", in_quotes(pass)), "");
  }
  const std::string causal = row.text("causal");
  if (causal != "0" && causal != "1") {
    throw BadText(fmt::format("causal: {} is neither 0 nor 1", in_quotes(causal)), "");
  }
  point.pass = pass == "fwd" ? Pass::forward : Pass::backward;
  point.causal = causal == "1";
  point.sequences = row.count("batch");
  point.query_tokens = Tokens(row.count("seq"));
  point.key_tokens = point.query_tokens;
  point.heads = row.count("heads");
  point.kv_heads = row.count("kv_heads");
  point.head_dim = row.count("head_dim");
  point.type = row.type();
  return point;
}

GemmPoint product_of(const Row& row) {
  GemmPoint point;
  point.m = row.count("m");
  point.n = row.count("n");
  point.k = row.count("k");
  point.type = row.type();
  return point;
}

Measurement measurement_of(TableKind kind, const Row& row) {
  constexpr double kMicro = 1e-6;
  constexpr double kMilli = 1e-3;
  Measurement measurement;
  Seconds time;
  switch (kind) {
    case TableKind::collectives:
      measurement.point = collective_of(row);
      time = row.seconds("oop_time_us", kMicro);
      break;
    case TableKind::attention:
      measurement.point = attention_of(row);
      time = row.seconds("time_ms", kMilli);
      break;
    case TableKind::products:
      measurement.point = product_of(row);
      time = row.seconds("time_us", kMicro);
      break;
  }
  measurement.timing = {time, time, time, 0, true};
  return measurement;
}

/// The environments of a table: one for each device and library version.
class Environments {
 public:
  Environments(const std::string& file, const Statements& statements, ImportedLog& log)
      : stem_(environment_key_of(file)), statements_(statements), log_(log) {}

  /// The key of a row's environment. Throws BadText when the row contradicts a statement.
  std::string key_of(const Row& row) {
    const std::string device = agreed("gpu", row.text("gpu"), statements_.device);
    const std::string nccl = agreed("nccl_version", row.text("nccl_version"), statements_.nccl);
    const auto known = keys_.find({device, nccl});
    if (known != keys_.end()) {
      return known->second;
    }
    Environment environment;
    environment.key = keys_.empty() ? stem_ : fmt::format("{}-{}", stem_, keys_.size() + 1);
    environment.date = statements_.date;
    environment.source = statements_.source.empty() ? stem_ : statements_.source;
    environment.device = device;
    environment.nccl = nccl;
    keys_[{device, nccl}] = environment.key;
    log_.environments.push_back(environment);
    return environment.key;
  }

 private:
  static std::string agreed(const char* column,
                            const std::string& written,
                            const std::string& stated) {
    if (!written.empty() && !stated.empty() && written != stated) {
      throw BadText(fmt::format("{}: {} is not the {} that was stated",
                                column,
                                in_quotes(written),
                                in_quotes(stated)),
                    "");
    }
    return written.empty() ? stated : written;
  }

  std::string stem_;
  const Statements& statements_;
  ImportedLog& log_;
  std::map<std::pair<std::string, std::string>, std::string> keys_;
};

/// Columns that are read where they are.
constexpr std::array<std::string_view, 5> kOptional = {
    "gpu", "nccl_version", "oop_algbw_GBps", "oop_busbw_GBps", "wrong"};

bool is_read(std::string_view column, const Layout& layout) {
  return std::find(kOptional.begin(), kOptional.end(), column) != kOptional.end() ||
         std::find(layout.columns.begin(), layout.columns.end(), column) != layout.columns.end();
}

/// Throws Error (input) for a header that lacks a column, or has one that is read twice.
void check_header(const std::vector<std::string>& header,
                  const Layout* layout,
                  const SourceLocation& where) {
  const auto refuse = [&](std::string message) {
    throw Error(ErrorKind::input, where, std::move(message), "the first line names the columns");
  };
  if (layout == nullptr) {
    layout = nearly_layout_of(header);
    ensure(layout != nullptr, "read_timing_table: not a table");
    for (const std::string_view column : layout->columns) {
      if (!has(header, column)) {
        refuse(fmt::format("there is no column {}", column));
      }
    }
  }
  for (const std::string& column : header) {
    if (is_read(column, *layout) && std::count(header.begin(), header.end(), column) > 1) {
      refuse(fmt::format("the column {} stands twice", column));
    }
  }
}

}  // namespace

bool looks_like_timing_table(std::string_view text) {
  return nearly_layout_of(header_of(text)) != nullptr;
}

ImportedLog read_timing_table(std::string_view text,
                              const std::string& file,
                              const Statements& statements) {
  ImportedLog log;
  const std::vector<std::string> header = header_of(text);
  const Layout* const layout = layout_of(header);
  check_header(
      header,
      layout,
      {.file = file, .line = 1, .column = 1, .source_line = std::string(line_at(text, 0))});
  Environments environments(file, statements, log);
  int line_number = 1;
  for (std::size_t begin = line_at(text, 0).size() + 1; begin < text.size();) {
    const std::string_view line = line_at(text, begin);
    begin += line.size() + 1;
    ++line_number;
    if (line.empty() || line == "\r") {
      continue;
    }
    const SourceLocation where{
        .file = file, .line = line_number, .column = 1, .source_line = std::string(line)};
    try {
      auto fields = fields_of(line);
      if (fields.size() != header.size()) {
        throw BadText(
            fmt::format("the row has {} fields, the header {}", fields.size(), header.size()),
            "was the file cut?");
      }
      if (begin > text.size() && is_read(header.back(), *layout)) {
        throw BadText(fmt::format("the file ends within {}", in_quotes(header.back())),
                      "was it cut? end the line if it is whole");
      }
      const Row row(header, std::move(fields));
      if (layout->kind == TableKind::collectives && row.text("size_bytes") == "0") {
        ++log.empty_rows;
        continue;
      }
      Measurement measurement = measurement_of(layout->kind, row);
      measurement.environment = environments.key_of(row);
      log.measurements.push_back(std::move(measurement));
    } catch (const BadText& bad) {
      log.refuse({where, bad.what(), bad.hint()}, 1);
    }
  }
  return log;
}

}  // namespace trireme::calibrate
