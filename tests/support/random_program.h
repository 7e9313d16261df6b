// Step programs drawn from a seed, to test readers on shapes that no plan has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/program/program.h"

namespace trireme::test {

struct RandomProgram {
  /// Empty when the builder refused what was drawn: some draws lack an instance or a boundary.
  std::optional<program::Program> program;
  std::string refusal;
};

/// A program of nested repeats over micro batches, layers and chunks, forwards, backwards and with
/// strides, whole or with peeled ends; its tensors are used in one run, carried from iteration to
/// iteration, saved for another repeat, accumulated, overwritten in place, viewed, resident or
/// kept. Its operations mean nothing. Equal seeds draw equal programs.
[[nodiscard]] RandomProgram random_program(std::uint64_t seed);

}  // namespace trireme::test
