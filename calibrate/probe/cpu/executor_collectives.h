// Probe of collectives as the executor does them: what `trireme verify --time` waits for.
#pragma once

#include <memory>

#include "calibrate/harness/probe.h"
#include "calibrate/probe/cpu/executor_kernels.h"
#include "sim/engine/execute/transport.h"

namespace trireme::calibrate {

/// All-to-all, all-gather, reduce-scatter and all-reduce in groups of 2, 4, ... and all ranks of
/// `transport`, which outlives the probe. Every group of a size runs at once.
[[nodiscard]] std::unique_ptr<Probe> executor_collectives(engine::Transport& transport,
                                                          std::int64_t ranks_per_node,
                                                          Grid grid);

/// Sizes of groups of neighbours: 2, 4, 8, ... as far as they divide `ranks`, and `ranks` itself.
[[nodiscard]] std::vector<std::int64_t> group_sizes(std::int64_t ranks);

/// Payloads from 4 KiB in steps of 4.
[[nodiscard]] std::vector<Bytes> payload_sizes(Grid grid);

}  // namespace trireme::calibrate
