// Which shapes and placements of an operation's operands fit together.
#pragma once

#include <span>

#include "sim/program/op.h"
#include "sim/program/program.h"

namespace trireme::program {

/// Throws BuildError, naming operation and tensor, where an operand's shape or layout does not
/// follow from the others: a reduction is missing, a split runs along the wrong dimension, a
/// product would need values that live on other ranks.
void check_operands(const Mesh& mesh,
                    std::span<const Tensor> tensors,
                    const Op& op,
                    std::span<const Operand> operands);

}  // namespace trireme::program
