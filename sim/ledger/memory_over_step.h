// What a rank has allocated while each operation of a step runs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ledger/device_memory.h"
#include "sim/ledger/ledger.h"

namespace trireme::ledger {

/// One execution of an operation.
struct MemoryInstant {
  Phase phase = Phase::forward;
  Component component = Component::attention;
  std::string_view operation;
  std::optional<std::int64_t> micro_batch;  // empty outside the loop
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> chunk;
  Bytes allocated;  // while it runs
  PerItem<Bytes> by_item{};
  Bytes on_host;  // beside them
};

struct MemoryOverStep {
  std::string study;
  std::string plan;
  Bytes capacity;
  Verdict verdict = Verdict::illegal;
  std::vector<std::string> refusals;  // of an illegal plan, which has nothing else
  MemoryLedger peak;
  DeviceMemory device;
  HostMemory host;
  std::vector<MemoryInstant> instants;  // in the order of issue
  std::vector<MemoryEntry> at_peak;     // tensors, largest first
};

}  // namespace trireme::ledger
