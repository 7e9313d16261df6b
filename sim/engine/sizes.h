// The sizes reader: exact bytes sent, exact peak memory, exact operation counts. No seconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/ledger/ledger.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// Bytes that `rank` sends and receives in a step, on nodes of `gpus_per_node` ranks.
[[nodiscard]] ledger::ByteLedger read_bytes(const program::Program& program,
                                            std::int64_t gpus_per_node,
                                            std::int64_t rank = 0);

/// The rank that sends most: ranks differ only where a payload does not divide by its group.
/// Ties go to the lowest number.
[[nodiscard]] std::int64_t largest_sender(const program::Program& program,
                                          std::int64_t gpus_per_node);

/// The rank of a stage that sends most, and what it sends and receives.
struct StageBytes {
  std::int64_t rank = 0;
  ledger::ByteLedger bytes;
};

/// Of every stage of a pipeline. Stages that share segments and run them as often are read once.
[[nodiscard]] std::vector<StageBytes> read_bytes(std::span<const program::Program> stages,
                                                 std::int64_t gpus_per_node);

/// The entries behind `read_bytes`, one per collective and tensor, in program order.
[[nodiscard]] std::vector<ledger::ByteEntry> byte_entries(const program::Program& program,
                                                          std::int64_t gpus_per_node,
                                                          std::int64_t rank = 0);

/// When memory is fullest: the first such instant in program order.
struct MemoryPeak {
  Bytes allocated;
  program::OpId op = 0;
  Bytes resident;  // allocated at the beginning and at the end of the step
};

/// Peak of one rank's tensors in one memory, its GPU's or its host's, over a steady step. An
/// operation's births come before it and its deaths after it, as allocators see them.
///
/// EQ memory-composition: (n1, p1) . (n2, p2) = (n1 + n2, max(p1, n1 + p2)); a repeat of N has net
///   N n and peak p + max(0, (N - 1) n)
///   n  net change of a part                                    [bytes]
///   p  its peak above the level it starts at                   [bytes]
///   N  iterations                                              [1]
/// Source: derived, docs/decisions/0001-step-program.md
/// Valid:  frees in the order of issue, as a caching allocator sees one stream
/// Tests:  tests/property/memory_oracle_test.cpp
[[nodiscard]] MemoryPeak read_peak(const program::Program& program,
                                   program::Place place = program::Place::device);

/// Of every stage of a pipeline. Stages that share segments are read once: they differ in order.
[[nodiscard]] std::vector<MemoryPeak> read_peaks(std::span<const program::Program> stages,
                                                 program::Place place = program::Place::device);

/// Net change of memory over the step beyond what is resident; zero for a well-formed program.
[[nodiscard]] Bytes read_net_memory(const program::Program& program,
                                    program::Place place = program::Place::device);

/// What is alive at the peak, by item: a second walk, only when asked.
[[nodiscard]] ledger::MemoryLedger read_memory(const program::Program& program,
                                               program::Place place = program::Place::device);

/// The tensors behind `read_memory`, largest first; equal sizes in order of declaration.
[[nodiscard]] std::vector<ledger::MemoryEntry> memory_entries(
    const program::Program& program, program::Place place = program::Place::device);

/// What one rank has allocated on its GPU while each operation runs, one entry per execution in the
/// order of issue; `keep` operations take no time and have none.
[[nodiscard]] std::vector<Bytes> memory_of_tasks(const program::Program& program);

/// Operation counts of one step: `executed` by one rank, `model` over all ranks.
[[nodiscard]] ledger::FlopLedger read_flops(const program::Program& program);

/// Of every stage of a pipeline. Stages that share segments and run them as often are read once.
[[nodiscard]] std::vector<ledger::FlopLedger> read_flops(std::span<const program::Program> stages);

}  // namespace trireme::engine
