// What a verified run is checked for. Each check appends a message for everything that differs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/ledger/verification.h"
#include "sim/program/program.h"
#include "sim/study/rank_record.h"
#include "sim/study/verify_reference.h"

namespace trireme::study {

/// Largest error, relative to the tensor's norm in the whole model, that counts as rounding.
inline constexpr double kVerifyTolerance = 1e-10;

/// The tensors that the ranks recorded against the reference, and whether every parameter is
/// updated with a gradient of its own in every step.
///
/// EQ verification-error: r = |x - y| / max(|y|, s |all|), the largest over tensors
///   x    the ranks' values of one tensor over its layers and micro batches, in Euclidean norm  [1]
///   y    those of the reference                                                         [1]
///   all  the reference's values of every tensor of the quantity                         [1]
///   s    the least share of their norm: a gradient that is zero by symmetry is rounding alone  [1]
///   r    result                                                                         [1]
/// Source: derived: relative error in the Euclidean norm
/// Valid:  where copies of an element differ, the worst counts
/// Tests:  tests/property/verify_test.cpp, tests/unit/execute/mutations_test.cpp
void check_numbers(std::span<const program::Program> stages,
                   const Reference& reference,
                   const std::vector<RankRecord>& records,
                   ledger::PlanVerification& result);

/// Bytes sent, to the byte: every account of every rank and step, and every operation. `promised`
/// are the stages' programs whose ledgers count, `executed` those that ran.
void check_bytes(std::span<const program::Program> promised,
                 std::span<const program::Program> executed,
                 std::int64_t gpus_per_node,
                 const std::vector<RankRecord>& records,
                 ledger::PlanVerification& result);

/// Peak and end-of-step memory of every rank and step, to the byte.
void check_memory(std::span<const program::Program> promised,
                  std::span<const program::Program> executed,
                  const std::vector<RankRecord>& records,
                  ledger::PlanVerification& result);

/// The ranks that run a stage's program, ascending.
[[nodiscard]] std::vector<std::int64_t> ranks_of(const program::Program& stage);

/// "'adam' (optimizer, attention)".
[[nodiscard]] std::string operation_in_words(const program::Op& op);

/// Every operation of a program, with shapes and layouts of its tensors.
[[nodiscard]] std::vector<ledger::TracedOperation> trace_of(const program::Program& program);

}  // namespace trireme::study
