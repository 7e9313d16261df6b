// Memory of a GPU beyond a program's tensors, and what would need less of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/core/vocabulary.h"
#include "sim/units/units.h"

namespace trireme::ledger {

enum class Verdict : std::uint8_t { fits, tight, does_not_fit, illegal };
inline constexpr std::array<std::string_view, 4> kVerdictNames = {
    "fits", "tight", "does_not_fit", "illegal"};

constexpr std::string_view name(Verdict value) {
  return name_in(kVerdictNames, value);
}

/// What lies outside the allocator.
enum class OutsideItem : std::uint8_t { cuda_context, library_workspaces, nccl_rings, nccl_peers };
inline constexpr std::array<std::string_view, 4> kOutsideItemNames = {
    "cuda_context", "library_workspaces", "nccl_rings", "nccl_peers"};

constexpr std::string_view name(OutsideItem value) {
  return name_in(kOutsideItemNames, value);
}

/// What the driver sees of one rank at its peak.
struct DeviceMemory {
  Bytes reserved;  // by the allocator, allocated included
  Bytes reserved_low;
  Bytes reserved_high;
  std::array<Bytes, kOutsideItemNames.size()> outside{};

  [[nodiscard]] Bytes outside_allocator() const {
    Bytes all;
    for (const Bytes item : outside) {
      all += item;
    }
    return all;
  }

  [[nodiscard]] Bytes total() const { return reserved + outside_allocator(); }

  [[nodiscard]] Bytes total_low() const { return reserved_low + outside_allocator(); }

  [[nodiscard]] Bytes total_high() const { return reserved_high + outside_allocator(); }
};

/// What lies in the memory of the ranks' hosts, each rank at its peak.
struct HostMemory {
  Bytes per_rank;                 // of the rank that has most
  Bytes per_node;                 // of the node whose ranks have most
  std::optional<Bytes> capacity;  // of a node; empty where the cluster does not state it
  std::string instant;            // of that rank's peak; empty where nothing lies there
  std::array<Bytes, kMemoryItemNames.size()> by_item{};

  [[nodiscard]] bool holds_it() const { return !capacity || per_node <= *capacity; }
};

/// One change of a plan that needs less memory: the changed plan was evaluated.
struct Lever {
  std::string change;                  // as a study writes it, such as "recompute: full"
  Bytes saves;                         // of the GPU, reserved and what lies outside
  Verdict verdict = Verdict::illegal;  // of the changed plan
};

}  // namespace trireme::ledger
