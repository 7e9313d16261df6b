// What a validation case may ask of a plan: one row per quantity.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/config/study_spec.h"
#include "sim/core/vocabulary.h"
#include "sim/ledger/ledger.h"
#include "sim/ledger/result.h"
#include "sim/ledger/validation.h"

namespace trireme::validation {

/// The part of a ledger that is summed; an empty list stands for all of it.
struct Selection {
  std::vector<Phase> phases;
  std::vector<Traffic> traffic;
  std::vector<Component> components;
  std::vector<MemoryItem> items;
};

/// A legal plan's ledgers at one point.
struct PlanLedgers {
  ledger::PlanResult result;
  std::vector<ledger::ByteEntry> bytes;  // of the rank that sends most
  std::vector<ledger::TimeEntry> time;
};

/// Evaluates a plan and keeps the entries behind its totals. Those are empty for an illegal plan.
[[nodiscard]] PlanLedgers read_ledgers(const config::StudySpec& study,
                                       const config::PlanSpec& plan);

struct Quantity {
  std::string_view name;
  std::string_view description;
  ledger::Dimension dimension;
  ledger::Topic topic;
  /// In base units; empty when it is not known. Null for what compares two plans over a sweep.
  std::optional<double> (*of_plan)(const PlanLedgers& plan, const Selection& selection);
  bool selects_bytes;  // phase, traffic and component narrow it
  bool selects_items;  // items of memory narrow it
  /// Of all the file's cases of a role; null for what is asked of a plan.
  std::optional<double> (*of_set)(std::span<const ledger::ValidationRow* const> runs) = nullptr;
  /// In the place of of_plan, for what memory alone decides.
  std::optional<double> (*of_memory)(const config::StudySpec& study,
                                     const config::PlanSpec& plan) = nullptr;
};

/// All quantities, in the order in which documents list them.
[[nodiscard]] std::span<const Quantity> quantity_table();

}  // namespace trireme::validation
