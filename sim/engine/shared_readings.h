// Which stages of a pipeline a reader of amounts may read once: those that run the same segments as
// often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/program/program.h"

namespace trireme::engine {

class SharedReadings {
 public:
  explicit SharedReadings(std::span<const program::Program> stages) {
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      executions_.push_back(program::executions(stages[stage]));
      std::size_t first = 0;
      while (!stages[first].shares_segments_with(stages[stage]) ||
             executions_[first] != executions_[stage]) {
        ++first;
      }
      first_like_.push_back(first);
    }
  }

  /// The first stage that runs the same segments as often: itself where no earlier one does.
  [[nodiscard]] std::size_t first_like(std::size_t stage) const { return first_like_[stage]; }

  /// How often a stage executes each segment.
  [[nodiscard]] std::span<const std::int64_t> executions(std::size_t stage) const {
    return executions_[stage];
  }

 private:
  std::vector<std::vector<std::int64_t>> executions_;
  std::vector<std::size_t> first_like_;
};

/// Calls `visit(operation, times)` for every operation of the program's segments, once.
template <class Visit>
void for_each_op_once(const program::Program& program,
                      std::span<const std::int64_t> executions,
                      Visit visit) {
  for (std::size_t i = 0; i < executions.size(); ++i) {
    const program::Segment& segment = program.segments()[i];
    for (const program::Op& op : program.ops().subspan(segment.first_op, segment.ops)) {
      visit(op, executions[i]);
    }
  }
}

}  // namespace trireme::engine
