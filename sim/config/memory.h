// Reading what a GPU holds beyond a plan's tensors.
#pragma once

#include <string>

#include "sim/config/memory_spec.h"
#include "sim/config/node.h"

namespace trireme::config {

/// Throws Error (input), located.
[[nodiscard]] MemorySpec read_memory(const Node& root, const std::string& name);

}  // namespace trireme::config
