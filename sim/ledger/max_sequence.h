// How long a sequence a plan can train on, and what ends it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/ledger/device_memory.h"
#include "sim/ledger/ledger.h"
#include "sim/units/units.h"

namespace trireme::ledger {

/// What a change of the plan would buy.
struct LongerBy {
  std::string change;  // as a study writes it
  std::optional<Tokens> fits;
};

struct LongestSequence {
  std::string plan;
  Bytes capacity;
  Tokens step;                  // legal lengths are its multiples; zero where none is legal
  std::optional<Tokens> fits;   // the longest; empty where not even the shortest does
  std::optional<Tokens> tight;  // the longest that is tight; empty where none is
  /// At the next length, where memory ends it.
  std::optional<Tokens> beyond;
  MemoryLedger memory;
  DeviceMemory device;
  HostMemory host;
  /// Where something else ends it, or nothing is legal: the rules with their numbers.
  std::vector<std::string> refusals;
  std::vector<LongerBy> levers;  // those that lengthen, longest first
};

struct LongestSequences {
  std::string study;
  std::string memory_table;
  std::vector<LongestSequence> rows;

  [[nodiscard]] bool any_fits() const {
    for (const LongestSequence& row : rows) {
      if (row.fits) {
        return true;
      }
    }
    return false;
  }
};

}  // namespace trireme::ledger
