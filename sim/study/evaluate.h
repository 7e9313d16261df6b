// Evaluates a study: every plan at every point, read off its step program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/config/study_file.h"
#include "sim/config/study_spec.h"
#include "sim/engine/analytic.h"
#include "sim/ledger/result.h"

namespace trireme::study {

/// The cluster's links, at their line rates and without latencies.
[[nodiscard]] engine::TopologyShape topology_of(const config::ClusterSpec& cluster);

/// The cluster as the time readers see it.
[[nodiscard]] engine::Machine machine_of(const config::ClusterSpec& cluster);

/// The same inside the steps of a framework, which adds to what kernels take alone.
[[nodiscard]] engine::Machine machine_of(const config::ClusterSpec& cluster,
                                         config::Framework framework);

/// One plan of a study. An illegal plan is a result: its reasons, and no numbers.
[[nodiscard]] ledger::PlanResult evaluate(const config::StudySpec& study,
                                          const config::PlanSpec& plan,
                                          ledger::Engine engine = ledger::Engine::analytic);

/// Every plan of a study, in its order.
[[nodiscard]] std::vector<ledger::PlanResult> evaluate(const config::StudySpec& study);

/// The study as it stands, without its sweep.
[[nodiscard]] ledger::StudyResult compare(const config::StudySpec& study,
                                          ledger::Engine engine = ledger::Engine::analytic);

/// Every plan at every point of the study's sweep, or at the study itself where nothing is swept,
/// with crossovers and memory walls. An empty `only_plan` stands for all plans. Points are
/// evaluated by as many threads as there are cores, rows are in the points' order. `progress(done,
/// all)` is called after each point, by one thread at a time. Throws Error (input) at the first
/// value that the study does not accept.
[[nodiscard]] ledger::StudyResult sweep(
    const config::StudyFile& file,
    const std::string& only_plan,
    const std::function<void(std::size_t, std::size_t)>& progress,
    ledger::Engine engine = ledger::Engine::analytic);

/// The plan of that name. Throws Error (command line) with the nearest name.
[[nodiscard]] const config::PlanSpec& find_plan(const config::StudySpec& study,
                                                const std::string& name);

/// `study` with the plan `name` alone, and the requirements on it.
[[nodiscard]] config::StudySpec only(const config::StudySpec& study, const std::string& name);

}  // namespace trireme::study
