// Step programs with deliberate faults.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/program/program.h"

namespace trireme::program {

/// Changes a program behind its builder's back.
class ProgramEditor {
 public:
  explicit ProgramEditor(Program program);

  [[nodiscard]] const Program& program() const { return program_; }

  /// The first operation of that label, in that phase. Throws std::logic_error when there is none.
  [[nodiscard]] OpId find(std::string_view label, Phase phase) const;

  /// The first tensor of that name and part.
  [[nodiscard]] TensorId tensor_id(std::string_view name, std::string_view part = {}) const;

  [[nodiscard]] Op& op(OpId id) { return pool_->ops[id]; }

  [[nodiscard]] Tensor& tensor(TensorId id) { return pool_->tensors[id]; }

  [[nodiscard]] Operand& operand(OpId op, std::size_t number);

  /// Replaces every reference to a tensor, in all operations from `first` on.
  void redirect(TensorId from, TensorId to, OpId first = 0);

  void remove_op(OpId op);
  /// Runs the operation twice in a row; the second time it brings nothing into being and lets
  /// nothing go.
  void repeat_op(OpId op);
  void remove_operands(OpId op, std::size_t first, std::size_t count);
  void add_operand(OpId op, Operand operand, std::size_t before);
  /// Changes the number of iterations of the repeat around an operation.
  void set_count(OpId inside, std::int32_t count);

  /// Lets a tensor go after another operation than the derived one, by its operand `number` there.
  void move_death(TensorId tensor, OpId to, std::size_t number);
  /// The tensor is never let go.
  void remove_death(TensorId tensor);

  /// The changed program as the builder would have it: layouts are checked and lifetimes derived
  /// again. Throws BuildError.
  [[nodiscard]] Program checked() &&;

  /// The changed program as it is.
  [[nodiscard]] Program unchecked() && { return std::move(program_); }

 private:
  struct Death {
    OpId op;
    TensorId tensor;
    std::uint16_t operand;
  };

  [[nodiscard]] std::vector<Death> deaths() const;
  void set_deaths(std::vector<Death> deaths);
  void move_segments(OpId op, int change);

  std::shared_ptr<Pool> pool_;  // of this program alone
  Program program_;
};

}  // namespace trireme::program
