// What a GPU holds beyond a plan's tensors, as a file in topologies/memory states it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/device_memory.h"
#include "sim/units/units.h"

namespace trireme::config {

enum class Framework : std::uint8_t;

/// How PyTorch's caching allocator gets its memory.
enum class Allocator : std::uint8_t { native, expandable_segments };

/// What an allocator reserves under one framework, or under any.
struct ReserveRow {
  std::optional<Framework> framework;
  Allocator allocator = Allocator::native;
  cost::ReserveShare share;
  std::optional<std::int64_t> samples;
  std::string source;  // key in docs/bibliography.md
};

struct MemorySpec {
  std::string name;
  std::vector<ReserveRow> reserved;  // the first that applies counts; one for any does
  Bytes cuda_context;
  Bytes library_workspaces;
  cost::NcclBuffers nccl;
};

/// The row that counts.
[[nodiscard]] const ReserveRow& reserve_row(const MemorySpec& memory,
                                            Framework framework,
                                            Allocator allocator);

}  // namespace trireme::config
