// A second opinion on memory: walks every instance of every operation of a program.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/program/program.h"
#include "sim/units/units.h"

namespace trireme::test {

/// What a caching allocator would see on one rank, instance by instance. An instance is allocated
/// at the first reference to it and freed after the last; where the last lies in a repeat of more
/// than one iteration whose index the tensor does not vary over, at the end of the outermost such
/// repeat.
struct UnrolledMemory {
  Bytes peak;                                       // resident tensors included
  Bytes net;                                        // allocated minus freed over the step
  program::OpId op = 0;                             // of the first instant at which memory peaks
  std::map<program::TensorId, std::int64_t> alive;  // instances of each tensor at that instant
  /// The first reference that breaks single assignment: it meets an instance that was not written,
  /// was written before, or whose memory another tensor has taken over. Empty when there is none.
  std::string fault;
};

/// Of what lies in one memory; faults are those of any tensor.
[[nodiscard]] UnrolledMemory unroll_memory(const program::Program& program,
                                           program::Place place = program::Place::device);

}  // namespace trireme::test
