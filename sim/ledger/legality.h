// Which degrees are legal for a model and a number of GPUs, framework by framework.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/feasibility.h"

namespace trireme::ledger {

/// One degree that was asked.
struct LegalDegree {
  std::int64_t degree = 1;
  std::vector<Refusal> refusals;        // legal without any
  std::vector<std::string> conditions;  // what must hold besides, as an input is absent
  std::vector<std::string> remarks;     // what the degree brings with it
  std::int64_t kv_repeat = 1;           // copies of each key/value head

  [[nodiscard]] bool legal() const { return refusals.empty(); }
};

struct LegalRule {
  std::string name;
  std::string description;
  std::string source;  // key in docs/bibliography.md
};

/// A framework's way of splitting.
struct LegalStack {
  std::string name;
  std::string title;
  std::int64_t tensor_parallel = 1;  // beside the degrees; 1 where it cannot be combined
  std::vector<LegalRule> rules;
  std::vector<LegalDegree> degrees;  // ascending
};

struct LegalityResult {
  std::string model;
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t mlp_width = 0;
  std::int64_t gpus = 0;
  std::int64_t tensor_parallel = 1;
  std::optional<std::int64_t> sequence;  // tokens
  std::vector<LegalStack> stacks;
};

}  // namespace trireme::ledger
