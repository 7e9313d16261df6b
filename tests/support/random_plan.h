// Legal plans drawn from a seed, over every composition and option that lowerings model.
#pragma once

#include <cstdint>
#include <string>

#include "sim/plan/plan.h"

namespace trireme::test {

/// As random_plan, over the stages of a pipeline.
[[nodiscard]] plan::Plan random_pipeline_plan(std::uint64_t seed);

/// A plan that keeps every rule of plan::legality_rules(). Its sizes are small and odd where they
/// may be: a head dimension that is not h / a, a vocabulary and parameters that do not divide by
/// the ranks. Equal seeds draw equal plans.
[[nodiscard]] plan::Plan random_plan(std::uint64_t seed);

/// The same plan with every collective exposed.
[[nodiscard]] plan::Plan without_overlap(plan::Plan plan);

/// The same plan of a model without experts and latent attention, of which closed forms hold.
[[nodiscard]] plan::Plan plain(plan::Plan plan);

/// What a failing test needs to know of a plan, on one line.
/// A number of parts into which every rule lets the plan's sequence be cut.
[[nodiscard]] std::int64_t sequence_parts(const plan::Plan& plan);

[[nodiscard]] std::string describe(const plan::Plan& plan);

}  // namespace trireme::test
