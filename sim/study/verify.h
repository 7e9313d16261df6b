// Proves a plan's step program: executes it with real numbers on every rank and compares results,
// bytes and memory with the dense reference and the ledgers.
//
// How loss and gradients are normalised: docs/decisions/0006-normalisation.md
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "sim/config/study_spec.h"
#include "sim/engine/execute/transport.h"
#include "sim/ledger/verification.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/program/program.h"
#include "sim/study/small_model.h"

namespace trireme::study {

/// What one rank does with its end of the network.
using RankBody = std::function<void(std::int64_t rank, engine::Transport& transport)>;

/// Runs `body` once for every one of `ranks` ranks that this process has: all of them as threads,
/// or its own as one of several processes. Returns why a rank failed, in words; empty when none
/// did.
using RunRanks = std::function<std::string(std::int64_t ranks, const RankBody& body)>;

/// Ranks as threads of this process. `timeout`: how long one waits for a message.
[[nodiscard]] RunRanks thread_ranks(std::chrono::milliseconds timeout = std::chrono::seconds(10));

struct VerifyOptions {
  ModelSize size = ModelSize::least;
  std::int64_t steps = 2;
  std::uint64_t seed = 1;  // of parameters and batches
  bool trace = false;      // list the operations, too
  bool time = false;       // repeat the step for its wall-clock
};

/// From a plan to the program that a stage executes: of stage 0 without a pipeline.
using Lowering = std::function<program::Program(const plan::Plan& plan, std::int64_t stage)>;

/// Lowers a plan that is small already, executes it and compares it with the dense reference and
/// with the ledgers of its program. Whatever differs or fails is a message of the result. In a
/// process without rank 0 the verdict is `equal`. A test may execute another program than the one
/// whose ledgers count: `executed`.
[[nodiscard]] ledger::PlanVerification verify_small_plan(
    const plan::Plan& plan,
    std::int64_t gpus_per_node,
    const VerifyOptions& options,
    const RunRanks& run,
    const Lowering& executed = plan::lower_stage);

/// Shrinks a legal plan, lowers and verifies it. One of its stated size that needs more memory than
/// this machine has is not executed: a message says so.
[[nodiscard]] ledger::PlanVerification verify_plan(const plan::Plan& plan,
                                                   std::int64_t gpus_per_node,
                                                   const VerifyOptions& options,
                                                   const RunRanks& run);

/// Every plan of a study, in its order; an illegal one is a row with its reasons.
[[nodiscard]] ledger::VerificationResult verify_study(const config::StudySpec& study,
                                                      const VerifyOptions& options,
                                                      const RunRanks& run);

}  // namespace trireme::study
