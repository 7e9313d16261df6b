// The keys of a study, except its sweep.
#pragma once

#include "sim/config/library.h"
#include "sim/config/node.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// Reads a study from its whole file, of which the `sweep` is left out. Throws Error (input),
/// located, for what interface.md calls bad input; whether a plan is legal is not asked here.
[[nodiscard]] StudySpec read_study(const Node& root, const Library& library);

/// Whether the sizes of a study whose length was changed are still ones that a file may state.
[[nodiscard]] bool within_limits(const StudySpec& study);

}  // namespace trireme::config
