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

/// Bytes of one tensor of a collective for the rank at `position` of its group.
[[nodiscard]] cost::CollectiveBytes collective_bytes(const program::Program& program,
                                                     const program::Op& op,
                                                     std::size_t pair,
                                                     cost::Group group,
                                                     std::int64_t position);

}  // namespace trireme::engine
