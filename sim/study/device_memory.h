// From a program's peak to what the GPU holds, and whether that fits.
#pragma once

#include <optional>

#include "sim/config/study_spec.h"
#include "sim/ledger/device_memory.h"
#include "sim/ledger/ledger.h"
#include "sim/program/program.h"

namespace trireme::study {

/// What the allocator reserves for the tensors of `memory`, and what lies outside it.
[[nodiscard]] ledger::DeviceMemory device_memory(const program::Program& program,
                                                 const ledger::MemoryLedger& memory,
                                                 const config::StudySpec& study,
                                                 const config::PlanSpec& plan);

/// Whether a rank fits.
///
/// EQ memory-verdict: fits when Rh + O <= C; does not fit when A + O > C; else tight
///   A   allocated                                                     [bytes]
///   Rh  reserved_high: the upper end of the reserve's spread          [bytes]
///   O   outside_allocator: context, workspaces and NCCL's buffers     [bytes]
///   C   capacity: what the driver reports                             [bytes]
/// Source: derived, docs/decisions/0011-memory-verdict.md
/// Valid:  a steady step on a GPU that nothing else uses
/// Tests:  tests/unit/study/device_memory_test.cpp
[[nodiscard]] ledger::Verdict memory_verdict(Bytes allocated,
                                             const ledger::DeviceMemory& device,
                                             Bytes capacity);

/// A plan's memory alone: no bytes sent, no seconds.
struct PlanMemory {
  ledger::MemoryLedger memory;
  ledger::DeviceMemory device;
  ledger::HostMemory host;
  ledger::Verdict verdict = ledger::Verdict::illegal;
};

/// Empty where the plan is illegal.
[[nodiscard]] std::optional<PlanMemory> plan_memory(const config::StudySpec& study,
                                                    const config::PlanSpec& plan);

}  // namespace trireme::study
