// What readers say of the stages of a plan's pipeline, put together; of one program, what they say
// of that.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/ledger/ledger.h"
#include "sim/program/program.h"

namespace trireme::study {

struct StageNumbers {
  ledger::ByteLedger bytes;     // of the rank that sends most
  ledger::MemoryLedger memory;  // of the stage that is fullest
  ledger::FlopLedger flops;     // executed: of a rank on average; model: over all
  std::size_t sender = 0;       // the stage that sends most; ties: the first
  std::size_t fullest = 0;      // the stage with the highest peak; ties: the first
  std::int64_t rank = 0;        // that sends most
  std::string rank_class;
};

/// The stage with the highest peak, and what is in its memory then.
struct FullestStage {
  std::size_t stage = 0;  // ties: the first
  ledger::MemoryLedger memory;
};

[[nodiscard]] FullestStage fullest_stage(std::span<const program::Program> stages);

[[nodiscard]] StageNumbers read_stages(std::span<const program::Program> stages,
                                       std::int64_t gpus_per_node);

/// As those of the engine, of all stages, each sentence once.
[[nodiscard]] std::vector<std::string> faster_than_links(std::span<const program::Program> stages,
                                                         const engine::Machine& machine);
[[nodiscard]] std::string unknown_kernel(std::span<const program::Program> stages,
                                         const engine::Machine& machine);

}  // namespace trireme::study
