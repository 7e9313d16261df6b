// Which plans can run: rules that differ by framework, and what is not modelled yet.
//
// The rules look at sizes and degrees only, so that a study's plans and `trireme legal` ask the
// same ones. Which rules hold for a framework's way of splitting is a row of `legality_stacks`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/study_spec.h"
#include "sim/core/feasibility.h"
#include "sim/plan/plan.h"

namespace trireme::plan {

/// The sizes of a model and the degrees that split it.
struct Degrees {
  std::int64_t query_heads = 1;            // a
  std::int64_t kv_heads = 1;               // g
  std::int64_t mlp_width = 1;              // f
  std::int64_t vocabulary = 0;             // V, rows; 0: none
  std::int64_t degree = 1;                 // P: ranks of Ulysses or of context parallelism
  std::int64_t tensor = 1;                 // t: tensor-parallel ranks beside them
  bool tensor_shards_sequence = true;      // Megatron's sequence parallelism
  bool repeats_all_heads = false;          // key/value heads become as many as query heads
  std::optional<std::int64_t> sequence{};  // S, tokens; absent: not decided
  std::optional<std::int64_t> gpus{};      // absent: not asked
};

/// What a rule says about them. All empty: it is kept, or does not apply.
struct RuleAnswer {
  std::string broken;          // why it is not kept, with numbers
  std::string condition;       // what must hold besides, as an input is absent
  std::string remark;          // what keeping it brings with it
  std::int64_t kv_repeat = 1;  // copies of each key/value head
};

struct LegalityRule {
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  RuleAnswer (*check)(const Degrees& degrees);
};

/// Which of its degrees a stack's row is about.
enum class SplitKind : std::uint8_t { ulysses, context_parallel, tensor_parallel };

/// A framework's way of splitting, and the rules it has.
struct LegalityStack {
  std::string_view name;   // such as "megatron a2a"
  std::string_view title;  // for people
  SplitKind kind;
  bool with_tensor_parallel;  // it can be combined with tensor parallelism
  bool splits_heads;          // the heads, not the GPUs alone, say which degrees are worth asking
  std::span<const LegalityRule* const> rules;
};

/// Source: cost-model, legality differs by framework; each rule names its own.
[[nodiscard]] std::span<const LegalityStack> legality_stacks();

/// Every rule of the stacks once.
[[nodiscard]] std::span<const LegalityRule* const> legality_rules();

/// Whether the degrees multiply to a divisor of the GPUs.
[[nodiscard]] RuleAnswer gpus_divide(const Degrees& degrees);

/// Appends a refusal for every rule that the plan breaks.
void check_rules(const Plan& plan, Feasibility& feasibility);

/// The rules of experts and of latent attention among them.
void check_experts(const Plan& plan, Feasibility& feasibility);
void check_latent(const Plan& plan, Feasibility& feasibility);

/// What is assumed of a model with experts, in sentences; none for others.
[[nodiscard]] std::vector<std::string> remarks_on_experts(const Plan& plan);

/// Appends a refusal for every option of the specification that no lowering models yet.
void check_modelled(const config::PlanSpec& spec, Feasibility& feasibility);

/// Appends a refusal for everything in the model that no lowering models yet, at this length of a
/// sequence.
void check_modelled(const config::ModelSpec& model,
                    std::int64_t sequence,
                    Feasibility& feasibility);

}  // namespace trireme::plan
