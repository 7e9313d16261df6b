// The execute reader: runs a step program on one of P ranks with real numbers.
//
// A rank owns private memory. An operation sees only its operands, and a tensor is gone after its
// derived death: what the program does not say cannot be computed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/engine/execute/distribution.h"
#include "sim/engine/execute/kernel.h"
#include "sim/engine/execute/memory.h"
#include "sim/engine/execute/message_collectives.h"
#include "sim/engine/execute/transport.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// Fills one rank's part of a tensor that a step is given: parameters and their states before the
/// first step, token ids, labels or the input when they are loaded, the experts that a router
/// selects. Every element is set from its
/// logical index alone, so that sharding cannot change it.
using Source = std::function<void(const InstanceIndex& instance, LocalTensor& local)>;

/// Sees an operand's values after (writes and updates) or before (reads) each operation.
using Observer = std::function<void(const program::Op& op,
                                    std::size_t operand,
                                    const InstanceIndex& instance,
                                    const LocalTensor& local)>;

/// What a step held in one memory: the GPU's, or the host's.
struct HeldMemory {
  Bytes peak;    // of tensors in their declared types, as a sizes reader counts them
  Bytes at_end;  // allocated after the step: the resident tensors
  // What that is, so that a difference can be told by tensor.
  program::OpId peak_op = 0;
  std::vector<AliveTensor> alive_at_peak;
  std::vector<AliveTensor> alive_at_end;
};

using HeldMemories = std::array<HeldMemory, program::kPlaceNames.size()>;  // by program::Place

struct ExecutionResult {
  WireCount wire;
  HeldMemories held;
  ledger::PerPhase<Seconds> wall_clock{};
};

/// One rank that runs steps of one program. Resident tensors stay from step to step.
class Executor {
 public:
  /// `program`, `transport` and the callbacks outlive the executor.
  Executor(const program::Program& program,
           Transport& transport,
           std::int64_t gpus_per_node,
           Source source,
           Observer observer = {});
  ~Executor();

  /// Runs one step. Throws ExecutionError, and RankFailure when another rank is lost.
  [[nodiscard]] ExecutionResult run_step(const ExecutionConstants& constants);

  /// This rank's part of a resident tensor, after a step.
  [[nodiscard]] LocalTensor resident(program::TensorId tensor, const InstanceIndex& instance) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::engine
