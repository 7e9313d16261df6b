#include "sim/report/verification.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/csv.h"
#include "sim/report/numbers.h"

namespace trireme::report {

using ledger::Counted;
using ledger::PlanVerification;
using ledger::Quantity;
using ledger::VerificationResult;
using ledger::VerificationVerdict;
using Json = nlohmann::ordered_json;

namespace {

bool was_executed(const PlanVerification& row) {
  return row.verdict != VerificationVerdict::illegal;
}

std::string error_text(const PlanVerification& row, Quantity quantity) {
  return was_executed(row) ? fmt::format("{:.0e}", row.error[ledger::index(quantity)].relative)
                           : "-";
}

/// "17,540 = ledger", or both where they differ.
std::string counted_text(const PlanVerification& row, const Counted& bytes) {
  if (!was_executed(row)) {
    return "-";
  }
  const std::string executed = with_thousands(static_cast<double>(bytes.executed.value()));
  return bytes.equal() ? executed + " = ledger"
                       : fmt::format("{}, ledger {}",
                                     executed,
                                     with_thousands(static_cast<double>(bytes.ledger.value())));
}

/// Null for infinity, the error of what is no number.
Json error_value(double relative) {
  return std::isfinite(relative) ? Json(nine_digits(relative)) : Json(nullptr);
}

Json counted_object(const PlanVerification& row, const Counted& bytes) {
  Json object;
  object["counted"] = was_executed(row) ? Json(bytes.executed.value()) : Json(nullptr);
  object["ledger"] = was_executed(row) ? Json(bytes.ledger.value()) : Json(nullptr);
  return object;
}

Json operation_object(const ledger::TracedOperation& operation) {
  Json object;
  object["phase"] = operation.phase;
  object["component"] = operation.component;
  object["operation"] = operation.label;
  object["function"] = operation.function;
  object["count"] = operation.times;
  object["tensors"] = operation.operands;
  return object;
}

/// Its members are null where no step was timed.
Json step_time_object(const PlanVerification& row) {
  const auto seconds = [&](Seconds ledger::StepTiming::*part) {
    return row.step_time ? Json(nine_digits(((*row.step_time).*part).value())) : Json(nullptr);
  };
  Json object;
  object["median"] = seconds(&ledger::StepTiming::median);
  object["lower_quartile"] = seconds(&ledger::StepTiming::lower_quartile);
  object["upper_quartile"] = seconds(&ledger::StepTiming::upper_quartile);
  object["steps"] = row.step_time ? Json(row.step_time->steps) : Json(nullptr);
  return object;
}

Json row_object(const PlanVerification& row, bool with_time) {
  const bool executed = was_executed(row);
  Json object;
  object["plan"] = row.plan;
  object["verdict"] = name(row.verdict);
  object["model"] = executed ? Json(row.model) : Json(nullptr);
  object["ranks"] = executed ? Json(row.ranks) : Json(nullptr);
  object["steps"] = executed ? Json(row.steps) : Json(nullptr);
  for (std::size_t i = 0; i < row.error.size(); ++i) {
    const std::string quantity(ledger::kQuantityNames[i]);
    object["errors"][quantity] = executed ? error_value(row.error[i].relative) : Json(nullptr);
    object["worst_tensors"][quantity] = executed ? Json(row.error[i].tensor) : Json(nullptr);
  }
  Json& sent = object["sent_bytes_per_rank"];
  sent["total"] = counted_object(row, row.sent);
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    sent["by_collective"][std::string(kCollectiveNames[i])] =
        counted_object(row, row.sent_by_collective[i]);
  }
  object["peak_memory_bytes"] = counted_object(row, row.peak);
  object["host_memory_bytes"] = counted_object(row, row.host_peak);
  if (with_time) {
    for (std::size_t i = 0; i < kPhaseNames.size(); ++i) {
      object["wall_clock_seconds"][std::string(kPhaseNames[i])] =
          executed ? Json(nine_digits(row.wall_clock[i].value())) : Json(nullptr);
    }
    object["step_time_seconds"] = step_time_object(row);
  }
  object["messages"] = row.messages;
  if (!row.trace.empty()) {
    for (const ledger::TracedOperation& operation : row.trace) {
      object["operations"].push_back(operation_object(operation));
    }
  }
  return object;
}

/// Numbers under their paths, such as "errors.output"; lists are left out.
void flatten(const Json& value,
             const std::string& path,
             std::vector<std::string>& names,
             std::vector<std::string>& cells) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      flatten(inner, path.empty() ? key : path + '.' + key, names, cells);
    }
  } else if (!value.is_array()) {
    names.push_back(path);
    cells.push_back(value.is_null()     ? std::string()
                    : value.is_string() ? value.get<std::string>()
                                        : value.dump());
  }
}

}  // namespace

Table verification_table(const VerificationResult& result) {
  Table table;
  table.columns = {{"plan", Align::left},
                   {"verdict", Align::left},
                   {"output", Align::right},
                   {"input gradient", Align::right},
                   {"gradients", Align::right},
                   {"parameters", Align::right},
                   {"loss", Align::right},
                   {"sent bytes per rank", Align::right},
                   {"peak bytes", Align::right}};
  const bool with_host =
      std::any_of(result.rows.begin(), result.rows.end(), [](const PlanVerification& row) {
        return row.host_peak.ledger > Bytes(0);
      });
  if (with_host) {
    table.columns.push_back({"host's peak bytes", Align::right});
  }
  for (const PlanVerification& row : result.rows) {
    std::vector<std::string> cells = {row.plan,
                                      std::string(name(row.verdict)),
                                      error_text(row, Quantity::output),
                                      error_text(row, Quantity::input_gradient),
                                      error_text(row, Quantity::gradients),
                                      error_text(row, Quantity::parameters),
                                      error_text(row, Quantity::loss),
                                      counted_text(row, row.sent),
                                      counted_text(row, row.peak)};
    if (with_host) {
      cells.push_back(counted_text(row, row.host_peak));
    }
    table.add(std::move(cells));
  }
  return table;
}

Table wall_clock_table(const VerificationResult& result) {
  Table table;
  table.columns = {{"plan", Align::left}};
  for (const std::string_view phase : kPhaseNames) {
    table.columns.push_back({std::string(phase), Align::right});
  }
  table.columns.push_back({"step", Align::right});
  table.columns.push_back({"repeated, median", Align::right});
  table.columns.push_back({"quartiles", Align::right});
  for (const PlanVerification& row : result.rows) {
    if (!was_executed(row)) {
      continue;
    }
    std::vector<std::string> cells = {row.plan};
    Seconds step;
    for (const Seconds phase : row.wall_clock) {
      cells.push_back(human(phase));
      step += phase;
    }
    cells.push_back(human(step));
    cells.push_back(row.step_time ? human(row.step_time->median) : "-");
    cells.push_back(row.step_time ? fmt::format("{} to {} of {}",
                                                human(row.step_time->lower_quartile),
                                                human(row.step_time->upper_quartile),
                                                row.step_time->steps)
                                  : "-");
    table.add(std::move(cells));
  }
  return table;
}

std::string trace_text(const PlanVerification& plan) {
  std::string text = fmt::format("{}: {}\n", plan.plan, plan.model);
  for (const ledger::TracedOperation& operation : plan.trace) {
    text += fmt::format("{}, {}: {} ({}){}\n",
                        operation.phase,
                        operation.component,
                        operation.label,
                        operation.function,
                        operation.times == 1 ? "" : fmt::format(", {} times", operation.times));
    for (const std::string& operand : operation.operands) {
      text += "    " + operand + '\n';
    }
  }
  return text;
}

std::string to_json(const VerificationResult& result, bool with_time) {
  Json document;
  document["schema_version"] = 1;
  document["command"] = "verify";
  document["study"] = result.study;
  document["transport"] = result.transport;
  document["tolerance"] = result.tolerance;
  document["rows"] = Json::array();
  for (const PlanVerification& row : result.rows) {
    document["rows"].push_back(row_object(row, with_time));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_csv(const VerificationResult& result) {
  std::string text;
  for (const PlanVerification& row : result.rows) {
    std::vector<std::string> names;
    std::vector<std::string> cells;
    flatten(row_object(row, false), {}, names, cells);
    if (text.empty()) {
      text += csv_line(names);
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace trireme::report
