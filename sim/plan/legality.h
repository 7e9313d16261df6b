// Which plans can run: rules that differ by framework, and what is not modelled yet.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/config/study_spec.h"
#include "sim/core/feasibility.h"
#include "sim/plan/plan.h"

namespace trireme::plan {

/// One rule: the stacks it applies to, and what it says about a plan. The message is empty when the
/// plan keeps the rule.
struct LegalityRule {
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  bool (*applies)(const Plan& plan);
  std::string (*broken)(const Plan& plan);
};

/// Source: cost-model, legality differs by framework; each row names its own.
[[nodiscard]] std::span<const LegalityRule> legality_rules();

/// Appends a refusal for every rule that the plan breaks.
void check_rules(const Plan& plan, Feasibility& feasibility);

/// Appends a refusal for every option of the specification that no lowering models yet.
void check_modelled(const config::PlanSpec& spec, Feasibility& feasibility);

}  // namespace trireme::plan
