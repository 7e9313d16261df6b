// Births and deaths of tensors, derived from the references of a finished program.
#pragma once

#include "sim/program/program.h"

namespace trireme::program {

/// Fills births, deaths and `saved` of a program's pool, and the deaths of its repeats. An instance
/// is born at the first reference to it, which must write it, and dies at the last. A tensor that
/// does not vary over the index of a repeat it is used in dies when that repeat ends. Since
/// operations of a repeat stand for every iteration, and those of a segment for every run, a birth
/// or a death that happens in some of them only is refused: the boundary must be peeled. Throws
/// BuildError, naming operation and tensor.
void derive_lifetimes(Pool& pool,
                      std::vector<Node>& nodes,
                      std::vector<RepeatDeath>& repeat_deaths);

}  // namespace trireme::program
