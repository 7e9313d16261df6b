// One operation of a step program, executed and timed as `trireme verify --time` executes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/harness/probe.h"
#include "sim/engine/execute/executor.h"
#include "sim/engine/execute/transport.h"
#include "sim/program/program.h"

namespace trireme::calibrate {

/// What an operation read and wrote, operand by operand.
using OperandValues = std::vector<engine::LocalTensor>;

/// Compares an operation's results with what they have to be. Throws WrongResult.
using CheckOperands = std::function<void(const OperandValues& operands)>;

/// Numbers between -1 and 1, of optimizer states above 0; labels and ids are the first of their
/// vocabulary.
void fill_any(const engine::InstanceIndex& instance, engine::LocalTensor& local);

/// A program whose only operation is repeated for every layer, each with tensors of its own.
struct RepeatedOperation {
  program::Program program;
  std::int64_t layers = 1;
  CheckOperands check;
  engine::Source fill;  // of what is there before the step; absent: any numbers
};

/// Runs the step of such a program. The time is that of the operation: its kernel and what the
/// executor does for it.
class ExecutorTrial final : public Trial {
 public:
  /// `transport` has as many ranks as the program and outlives the trial; without one the program
  /// runs on this rank alone.
  ExecutorTrial(RepeatedOperation operation, engine::Transport* transport);
  ~ExecutorTrial() override;

  void verify() override;
  [[nodiscard]] Seconds run(std::int64_t times) override;

 private:
  class Alone;

  RepeatedOperation operation_;
  std::unique_ptr<Alone> alone_;
  OperandValues seen_;
  bool looks_ = false;
  std::unique_ptr<engine::Executor> executor_;
};

/// Layers whose tensors, of `elements` numbers each layer, do not stay in this machine's cache from
/// turn to turn, as far as memory and time allow; two where an operation's `work` hides that they
/// do. Throws PointRefused when one set is too large.
[[nodiscard]] std::int64_t rotated_layers(std::int64_t elements, Flops work = Flops(0));

}  // namespace trireme::calibrate
