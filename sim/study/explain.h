// Takes one plan's numbers apart: every term, the memory at the worst instant, shapes and owners.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/config/study_spec.h"
#include "sim/ledger/explanation.h"
#include "sim/program/program.h"

namespace trireme::study {

/// The small shape on which owners are drawn.
struct OwnerShape {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
};

/// Everything behind one plan's row. Of an illegal plan there is the row alone. Without a shape
/// owners are drawn for at least 8 tokens and 4 heads, as many as the plan's group divides. Throws
/// Error (command line) for a shape that it does not divide.
[[nodiscard]] ledger::Explanation explain(const config::StudySpec& study,
                                          const config::PlanSpec& spec,
                                          const std::optional<OwnerShape>& shape);

/// The bytes that `rank` sends, one term per collective and tensor.
[[nodiscard]] std::vector<ledger::Term> sent_terms(const program::Program& program,
                                                   std::int64_t gpus_per_node,
                                                   std::int64_t rank);

/// One instance of every tensor that owns memory on a rank, in order of declaration.
///
/// EQ tensor-bytes: T = E w
///   E  local_elements: of one rank under the tensor's layout, padding included  [elements]
///   w  width: of the element type                                              [bytes/element]
///   T  value                                                                   [bytes]
/// Source: derived: the definition
/// Valid:  what a tensor holds, not what an allocator rounds it up to
/// Tests:  tests/unit/study/explain_test.cpp
[[nodiscard]] std::vector<ledger::Term> tensor_terms(const program::Program& program);

/// What copies between a rank's GPU and its host carry, one term per copy.
[[nodiscard]] std::vector<ledger::Term> host_copy_terms(const program::Program& program);

/// The tensors of the first attention block forward, each where it first appears.
[[nodiscard]] std::vector<ledger::ShapeStep> shape_trace(const program::Program& program);

/// Who owns which (token, head) before and after each exchange of the attention block forward.
[[nodiscard]] std::vector<ledger::OwnerChange> owner_changes(const program::Program& program);

}  // namespace trireme::study
