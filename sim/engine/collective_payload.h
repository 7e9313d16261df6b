// The payload of a collective operation, and the bytes that one rank sends and receives for it.
#pragma once

#include <cstdint>

#include "sim/cost/collective_bytes.h"
#include "sim/cost/collectives.h"
#include "sim/engine/placement.h"
#include "sim/ledger/ledger.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// The formulas of a kind of collective.
[[nodiscard]] inline const cost::CollectiveInfo& formulas(CollectiveKind kind) {
  return cost::collective_table()[static_cast<std::size_t>(kind)];
}

/// The payload of one tensor of a collective as the formulas of cost/ count it: gathered or reduced
/// as a whole, exchanged over all ranks. Padding that a shard carries travels with it.
[[nodiscard]] Elements collective_payload(const program::Program& program,
                                          const program::Op& op,
                                          std::size_t pair);

/// Bytes of the payloads of all tensors that a collective carries in one call.
[[nodiscard]] Bytes payload_bytes(const program::Program& program, const program::Op& op);

/// Where a collective's bytes for one tensor are booked: activations under the block that moves
/// them, gradients and parameters under their own.
[[nodiscard]] ledger::ByteAccount byte_account(const program::Op& op,
                                               const program::Tensor& tensor);

/// Payloads of an operation that moves bytes: tensors of a collective, one of a message.
[[nodiscard]] std::size_t payloads(const program::Op& op);

/// Where the ranks of a collective, or the two ends of a message between stages, sit.
[[nodiscard]] cost::Group group_of(const program::Program& program,
                                   const program::Op& op,
                                   std::int64_t gpus_per_node);

/// Bytes of one tensor of a collective or message for `rank`, or for the rank at its place in the
/// program's stage.
///
/// EQ stage-message-bytes: W = E w on the sender, the same received; both ways for a sum
///   E  local elements of the tensor: of [B, S, h] what cp, and with sequence parallelism tp, leave
///      a rank                                                   [elements]
///   w  bytes of an element                                      [bytes/element]
///   W  sent per message                                         [bytes]
/// Source: narayanan2021, section 3.1; megatron-lm,
///   megatron/core/pipeline_parallel/schedules.py, get_tensor_shapes
/// Valid:  every rank of a stage has one peer in the next
/// Tests:  tests/unit/plan/pipeline_test.cpp, tests/property/verify_test.cpp
[[nodiscard]] cost::CollectiveBytes bytes_of_rank(const program::Program& program,
                                                  const program::Op& op,
                                                  std::size_t pair,
                                                  std::int64_t gpus_per_node,
                                                  std::int64_t rank);

/// Bytes of one tensor of a collective for the rank at `position` of its group.
[[nodiscard]] cost::CollectiveBytes collective_bytes(const program::Program& program,
                                                     const program::Op& op,
                                                     std::size_t pair,
                                                     cost::Group group,
                                                     std::int64_t position);

}  // namespace trireme::engine
