#include "sim/report/memory_over_step.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/csv.h"
#include "sim/report/memory_words.h"
#include "sim/report/numbers.h"
#include "sim/report/table.h"

namespace trireme::report {

using ledger::MemoryInstant;
using Json = nlohmann::ordered_json;

namespace {

std::string index_text(const std::optional<std::int64_t>& index) {
  return index ? std::to_string(*index) : std::string();
}

/// Instants one behind the other in the same phase, component and iteration.
struct Stretch {
  const MemoryInstant* first = nullptr;
  const MemoryInstant* highest = nullptr;
  const MemoryInstant* last = nullptr;
};

auto place(const MemoryInstant& at) {
  return std::tie(at.phase, at.component, at.micro_batch, at.layer);
}

std::vector<Stretch> stretches(const std::vector<MemoryInstant>& instants) {
  std::vector<Stretch> found;
  for (const MemoryInstant& at : instants) {
    if (found.empty() || place(*found.back().first) != place(at)) {
      found.push_back({&at, &at, &at});
      continue;
    }
    Stretch& stretch = found.back();
    stretch.last = &at;
    if (at.allocated > stretch.highest->allocated) {
      stretch.highest = &at;
    }
  }
  return found;
}

/// Whether a stretch is of an iteration between the first and the last of its loops, and not where
/// memory is fullest.
class Middle {
 public:
  explicit Middle(const std::vector<MemoryInstant>& instants) {
    for (const MemoryInstant& at : instants) {
      layers_ = std::max(layers_, at.layer.value_or(0));
      micro_batches_ = std::max(micro_batches_, at.micro_batch.value_or(0));
    }
  }

  [[nodiscard]] bool operator()(const Stretch& stretch) const {
    const auto inside = [](const std::optional<std::int64_t>& index, std::int64_t last) {
      return index && *index > 0 && *index < last;
    };
    return inside(stretch.first->layer, layers_) ||
           inside(stretch.first->micro_batch, micro_batches_);
  }

 private:
  std::int64_t layers_ = 0;
  std::int64_t micro_batches_ = 0;
};

Table stretch_table(const ledger::MemoryOverStep& memory) {
  Table table;
  table.columns = {{"phase", Align::left},
                   {"micro batch", Align::right},
                   {"layer", Align::right},
                   {"block", Align::left},
                   {"highest GiB", Align::right},
                   {"at", Align::left},
                   {"saved GiB", Align::right}};
  const bool with_host = memory.host.per_rank > Bytes(0);
  if (with_host) {
    table.columns.push_back({"host GiB", Align::right});
  }
  table.columns.push_back({"", Align::left});
  const Middle middle(memory.instants);
  bool left_out = false;
  for (const Stretch& stretch : stretches(memory.instants)) {
    const MemoryInstant& at = *stretch.highest;
    const bool peak = at.allocated == memory.peak.allocated;
    if (middle(stretch) && !peak) {
      left_out = true;
      continue;
    }
    if (left_out) {
      std::vector<std::string> gap(table.columns.size());
      gap.front() = "...";
      table.add(std::move(gap));
      left_out = false;
    }
    std::vector<std::string> cells = {
        std::string(name(at.phase)),
        index_text(at.micro_batch),
        index_text(at.layer),
        std::string(name(at.component)),
        gibibytes(at.allocated),
        std::string(at.operation),
        gibibytes(at.by_item[ledger::index(MemoryItem::saved_activations)])};
    if (with_host) {
      cells.push_back(gibibytes(at.on_host));
    }
    cells.emplace_back(peak ? "<- peak" : "");
    table.add(std::move(cells));
  }
  return table;
}

Table peak_table(const ledger::MemoryOverStep& memory) {
  Table table;
  table.columns = {{"item", Align::left},
                   {"tensor", Align::left},
                   {"shape", Align::left},
                   {"instances", Align::right},
                   {"GiB", Align::right}};
  constexpr std::size_t kMostRows = 16;
  Bytes others;
  for (std::size_t i = 0; i < memory.at_peak.size(); ++i) {
    const ledger::MemoryEntry& entry = memory.at_peak[i];
    if (i >= kMostRows) {
      others += entry.bytes;
      continue;
    }
    table.add({words(name(entry.item)),
               entry.tensor,
               entry.shape_symbols,
               std::to_string(entry.instances),
               gibibytes(entry.bytes)});
  }
  if (others > Bytes(0)) {
    table.add({"",
               fmt::format("{} smaller tensors", memory.at_peak.size() - kMostRows),
               "",
               "",
               gibibytes(others)});
  }
  return table;
}

Table device_table(const ledger::MemoryOverStep& memory) {
  Table table;
  table.columns = {{"on the GPU", Align::left}, {"GiB", Align::right}};
  table.add({"allocated", gibibytes(memory.peak.allocated)});
  table.add({"reserved beyond it",
             fmt::format("{}-{}",
                         gibibytes(memory.device.reserved_low - memory.peak.allocated),
                         gibibytes(memory.device.reserved_high - memory.peak.allocated))});
  for (std::size_t i = 0; i < ledger::kOutsideItemNames.size(); ++i) {
    if (memory.device.outside[i] > Bytes(0)) {
      table.add({words(ledger::kOutsideItemNames[i]), gibibytes(memory.device.outside[i])});
    }
  }
  table.add({"all", range_in_gibibytes(memory.device)});
  table.add({"capacity", gibibytes(memory.capacity)});
  return table;
}

Table host_table(const ledger::HostMemory& host) {
  Table table;
  table.columns = {{"on the host", Align::left}, {"GiB", Align::right}};
  for (std::size_t i = 0; i < host.by_item.size(); ++i) {
    if (host.by_item[i] > Bytes(0)) {
      table.add({words(kMemoryItemNames[i]), gibibytes(host.by_item[i])});
    }
  }
  table.add({"a rank's peak", gibibytes(host.per_rank)});
  table.add({"all ranks of a node", gibibytes(host.per_node)});
  table.add({"a node's memory", host.capacity ? gibibytes(*host.capacity) : "not stated"});
  return table;
}

Json by_item(const ledger::PerItem<Bytes>& amounts) {
  Json object;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    object[std::string(kMemoryItemNames[i])] = amounts[i].value();
  }
  return object;
}

}  // namespace

std::string to_terminal(const ledger::MemoryOverStep& memory, bool color) {
  if (memory.verdict == ledger::Verdict::illegal) {
    return fmt::format("{} is illegal\n", memory.plan);
  }
  std::string text = to_terminal(stretch_table(memory), color);
  text += fmt::format(
      "\nAt the peak: {}\n\n{}", memory.peak.instant, to_terminal(peak_table(memory), color));
  text += fmt::format("\n{}: {}\n\n{}",
                      memory.plan,
                      words(name(memory.verdict)),
                      to_terminal(device_table(memory), color));
  if (memory.host.per_rank > Bytes(0)) {
    text += '\n' + to_terminal(host_table(memory.host), color);
  }
  return text;
}

std::string to_json(const ledger::MemoryOverStep& memory) {
  const auto or_null = [](const std::optional<std::int64_t>& index) {
    return index ? Json(*index) : Json(nullptr);
  };
  Json document;
  document["schema_version"] = 1;
  document["command"] = "memory";
  document["study"] = memory.study;
  document["plan"] = memory.plan;
  document["verdict"] = name(memory.verdict);
  document["refusals"] = memory.refusals;
  document["capacity_bytes"] = memory.capacity.value();
  const bool legal = memory.verdict != ledger::Verdict::illegal;
  const auto bytes_or_null = [&](Bytes bytes) {
    return legal ? Json(bytes.value()) : Json(nullptr);
  };
  document["peak"] = {{"allocated", bytes_or_null(memory.peak.allocated)},
                      {"resident", bytes_or_null(memory.peak.resident)},
                      {"reserved_low", bytes_or_null(memory.device.reserved_low)},
                      {"reserved_high", bytes_or_null(memory.device.reserved_high)},
                      {"outside", bytes_or_null(memory.device.outside_allocator())},
                      {"instant", legal ? Json(memory.peak.instant) : Json(nullptr)}};
  const bool capacity = legal && memory.host.capacity.has_value();
  document["host"] = {{"per_rank", bytes_or_null(memory.host.per_rank)},
                      {"per_node", bytes_or_null(memory.host.per_node)},
                      {"capacity", capacity ? Json(memory.host.capacity->value()) : Json(nullptr)}};
  document["instants"] = Json::array();
  for (const MemoryInstant& at : memory.instants) {
    document["instants"].push_back({{"phase", name(at.phase)},
                                    {"micro_batch", or_null(at.micro_batch)},
                                    {"layer", or_null(at.layer)},
                                    {"chunk", or_null(at.chunk)},
                                    {"component", name(at.component)},
                                    {"operation", at.operation},
                                    {"allocated", at.allocated.value()},
                                    {"by_item", by_item(at.by_item)},
                                    {"on_host", at.on_host.value()}});
  }
  document["at_peak"] = Json::array();
  for (const ledger::MemoryEntry& entry : memory.at_peak) {
    document["at_peak"].push_back({{"item", name(entry.item)},
                                   {"tensor", entry.tensor},
                                   {"shape", entry.shape_symbols},
                                   {"instances", entry.instances},
                                   {"bytes", entry.bytes.value()}});
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_csv(const ledger::MemoryOverStep& memory) {
  std::vector<std::string> titles = {
      "phase", "micro_batch", "layer", "chunk", "component", "operation", "allocated"};
  for (const std::string_view item : kMemoryItemNames) {
    titles.emplace_back(item);
  }
  titles.emplace_back("on_host");
  std::string text = csv_line(titles);
  for (const MemoryInstant& at : memory.instants) {
    std::vector<std::string> cells = {std::string(name(at.phase)),
                                      index_text(at.micro_batch),
                                      index_text(at.layer),
                                      index_text(at.chunk),
                                      std::string(name(at.component)),
                                      std::string(at.operation),
                                      std::to_string(at.allocated.value())};
    for (const Bytes bytes : at.by_item) {
      cells.push_back(std::to_string(bytes.value()));
    }
    cells.push_back(std::to_string(at.on_host.value()));
    text += csv_line(cells);
  }
  return text;
}

}  // namespace trireme::report
