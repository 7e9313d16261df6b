#include <algorithm>
#include <cctype>
#include <exception>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate/import/keys.h"
#include "calibrate/import/nccl_collective.h"
#include "calibrate/import/nccl_table.h"
#include "calibrate/import/nccl_tests.h"
#include "calibrate/import/text_place.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 16;
constexpr std::size_t kMostRows = 100'000;
constexpr int kPrintedDecimals = 6;  // nccl-tests writes "%lf"

[[noreturn]] void refuse_document(const std::string& file, std::string message, std::string hint) {
  throw Error(ErrorKind::input, SourceLocation{.file = file}, std::move(message), std::move(hint));
}

Json parse(std::string_view text, const std::string& file) {
  // Nesting is refused while it is parsed, and the key of a value is seen before the value: long
  // lists of single iterations and the environment of the run are not kept.
  const auto keep = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) {
      refuse_document(file,
                      fmt::format("nested deeper than {}", kDeepest),
                      "is this a document of nccl-tests -J?");
    }
    if (event != Json::parse_event_t::key) {
      return true;
    }
    const std::string& key = value.get_ref<const std::string&>();
    return key != "env" && key != "times_us" && key != "per_process_max_times_us";
  };
  try {
    return Json::parse(text, keep);
  } catch (const Json::parse_error& error) {
    throw Error(ErrorKind::input,
                place_of_byte(file, text, error.byte == 0 ? 0 : error.byte - 1),
                "this is no JSON from here on",
                "was the file cut? nccl-tests closes it at the end of a run");
  } catch (const Json::out_of_range&) {  // which knows no place
    refuse_document(file, "a number in it is too large", "is this a document of nccl-tests -J?");
  }
}

/// The value under a key, or nullptr; of a value that is no object as well.
const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::int64_t> whole(const Json* value) {
  if (value == nullptr || !value->is_number_integer()) {
    return std::nullopt;
  }
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  return value->get<std::int64_t>();
}

std::string text(const Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::string without_spaces(const std::string& padded) {
  std::string kept;
  std::copy_if(padded.begin(), padded.end(), std::back_inserter(kept), [](char character) {
    return character != ' ';
  });
  return kept;
}

class JsonReader {
 public:
  JsonReader(const std::string& file, const Statements& statements)
      : file_(file), statements_(statements) {}

  ImportedLog read(std::string_view document_text) {
    const Json document = parse(document_text, file_);
    const Json* results = find(document, "results");
    if (results == nullptr || !results->is_array()) {
      refuse_document(file_,
                      "this is no document of nccl-tests: it has no list 'results'",
                      "nccl-tests writes one with -J");
    }
    if (results->size() > kMostRows) {
      refuse_document(file_, fmt::format("more than {} results", kMostRows), "split the file");
    }
    read_run(document);
    read_devices(find(document, "config"));
    table_.columns = TableColumns{.reduction = true, .root = true, .check = true, .in_place = true};
    for (std::size_t i = 0; i < results->size(); ++i) {
      read_result((*results)[i], fmt::format("results[{}]", i));
    }
    judge_table(table_, file_, environment_key_of(file_), statements_, log_);
    return std::move(log_);
  }

 private:
  void read_run(const Json& document) {
    if (const auto packed = whole(find(document, "nccl_version"))) {
      table_.nccl = nccl_version_text(*packed);
    }
    constexpr std::size_t kDay = 10;  // "2026-01-28 01:05:57", of no stated time zone
    if (const std::string start = text(find(document, "start_time")); start.size() >= kDay) {
      table_.date = printable(start.substr(0, kDay));
    }
    const Json* arguments = find(document, "args");
    if (arguments != nullptr && arguments->is_array() && !arguments->empty()) {
      std::string program = text(&arguments->front());
      program.erase(0, program.find_last_of('/') + 1);
      constexpr std::string_view kEnd = "_perf";
      if (program.ends_with(kEnd)) {
        table_.collective = printable(program.substr(0, program.size() - kEnd.size()));
      }
    }
  }

  /// nccl-tests lists the first device of each process only.
  void read_devices(const Json* config) {
    if (config == nullptr) {
      return;
    }
    const std::int64_t threads = whole(find(*config, "nthreads")).value_or(0);
    const std::int64_t devices = whole(find(*config, "ngpus")).value_or(0);
    constexpr std::int64_t kMost = 1 << 16;
    if (threads > 0 && devices > 0 && threads < kMost && devices < kMost) {
      table_.devices_per_process = threads * devices;
    }
    const Json* list = find(*config, "devices");
    if (list == nullptr || !list->is_array() || table_.devices_per_process == 0) {
      return;
    }
    for (const Json& device : *list) {
      RankLine line;
      line.rank = whole(find(device, "rank")).value_or(-1);
      line.group = whole(find(device, "group")).value_or(0);
      line.device = whole(find(device, "device")).value_or(-1);
      line.host = printable(text(find(device, "hostname")));
      line.device_name = printable(text(find(device, "device_info")));
      const auto expected = static_cast<std::int64_t>(table_.ranks.size());
      if (line.rank != expected) {
        table_.ranks.clear();
        log_.note("the list of devices is not in the order of ranks, so it is not used");
        return;
      }
      for (std::int64_t i = 0; i < table_.devices_per_process; ++i) {
        table_.ranks.push_back(line);
        ++line.rank;
        ++line.device;
        if (table_.ranks.size() > kMostRows) {
          refuse_document(file_, fmt::format("more than {} ranks", kMostRows), {});
        }
      }
    }
  }

  void read_result(const Json& result, const std::string& name) {
    NcclRow row;
    row.name = name;
    const auto size = whole(find(result, "size"));
    const auto count = whole(find(result, "count"));
    const auto type = nccl_type(text(find(result, "type")));
    row.reduction = text(find(result, "redop"));
    const std::string root = without_spaces(text(find(result, "root")));
    if (!size || !count || *size < 0 || *count < 0 || !type) {
      refuse_row(name, "size, count or type is missing or none");
      return;
    }
    if (!row.reduction.empty() && !is_nccl_reduction(row.reduction)) {
      refuse_row(name, fmt::format("{} is no reduction", in_quotes(row.reduction)));
      return;
    }
    row.size = *size;
    row.count = *count;
    row.type = *type;
    const bool digits = !root.empty() && root.size() < 10 &&
                        std::all_of(root.begin() + (root.front() == '-' ? 1 : 0),
                                    root.end(),
                                    [](unsigned char c) { return std::isdigit(c) != 0; }) &&
                        root != "-";
    if (!root.empty() && !digits) {
      refuse_row(name, fmt::format("{} is no root", in_quotes(root)));
      return;
    }
    if (digits) {
      row.root = std::stoll(root);
    }
    std::string fault;
    row.out_of_place = read_timing(find(result, "out_of_place"), fault);
    row.in_place = read_timing(find(result, "in_place"), fault);
    if (!fault.empty()) {
      refuse_row(name, fault);
    } else if (!row.out_of_place && !row.in_place) {
      refuse_row(name, "neither out_of_place nor in_place is there");
    } else {
      table_.rows.push_back(std::move(row));
    }
  }

  static std::optional<NcclTiming> read_timing(const Json* timing, std::string& fault) {
    if (timing == nullptr || timing->is_null()) {
      return std::nullopt;
    }
    if (find(*timing, "cpu_time") != nullptr) {
      fault = "the times are those of the processor that launches, not of the collective";
      return std::nullopt;
    }
    NcclTiming read;
    const auto number = [&](const char* key) {
      const Json* value = find(*timing, key);
      if (value == nullptr || !value->is_number() || !(value->get<double>() >= 0)) {
        fault = fmt::format("{} is missing or no number", key);
        return PrintedNumber{};
      }
      return printed_with_decimals(value->get<double>(), kPrintedDecimals);
    };
    read.time_us = number("time");
    read.algorithm_bandwidth = number("alg_bw");
    read.bus_bandwidth = number("bus_bw");
    const Json* wrong = find(*timing, "nwrong");
    if (wrong == nullptr || (!wrong->is_null() && !wrong->is_number())) {
      fault = "nwrong is missing or no number";
    } else if (wrong->is_number()) {
      read.check = wrong->get<double>() == 0 ? DataCheck::right : DataCheck::wrong;
    }
    return read;
  }

  void refuse_row(const std::string& name, const std::string& reason) {
    log_.refuse({{.file = file_}, fmt::format("{}: {}", name, reason), {}}, 1);
  }

  const std::string& file_;
  const Statements& statements_;
  ImportedLog log_;
  NcclTable table_;
};

}  // namespace

bool looks_like_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

ImportedLog read_nccl_tests_json(std::string_view text,
                                 const std::string& file,
                                 const Statements& statements) {
  return JsonReader(file, statements).read(text);
}

}  // namespace trireme::calibrate
