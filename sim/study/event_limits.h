// What the event engine takes on: it keeps every operation that a rank issues, and every slice of a
// timeline, so that a size is refused before it is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "sim/config/study_spec.h"
#include "sim/engine/analytic.h"
#include "sim/program/program.h"

namespace trireme::study {

/// Operations of a rank that are unrolled.
inline constexpr std::int64_t kMostUnrolled = std::int64_t{1} << 23;

/// Executions of operations that are simulated, over ranks that do not behave alike and runs of a
/// jitter: a quarter of an hour on one core.
inline constexpr std::int64_t kMostExecutions = std::int64_t{1} << 33;

/// Executions that a critical path is looked for among.
inline constexpr std::int64_t kMostOnPath = std::int64_t{1} << 25;

/// Slices that a timeline holds.
inline constexpr std::int64_t kMostSlices = std::int64_t{1} << 20;

/// What is kept of a step.
enum class EventUse : std::uint8_t {
  seconds,
  critical_path,
  timeline,
};

/// Why a step is too large for the event engine: one sentence that says where the study asks for
/// it; empty where it is not.
[[nodiscard]] std::string too_large(std::span<const program::Program> stages,
                                    const engine::Machine& machine,
                                    const config::StudySpec& study,
                                    EventUse use);

}  // namespace trireme::study
