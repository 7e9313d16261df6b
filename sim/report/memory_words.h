// Sentences about a rank's memory.
#pragma once

#include <string>
#include <string_view>

#include "sim/ledger/result.h"

namespace trireme::report {

/// A name of several words: "saved activations" of saved_activations.
[[nodiscard]] std::string words(std::string_view name_with_underscores);

/// "25.98-27.61": what the driver may see, in GiB.
[[nodiscard]] std::string range_in_gibibytes(const ledger::DeviceMemory& device);

/// "activations 12.00 GiB, parameters 3.00 GiB, logits and loss 1.00 GiB": the three largest.
[[nodiscard]] std::string largest_items(const ledger::MemoryLedger& memory);

/// "needs 93.10 to 99.01 GiB of 79.20 GiB: 90.00 allocated, ...; fullest in (backward, ...), where
/// the largest items are ..."
[[nodiscard]] std::string memory_in_words(const ledger::MemoryLedger& memory,
                                          const ledger::DeviceMemory& device,
                                          Bytes capacity);

/// "needs 1200.00 GiB of a node's host memory of 1024.00 GiB", where it is more.
[[nodiscard]] std::string host_in_words(const ledger::HostMemory& host);

/// "next lever: 'recompute: full' saves 12.30 GiB, and the plan fits".
[[nodiscard]] std::string in_words(const ledger::Lever& lever);

/// "memory wall of a: workload.sequence 1M fits, 2M does not".
[[nodiscard]] std::string wall_sentence(const ledger::MemoryWall& wall);

}  // namespace trireme::report
