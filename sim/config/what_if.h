// What a study asks to change of its machine and its plans: `what_if`.
#pragma once

#include "sim/config/cluster_spec.h"
#include "sim/config/node.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// Reads the map under `what_if`. Throws Error (input), located, at what the cluster has not: a
/// rank, or a kind of link.
[[nodiscard]] WhatIfSpec read_what_if(const Node& written,
                                      const ClusterSpec& cluster,
                                      std::vector<std::string>* defaults);

/// Puts into `study` what changes its links and plans. What varies the seconds of kernels stays in
/// study.what_if: only the event engine has it.
void apply_what_if(StudySpec& study);

}  // namespace trireme::config
