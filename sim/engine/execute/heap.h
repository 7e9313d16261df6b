// The allocator of processes that execute steps.
#pragma once

namespace trireme::engine {

/// From now on freed memory stays with this process. A step allocates and frees the same tensors
/// again and again; where each large one is new memory of the system, faulting its pages in takes
/// several times as long as a kernel, and sizes on both sides of the allocator's threshold do not
/// compare. Does nothing without glibc.
void keep_freed_memory();

}  // namespace trireme::engine
