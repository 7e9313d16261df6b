// The equation behind one operation's FLOPs or seconds, and the numbers it is given.
#pragma once

#include "sim/engine/analytic.h"
#include "sim/ledger/explanation.h"
#include "sim/program/program.h"

namespace trireme::study {

/// Fills equation, formula, numbers and source of a matrix product's or attention kernel's
/// executed operations. Not of other operations, which execute none that count.
void explain_flops(const program::Program& program, const program::Op& op, ledger::Term& term);

/// Fills equation, formula, numbers and source of an operation's device seconds: the coefficients
/// are those of the machine's profile.
void explain_seconds(const program::Program& program,
                     const program::Op& op,
                     const engine::Machine& machine,
                     ledger::Term& term);

}  // namespace trireme::study
