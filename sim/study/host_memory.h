// What a plan's ranks hold in the memory of their hosts, and whether a node has as much.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/config/study_spec.h"
#include "sim/ledger/device_memory.h"
#include "sim/program/program.h"

namespace trireme::study {

/// Of the fullest node: each of its ranks at its own peak.
///
/// EQ host-memory: H = sum over the ranks of a node of P
///   P  peak of a rank's tensors on its host                  [bytes]
///   H  result, of the node where it is largest               [bytes]
/// Source: derived: every rank has buffers of its own, at their peak at the same time in a step
/// Valid:  the tensors alone, without what the operating system, data loaders and the rounding of
///   pinned memory take
/// Tests:  tests/unit/study/host_memory_test.cpp
[[nodiscard]] ledger::HostMemory host_memory(std::span<const program::Program> stages,
                                             const config::ClusterSpec& cluster);

/// `device`, or does_not_fit where a node's memory is known and holds less.
[[nodiscard]] ledger::Verdict with_host(ledger::Verdict device, const ledger::HostMemory& host);

/// What a reader of the plan's row must know of its host; none where nothing lies there.
[[nodiscard]] std::vector<std::string> remarks_on_host(const ledger::HostMemory& host,
                                                       const config::StudySpec& study,
                                                       const config::PlanSpec& plan);

}  // namespace trireme::study
