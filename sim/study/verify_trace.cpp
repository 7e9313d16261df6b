// What a program is, operation by operation, in words.
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/study/verify_checks.h"

namespace trireme::study {

using program::Op;
using program::Program;
using program::Tensor;

namespace {

/// "shard of S over sequence, partial over data".
std::string layout_in_words(const program::Mesh& mesh, const Tensor& tensor) {
  std::string text;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const program::Placement placement = tensor.layout[axis];
    if (placement.replicated()) {
      continue;
    }
    text += text.empty() ? "" : ", ";
    text += placement.partial() ? "partial"
            : placement.dim() == program::Placement::kFlat
                ? "shard of the elements"
                : fmt::format("shard of {}", tensor.shape[placement.dim()].symbol);
    text += fmt::format(" over {}", mesh.axis(axis).name);
  }
  return text.empty() ? "whole on every rank" : text;
}

std::string_view access_word(program::Access access) {
  constexpr std::array<std::string_view, 4> kWords = {"reads", "writes", "updates", "holds"};
  return kWords[static_cast<std::size_t>(access)];
}

}  // namespace

std::string operation_in_words(const Op& op) {
  return fmt::format("'{}' ({}, {})", op.label, name(op.phase), name(op.component));
}

std::vector<ledger::TracedOperation> trace_of(const Program& program) {
  std::vector<ledger::TracedOperation> trace;
  program::for_each_op(program, [&](program::OpId, const Op& op, std::int64_t times) {
    ledger::TracedOperation traced;
    traced.phase = name(op.phase);
    traced.component = name(op.component);
    traced.label = op.label;
    traced.function =
        program::communicates(op) ? name(op.collective) : program::info(op.function).name;
    traced.times = times;
    for (const program::Operand& operand : program.operands(op)) {
      const Tensor& tensor = program.tensor(operand.ref.tensor);
      traced.operands.push_back(fmt::format("{} {} {} = {}: {}",
                                            access_word(operand.access),
                                            program::display_name(tensor),
                                            program::shape_in_symbols(program.mesh(), tensor),
                                            program::shape_in_numbers(program.mesh(), tensor),
                                            layout_in_words(program.mesh(), tensor)));
    }
    trace.push_back(std::move(traced));
  });
  return trace;
}

}  // namespace trireme::study
