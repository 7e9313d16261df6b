// Births and deaths of tensors, derived from the references of a finished program.
#pragma once

#include "sim/program/program.h"

namespace trireme::program {

/// Fills births, deaths and `saved` of a program. An instance is born at the first reference to it,
/// which must write it, and dies at the last. A tensor that does not vary over the index of a
/// repeat it is used in dies when that repeat ends. Since operations of a repeat stand for every
/// iteration, a birth or a death that happens in some iterations only is refused: the boundary
/// must be peeled. Throws BuildError, naming operation and tensor.
void derive_lifetimes(Program& program);

}  // namespace trireme::program
