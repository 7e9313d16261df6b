// The keys of a study, except its sweep.
#pragma once

#include <string>
#include <vector>

#include "sim/config/library.h"
#include "sim/config/node.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// What the points of a sweep share that change other keys: most of what there is to read.
struct SharedParts {
  ModelSpec model;
  ClusterSpec cluster;  // before any what-if
  std::vector<std::string> defaults_used;
};

/// Of a study that read_study accepts.
[[nodiscard]] SharedParts read_shared_parts(const Node& root, const Library& library);

/// Reads a study from its whole file, of which the `sweep` is left out; its model and cluster are
/// those of `shared` where that is given. Throws Error (input), located, for what interface.md
/// calls bad input; whether a plan is legal is not asked here.
[[nodiscard]] StudySpec read_study(const Node& root,
                                   const Library& library,
                                   const SharedParts* shared = nullptr);

/// Whether the sizes of a study whose length was changed are still ones that a file may state.
[[nodiscard]] bool within_limits(const StudySpec& study);

}  // namespace trireme::config
