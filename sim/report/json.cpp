#include "sim/report/json.h"

#include <array>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/csv.h"
#include "sim/report/numbers.h"
#include "sim/report/study_tables.h"

namespace trireme::report {

using ledger::ByteLedger;
using ledger::PlanResult;
using ledger::PointValue;
using Json = nlohmann::ordered_json;

namespace {

/// The components under which a traffic is reported; booked under another, it would vanish.
constexpr std::array kActivationComponents = {Component::attention,
                                              Component::mlp,
                                              Component::norm,
                                              Component::embedding,
                                              Component::head,
                                              Component::loss,
                                              Component::pipeline,
                                              Component::moe};
constexpr std::array kParameterComponents = {
    Component::attention, Component::mlp, Component::norm, Component::embedding, Component::head};

std::string text_of(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

Json number(double value) {
  return nine_digits(value);
}

template <class Value>
Json to_json_value(const Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<Held, double>) {
          return number(held);
        } else {
          return held;
        }
      },
      value);
}

template <std::size_t N>
Json by_name(const std::array<std::string_view, N>& names, const std::array<Bytes, N>* amounts) {
  Json object;
  for (std::size_t i = 0; i < N; ++i) {
    object[std::string(names[i])] =
        amounts == nullptr ? Json(nullptr) : Json((*amounts)[i].value());
  }
  return object;
}

/// Seconds that computing waits for each collective; null where that is not known.
Json exposed_by_collective(const ledger::StepResult* step) {
  Json object;
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    object[std::string(kCollectiveNames[i])] =
        step != nullptr && step->exposed_is_split
            ? number(step->time.exposed_by_collective[i].value())
            : Json(nullptr);
  }
  return object;
}

Json reader_object(const std::optional<ledger::TimeLedger>* time) {
  const bool known = time != nullptr && time->has_value();
  return {{"step_time_seconds", known ? number((*time)->step.value()) : Json(nullptr)},
          {"exposed_communication_seconds",
           known ? number((*time)->exposed_communication.value()) : Json(nullptr)}};
}

/// Quantiles of the step over the runs of a jitter; null without one.
Json distribution_object(const ledger::StepResult* step) {
  const ledger::StepDistribution* found =
      step != nullptr && step->distribution ? &*step->distribution : nullptr;
  const auto seconds = [&](Seconds ledger::StepDistribution::*which) {
    return found == nullptr ? Json(nullptr) : number((found->*which).value());
  };
  return {{"runs", found == nullptr ? Json(nullptr) : Json(found->steps.size())},
          {"mean", seconds(&ledger::StepDistribution::mean)},
          {"p05", seconds(&ledger::StepDistribution::quantile_05)},
          {"p50", seconds(&ledger::StepDistribution::median)},
          {"p95", seconds(&ledger::StepDistribution::quantile_95)},
          {"longest", seconds(&ledger::StepDistribution::longest)}};
}

template <std::size_t N>
Json by_component(const ByteLedger* bytes,
                  Traffic traffic,
                  const std::array<Component, N>& components) {
  Json object;
  Bytes listed;
  for (const Component component : components) {
    Json& value = object[std::string(name(component))];
    if (bytes != nullptr) {
      const Bytes sent = bytes->sent_by_traffic[ledger::index(traffic)][ledger::index(component)];
      listed += sent;
      value = sent.value();
    }
  }
  if (bytes != nullptr) {
    Bytes all;
    for (const Bytes sent : bytes->sent_by_traffic[ledger::index(traffic)]) {
      all += sent;
    }
    ensure(listed == all, "report: bytes are booked under a component that is not reported");
  }
  return object;
}

Json sent_bytes(const ByteLedger* bytes) {
  Json sent;
  sent["total"] = bytes == nullptr ? Json(nullptr) : Json(bytes->sent.value());
  sent["received"] = bytes == nullptr ? Json(nullptr) : Json(bytes->received.value());
  sent["by_phase"] = by_name(kPhaseNames, bytes == nullptr ? nullptr : &bytes->sent_by_phase);
  sent["activations"] = by_component(bytes, Traffic::activations, kActivationComponents);
  sent["gradients"] = by_component(bytes, Traffic::gradients, kParameterComponents);
  sent["parameters"] = by_component(bytes, Traffic::parameters, kParameterComponents);
  Json& optimizer = sent["optimizer"];
  if (bytes != nullptr) {
    Bytes all;
    for (const Bytes amount : bytes->sent_by_traffic[ledger::index(Traffic::optimizer)]) {
      all += amount;
    }
    optimizer = all.value();
  }
  sent["by_collective"] =
      by_name(kCollectiveNames, bytes == nullptr ? nullptr : &bytes->sent_by_collective);
  sent["by_link"] = by_name(kLinkNames, bytes == nullptr ? nullptr : &bytes->sent_by_link);
  return sent;
}

Json peak_memory(const ledger::PlanNumbers* numbers) {
  const ledger::MemoryLedger* memory = numbers == nullptr ? nullptr : &numbers->memory;
  const auto of_device = [&](auto bytes_of) {
    return numbers == nullptr ? Json(nullptr) : Json(bytes_of(numbers->device).value());
  };
  Json peak;
  peak["allocated"] = memory == nullptr ? Json(nullptr) : Json(memory->allocated.value());
  peak["reserved"] = of_device([](const auto& d) { return d.reserved; });
  peak["reserved_low"] = of_device([](const auto& d) { return d.reserved_low; });
  peak["reserved_high"] = of_device([](const auto& d) { return d.reserved_high; });
  peak["outside"] =
      by_name(ledger::kOutsideItemNames, numbers == nullptr ? nullptr : &numbers->device.outside);
  peak["device"] = of_device([](const auto& d) { return d.total(); });
  peak["instant"] = memory == nullptr ? Json(nullptr) : Json(memory->instant);
  peak["by_item"] = by_name(kMemoryItemNames, memory == nullptr ? nullptr : &memory->by_item);
  return peak;
}

Json host_memory(const ledger::PlanNumbers* numbers) {
  const ledger::HostMemory* host = numbers == nullptr ? nullptr : &numbers->host;
  const bool used = host != nullptr && !host->instant.empty();
  return {{"per_rank", host == nullptr ? Json(nullptr) : Json(host->per_rank.value())},
          {"per_node", host == nullptr ? Json(nullptr) : Json(host->per_node.value())},
          {"capacity",
           host != nullptr && host->capacity ? Json(host->capacity->value()) : Json(nullptr)},
          {"instant", used ? Json(host->instant) : Json(nullptr)},
          {"by_item", by_name(kMemoryItemNames, host == nullptr ? nullptr : &host->by_item)}};
}

Json host_copies(const ledger::PlanNumbers* numbers) {
  return {
      {"to_host", numbers == nullptr ? Json(nullptr) : Json(numbers->bytes.to_host.value())},
      {"to_device", numbers == nullptr ? Json(nullptr) : Json(numbers->bytes.to_device.value())}};
}

Json lever_object(const std::optional<ledger::Lever>& lever) {
  return {{"change", lever ? Json(lever->change) : Json(nullptr)},
          {"saves_bytes", lever ? Json(lever->saves.value()) : Json(nullptr)},
          {"verdict", lever ? Json(name(lever->verdict)) : Json(nullptr)}};
}

Json point_object(const std::vector<PointValue>& point) {
  Json object = Json::object();
  for (const PointValue& value : point) {
    object[value.key] = to_json_value(value.value);
  }
  return object;
}

Json row_object(const PlanResult& row, bool with_law = false) {
  const ledger::PlanNumbers* numbers = row.numbers ? &*row.numbers : nullptr;
  const ledger::StepResult* step = numbers != nullptr && numbers->step ? &*numbers->step : nullptr;
  const auto of_step = [&](auto value_of) {
    return step == nullptr ? Json(nullptr) : number(value_of(*step));
  };
  Json object;
  object["plan"] = row.plan;
  object["point"] = point_object(row.point);
  object["verdict"] = name(row.verdict);
  object["reasons"] = reasons_of(row);
  object["what_if"] = row.what_if;
  object["rank_class"] = numbers == nullptr ? Json(nullptr) : Json(row.rank_class);
  object["sent_bytes_per_rank"] = sent_bytes(numbers == nullptr ? nullptr : &numbers->bytes);
  object["host_copy_bytes_per_rank"] = host_copies(numbers);
  object["peak_memory_bytes"] = peak_memory(numbers);
  object["host_memory_bytes"] = host_memory(numbers);
  object["capacity_bytes"] = row.capacity.value();
  object["next_lever"] = lever_object(row.next_lever);
  object["step_time_seconds"] = of_step([](const auto& s) { return s.time.step.value(); });
  object["step_time_band"] = step == nullptr || !row.band
                                 ? Json(nullptr)
                                 : Json::array({number(row.band->low * step->time.step.value()),
                                                number(row.band->high * step->time.step.value())});
  if (with_law) {
    object["law_seconds"] = row.law ? number(row.law->value()) : Json(nullptr);
  }
  object["exposed_communication_seconds"] =
      of_step([](const auto& s) { return s.time.exposed_communication.value(); });
  object["exposed_seconds_by_collective"] = exposed_by_collective(step);
  object["pipeline_bubble_seconds"] =
      of_step([](const auto& s) { return s.time.pipeline_bubble.value(); });
  object["exposed_host_copy_seconds"] =
      of_step([](const auto& s) { return s.time.exposed_host_copy.value(); });
  object["exposed_launch_seconds"] =
      of_step([](const auto& s) { return s.time.exposed_launch.value(); });
  object["step_time_distribution"] = distribution_object(step);
  object["by_engine"] = {
      {"analytic", reader_object(numbers == nullptr ? nullptr : &numbers->by_reader.analytic)},
      {"event", reader_object(numbers == nullptr ? nullptr : &numbers->by_reader.event)}};
  object["tokens_per_second_per_gpu"] =
      of_step([](const auto& s) { return s.tokens_per_second_per_gpu; });
  object["mfu"] = of_step([](const auto& s) { return s.mfu; });
  object["mfu_full_attention"] = of_step([](const auto& s) { return s.mfu_full_attention; });
  object["hfu"] = of_step([](const auto& s) { return s.hfu; });
  object["bound_by"] = step == nullptr ? Json(nullptr) : Json(name(step->bound_by));
  return object;
}

/// Appends (path, text) of every field below `value`; a list is one cell.
void flatten(const Json& value,
             const std::string& path,
             std::vector<std::pair<std::string, std::string>>& fields) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      flatten(child, path.empty() ? key : path + '.' + key, fields);
    }
    return;
  }
  std::string text;
  if (value.is_array()) {
    for (const Json& item : value) {
      text +=
          (text.empty() ? "" : "; ") + (item.is_string() ? item.get<std::string>() : item.dump());
    }
  } else if (value.is_string()) {
    text = value.get<std::string>();
  } else if (!value.is_null()) {
    text = value.dump();
  }
  fields.emplace_back(path, text);
}

Json trends_of(const ledger::StudyResult& result) {
  Json crossovers = Json::array();
  for (const ledger::Crossover& crossing : result.crossovers) {
    crossovers.push_back({{"key", crossing.key},
                          {"at", number(crossing.at)},
                          {"faster_below", crossing.below},
                          {"faster_above", crossing.above}});
  }
  return crossovers;
}

Json too_close_of(const ledger::StudyResult& result) {
  Json close = Json::array();
  for (const ledger::TooClose& pair : result.too_close) {
    close.push_back({{"point", pair.point},
                     {"fastest", pair.fastest},
                     {"plan", pair.plan},
                     {"difference", number(pair.difference)},
                     {"median_error", number(pair.band.median_error)}});
  }
  return close;
}

Json walls_of(const ledger::StudyResult& result) {
  const auto value_or_null = [](const std::optional<PointValue>& point) {
    return point ? to_json_value(point->value) : Json(nullptr);
  };
  Json walls = Json::array();
  for (const ledger::MemoryWall& wall : result.walls) {
    walls.push_back({{"plan", wall.plan},
                     {"key", wall.key},
                     {"last_that_fits", value_or_null(wall.last_that_fits)},
                     {"first_tight", value_or_null(wall.first_tight)},
                     {"first_that_does_not", value_or_null(wall.first_that_does_not)}});
  }
  return walls;
}

Json term_object(const ledger::Term& term) {
  const auto text_or_null = [](std::string_view text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json object;
  object["quantity"] = name(term.quantity);
  object["phase"] = text_or_null(term.phase);
  object["component"] = term.component;
  object["collective"] = text_or_null(term.collective);
  object["traffic"] = text_or_null(term.traffic);
  object["item"] = text_or_null(term.item);
  object["operation"] = text_or_null(term.operation);
  object["tensor"] = term.tensor;
  object["count"] = term.count;
  object["value"] = to_json_value(term.value);
  object["equation"] = term.equation;
  object["formula"] = term.formula;
  object["numbers"] = Json::object();
  for (const ledger::TermNumber& put_in : term.numbers) {
    object["numbers"][std::string(put_in.name)] = to_json_value(put_in.value);
  }
  object["source"] = term.source;
  if (!term.nccl_choice.empty()) {
    object["nccl_choice"] = term.nccl_choice;
  }
  return object;
}

Json critical_path_object(const std::optional<ledger::CriticalPath>& path) {
  if (!path) {
    return nullptr;
  }
  const auto seconds_or_null = [](const std::optional<Seconds>& time) {
    return time ? number(time->value()) : Json(nullptr);
  };
  Json terms = Json::array();
  for (const ledger::CriticalTerm& term : path->terms) {
    terms.push_back({{"work", name(term.work)},
                     {"component", term.component ? Json(name(*term.component)) : Json(nullptr)},
                     {"operations", term.executions},
                     {"seconds", number(term.on_path.value())},
                     {"step_seconds_at_half", seconds_or_null(term.step_at_half)},
                     {"step_seconds_without", seconds_or_null(term.step_without)}});
  }
  return {{"step_seconds", number(path->step.value())},
          {"launch_seconds", number(path->launch.value())},
          {"terms", std::move(terms)}};
}

Json grid_object(const ledger::OwnerGrid& grid) {
  return {{"tensor", grid.tensor},
          {"shape", grid.symbols},
          {"columns", grid.columns},
          {"partial", grid.partial},
          {"owners", grid.owners}};
}

}  // namespace

std::string to_json(const ledger::StudyResult& result, std::string_view command) {
  Json document;
  document["schema_version"] = 1;
  document["command"] = command;
  document["study"] = result.name;
  document["profile"] = result.profile;
  document["engine"] = name(result.engine);
  if (!result.law.empty()) {
    document["law"] = result.law;
  }
  document["rows"] = Json::array();
  for (const PlanResult& row : result.rows) {
    document["rows"].push_back(row_object(row, !result.law.empty()));
  }
  document["too_close_to_call"] = too_close_of(result);
  document["failed_requirements"] = Json::array();
  for (const ledger::FailedRequirement& failed : result.failed) {
    document["failed_requirements"].push_back({{"plan", failed.plan},
                                               {"point", point_object(failed.point)},
                                               {"message", sentence(failed)}});
  }
  if (command == "sweep") {
    document["crossovers"] = trends_of(result);
    document["memory_walls"] = walls_of(result);
  }
  return text_of(document);
}

std::string to_csv(const ledger::StudyResult& result) {
  std::string text;
  std::vector<std::string> names;
  for (const PlanResult& row : result.rows) {
    std::vector<std::pair<std::string, std::string>> fields;
    flatten(row_object(row, !result.law.empty()), "", fields);
    std::vector<std::string> titles;
    std::vector<std::string> cells;
    for (auto& [path, cell] : fields) {
      titles.push_back(path);
      cells.push_back(cell);
    }
    if (titles != names) {  // rows of a list of maps may sweep different keys
      names = titles;
      text += csv_line(names);
    }
    text += csv_line(cells);
  }
  return text;
}

std::string to_json(const ledger::Explanation& explanation) {
  Json document;
  document["schema_version"] = 1;
  document["command"] = "explain";
  document["study"] = explanation.study;
  document["profile"] = explanation.profile;
  document["plan"] = explanation.result.plan;
  document["row"] = row_object(explanation.result);
  document["critical_path"] = critical_path_object(explanation.critical_path);
  document["terms"] = Json::array();
  for (const ledger::Term& term : explanation.terms) {
    document["terms"].push_back(term_object(term));
  }
  document["memory"] = Json::array();
  for (const ledger::MemoryEntry& entry : explanation.memory) {
    document["memory"].push_back({{"item", name(entry.item)},
                                  {"tensor", entry.tensor},
                                  {"shape", entry.shape_symbols},
                                  {"shape_in_numbers", entry.shape_numbers},
                                  {"type", name(entry.type)},
                                  {"instances", entry.instances},
                                  {"bytes", entry.bytes.value()}});
  }
  document["shapes"] = Json::array();
  for (const ledger::ShapeStep& step : explanation.shapes) {
    document["shapes"].push_back(
        {{"operation", step.operation},
         {"collective", step.collective.empty() ? Json(nullptr) : Json(step.collective)},
         {"tensor", step.tensor},
         {"shape", step.symbols},
         {"shape_in_numbers", step.numbers}});
  }
  document["owners"] = Json::array();
  for (const ledger::OwnerChange& change : explanation.owners) {
    document["owners"].push_back({{"operation", change.operation},
                                  {"collective", change.collective},
                                  {"ranks", explanation.owner_ranks},
                                  {"before", grid_object(change.before)},
                                  {"after", grid_object(change.after)}});
  }
  return text_of(document);
}

std::string to_csv(const ledger::Explanation& explanation) {
  std::string text = csv_line({"quantity",
                               "phase",
                               "component",
                               "collective",
                               "operation",
                               "tensor",
                               "count",
                               "value",
                               "equation",
                               "formula",
                               "numbers",
                               "source",
                               "nccl_choice"});
  for (const ledger::Term& term : explanation.terms) {
    std::string numbers;
    for (const ledger::TermNumber& put_in : term.numbers) {
      numbers += fmt::format("{}{} = {}",
                             numbers.empty() ? "" : "; ",
                             put_in.name,
                             to_json_value(put_in.value).dump());
    }
    const Json value = to_json_value(term.value);
    text += csv_line({std::string(name(term.quantity)),
                      std::string(term.phase),
                      std::string(term.component),
                      std::string(term.collective),
                      std::string(term.operation),
                      term.tensor,
                      std::to_string(term.count),
                      value.is_null() ? "" : value.dump(),
                      std::string(term.equation),
                      std::string(term.formula),
                      numbers,
                      std::string(term.source),
                      term.nccl_choice});
  }
  return text;
}

}  // namespace trireme::report
