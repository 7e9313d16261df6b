// Seconds of copies between a GPU and its host, and of what the host's processors compute.
#pragma once

#include "sim/units/units.h"

namespace trireme::cost {

/// What one rank has of its host.
struct HostCosts {
  BytesPerSecond link_rate;  // between the GPU and the host's memory, one direction
  BytesPerSecond work_rate;  // bytes that the rank's part of the processors passes through memory
};

/// Seconds of a copy to or from the host's memory; both directions at once take no longer.
///
/// EQ host-copy-time: T = M / beta
///   M     copied                                            [bytes]
///   beta  costs.link_rate                                   [bytes/second]
/// Source: derived: pinned memory, and copies so long that their start does not count
/// Valid:  no other GPU shares the link. Unpinned memory is copied twice, and takes longer.
/// Tests:  tests/unit/cost/host_test.cpp
[[nodiscard]] inline Seconds host_copy_time(Bytes copied, const HostCosts& costs) {
  return copied / costs.link_rate;
}

/// Seconds of an operation on tensors in the host's memory, such as Adam's.
///
/// EQ host-work-time: T = M / rho
///   M    moved: bytes read and written, an update both ways  [bytes]
///   rho  costs.work_rate                                     [bytes/second]
/// Source: ren2021-zero-offload, section 5.1: Adam on processors is bound by memory
/// Valid:  vectorised code on every core that the rank has, as DeepSpeed's CPU-Adam
/// Tests:  tests/unit/cost/host_test.cpp
[[nodiscard]] inline Seconds host_work_time(Bytes moved, const HostCosts& costs) {
  return moved / costs.work_rate;
}

}  // namespace trireme::cost
